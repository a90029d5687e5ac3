"""Topology files: read, checked, and made into a cluster.

>>> cluster = check_cluster("dgx-h100")
>>> link, share = cluster.route(0, 1).links[0]
>>> cluster.gpu.name, cluster.gpus_per_node, cluster.link(link).bandwidth_bytes_s
('H100-SXM5-80GB', 8, 450000000000)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from clustersim import document, presets
from clustersim.cluster import gpus as sheets
from clustersim.cluster import network as networks
from clustersim.cluster import node as one_node
from clustersim.cluster.explicit import nodes_of, read_wiring
from clustersim.cluster.links import LINK_KINDS
from clustersim.cluster.rates import LINK_KEYS, NETWORK_KEYS, OVERRIDE_KEYS, Overrides, refuse_absent, refuse_keys
from clustersim.cluster.spec import Cluster, Gpu
from clustersim.collectives.algorithms import ALGORITHMS
from clustersim.collectives.protocols import read_protocols
from clustersim.document import Document, Section
from clustersim.errors import InputError

__all__ = ["LINK_KEYS", "NETWORK_KEYS", "OVERRIDE_KEYS", "check_cluster", "inline_topology", "load_cluster"]

BASE = "base"
"""In an inline cluster, the preset or file whose keys hold where the mapping has none."""

_KEYS = ("name", "description", "ideal", "gpu", "node", "network", "devices", "links", "collectives")
_LEAST_IN_SWITCH = 0.001


@dataclass(frozen=True)
class _Read:
    """What a file says: a cluster of one node, or the whole of it, and the place of what is wrong with its size."""

    cluster: Cluster
    top: Section

    def sized(self, nodes: int) -> Cluster:
        """With so many nodes; a whole cluster stays as it is."""
        if self.cluster.whole:
            return self.cluster
        try:
            return replace(self.cluster, nodes=nodes, fabric=self.cluster.fabric.sized(nodes))
        except ValueError as error:
            self.top.document.error(f"network.{networks.SIZE_KEY[self.cluster.fabric.layout]}", str(error))

    def check_connected(self, cluster: Cluster, place: str) -> None:
        pair = cluster.unreachable()
        if pair is None:
            return
        explicit = "devices." if cluster.whole else "node.devices." if cluster.gpu_names else ""
        hint = "" if explicit or cluster.nic_of_gpu else "; several nodes need node.nics of at least 1"
        a, b = (cluster.device_of(gpu) for gpu in pair)
        if explicit:
            name = a if cluster.whole else a.partition("/")[2]
            place = self.top.document.place(explicit + name)
        raise InputError(f"{place}: cluster {cluster.name}: {a} cannot reach {b} over any links{hint}")


def inline_topology(read: Document, path: str, near: Path) -> Document:
    """The topology in the mapping at the top-level key ``path`` of an experiment, put over that which its key ``base`` names.

    >>> read = Document({"cluster": {"base": "dgx-h100", "gpu": {"memory": "141 GB"}}}, "experiment.yaml")
    >>> topology = inline_topology(read, "cluster", Path("."))
    >>> topology.data["gpu"]["memory"], topology.data["gpu"]["name"], topology.data["node"]["gpus"]
    ('141 GB', 'H100-SXM5-80GB', 8)
    """
    own = read.section(path, (BASE, *_KEYS))
    lines = {key.removeprefix(f"{path}."): line for key, line in read.lines.items() if key.startswith(f"{path}.")}
    data = {key: value for key, value in own.data.items() if key != BASE}
    reference = own.text(BASE, None, "the name of a cluster or a path to a topology file")
    if reference is None:
        return Document({"name": "inline", **data}, f"{read.place(path)}: {path}", lines)
    file = presets.find(reference, "topologies", near, "cluster", f"{read.place(f'{path}.{BASE}')}: {path}")
    under = document.load(file)
    return Document(_over({"name": file.stem, **under.data}, data), under.source, {**under.lines, **lines})


def _over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` where it has a key, mapping inside mapping; elsewhere ``under``."""
    inside = [key for key, value in over.items() if isinstance(value, Mapping) and isinstance(under.get(key), Mapping)]
    return {**under, **over, **{key: _over(under[key], over[key]) for key in inside}}


def load_cluster(
    reference: str | Document,
    *,
    gpus: int,
    nodes: int | None,
    overrides: Overrides,
    near: Path,
    place: str,
    link_delay_ps: int = 0,
) -> Cluster:
    """The cluster of a preset, a topology file (relative to ``near``) or a topology, large enough for ``gpus`` GPUs.

    Without ``nodes`` it has as many as the GPUs need; a file that lists all devices has those. ``overrides`` maps a link kind
    to a section of another file whose keys (``OVERRIDE_KEYS``) replace those of all links of that kind; the bandwidth of
    links between switches changes in proportion. ``link_delay_ps`` is for ideal clusters only. Raises InputError, at
    ``place`` for what concerns the choice and the size of the cluster.
    """
    if gpus <= 0:
        raise InputError(f"{place}: a cluster needs at least 1 GPU, got {gpus}")
    if nodes is not None and nodes <= 0:
        raise InputError(f"{place}: a cluster needs at least 1 node, got {nodes}")
    if not isinstance(reference, Document):
        reference = document.load(presets.find(reference, "topologies", near, "cluster", place))
    read = _read(reference, overrides)
    one = read.cluster
    if one.ideal:
        nodes = nodes or 1
        return replace(one, nodes=nodes, gpus_per_node=-(-gpus // nodes), link_delay_ps=link_delay_ps)
    if link_delay_ps > 0:
        raise InputError(f"{place}: only `cluster: ideal` takes link_delay; the links of {one.name} have a latency")
    if one.whole and nodes not in (None, one.nodes):
        raise InputError(f"{place}: {one.name} has {one.nodes} nodes, each of them listed, not {nodes}; allowed: {one.nodes}")
    cluster = read.sized(nodes or -(-gpus // one.gpus_per_node))
    if gpus > cluster.gpus:
        more = "" if one.whole else f", or at least {-(-gpus // cluster.gpus_per_node)} nodes"
        raise InputError(
            f"{place}: {gpus} GPUs do not fit on {cluster.nodes} nodes of {cluster.name} with {cluster.gpus_per_node} GPUs"
            f" each; allowed: at most {cluster.gpus} GPUs{more}"
        )
    read.check_connected(cluster, place)
    return cluster


def check_cluster(reference: str | Path) -> Cluster:
    """A topology file, checked whole: as few nodes as show every level of its network, or one when it has no NICs.

    InputError when anything is wrong.
    """
    reference = str(reference)
    path = presets.find(reference, "topologies", Path(), "cluster", reference)
    read = _read(document.load(path), {})
    cluster = read.sized(read.cluster.fabric.least_nodes if read.cluster.nic_of_gpu else 1)
    read.check_connected(cluster, str(path))
    return cluster


def _read(topology: Document, overrides: Overrides) -> _Read:
    top = topology.section("", _KEYS)
    name, description = top.text("name", Path(topology.source).stem), top.text("description", "")
    gpu = _read_gpu(top)
    if top.boolean("ideal", False):
        sections = ("node", "network", "devices", "links", "collectives")
        refuse_keys(top, sections, "an ideal cluster has no links: leave this section out, or `ideal: true`")
        refuse_absent(overrides, (), name)
        return _Read(Cluster(name, description, gpu, gpus_per_node=1, nodes=1, ideal=True), top)
    whole = "devices" in top or "links" in top
    cluster = (_read_whole if whole else _read_nodes)(top, Cluster(name, description, gpu, 1, 1), overrides)
    present = {link.kind for link in cluster.node_links}
    refuse_absent(overrides, [kind for kind in LINK_KINDS if kind in present], name)
    return _Read(_read_collectives(top, cluster), top)


def _read_collectives(top: Section, cluster: Cluster) -> Cluster:
    """How the library of this machine does collectives: its algorithms, its protocols, whether the NVSwitches reduce."""
    section = top.section("collectives", ("algorithms", "protocols", "in_switch"))
    in_switch = section.number("in_switch", None)
    if in_switch is not None and not any(kind == "nvswitch" for _, kind in cluster.devices):
        section.error("in_switch", "the nodes have no NVSwitch that could reduce; leave this out")
    if in_switch is not None and in_switch < _LEAST_IN_SWITCH:
        section.error("in_switch", f"expected a number from {_LEAST_IN_SWITCH:g} to 1, got {document.shown(in_switch)}")
    algorithms = _read_algorithms(section)
    if "algorithms" in section and "in-switch" in algorithms and in_switch is None:
        section.error("algorithms", "in-switch needs `in_switch:`, the share of the links that it reaches; add that, or leave it out here")
    return replace(
        cluster,
        algorithms=algorithms,
        protocols=read_protocols(section),
        in_switch=None if in_switch is None else Fraction(in_switch).limit_denominator(10**6),
    )


def _read_algorithms(section: Section) -> tuple[str, ...]:
    names = section.raw("algorithms", list(ALGORITHMS))
    if not isinstance(names, list) or not names:
        section.error("algorithms", f"expected a list of {', '.join(ALGORITHMS)}, got {document.shown(names)}")
    for position, name in enumerate(names):
        if name not in ALGORITHMS:
            hint = document.nearest(str(name), ALGORITHMS)
            section.error("algorithms", f"unknown algorithm {document.shown(name)}{hint}; allowed: {', '.join(ALGORITHMS)}")
        if name in names[:position]:
            section.error("algorithms", f"{name} is given twice; name each once")
    return tuple(names)


def _read_whole(top: Section, bare: Cluster, overrides: Overrides) -> Cluster:
    refuse_keys(top, ("node",), "`devices` and `links` give the whole cluster: leave this section out, or put them into it")
    wiring = read_wiring(top, overrides, whole=True)
    nodes, gpus_per_node = nodes_of(wiring, top)
    return replace(
        bare,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        devices=wiring.devices,
        node_links=wiring.links,
        gpu_names=wiring.gpus,
        forwarding=wiring.forwarding,
        routing=networks.read_routing(top.section("network", ("routing",)), overrides),
        whole=True,
    )


def _read_nodes(top: Section, bare: Cluster, overrides: Overrides) -> Cluster:
    section = top.section("node", one_node.KEYS)
    node = one_node.read_node(section, overrides)
    cluster = replace(
        bare,
        gpus_per_node=node.gpus,
        devices=node.devices,
        node_links=node.links,
        nic_of_gpu=node.nic_of_gpu,
        gpu_names=node.gpu_names,
        forwarding=node.forwarding,
    )
    if not node.nics:
        if "network" in top:
            top.error("network", "the nodes have no NICs to reach it: give node.nics, or leave this section out")
        return cluster
    network = top.section("network", networks.KEYS)
    return replace(
        cluster,
        node_links=node.links + one_node.network_links(node, network, overrides),
        fabric=networks.read_fabric(network, overrides, len(node.nics)),
        routing=networks.read_routing(network, overrides),
    )


def _read_gpu(top: Section) -> Gpu:
    """A GPU that comes with the product, by name, with what is said otherwise; or one described in full, with an efficiency."""
    given = top.section("gpu", sheets.MAPPING_KEYS)
    return sheets.read_gpu(sheets.completed(given))
