"""Topology files: read, checked, and made into a cluster.

>>> cluster = check_cluster("dgx-h100")
>>> cluster.gpu.name, cluster.gpus_per_node, cluster.link(cluster.route(0, 1)[0]).bandwidth_bytes_s
('H100-SXM5-80GB', 8, 450000000000)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clustersim import document, presets, units
from clustersim.cluster.spec import LINK_KINDS, NETWORK, PRECISIONS, Cluster, Gpu, Link
from clustersim.document import Section
from clustersim.errors import InputError

LINK_KEYS = ("bandwidth", "latency", "efficiency")
_MAX_GPUS_PER_NODE = 1024


@dataclass(frozen=True)
class _Rate:
    """What the links of one kind have in common."""

    kind: str
    bandwidth_bytes_s: int
    latency_ps: int
    efficiency: float

    def both_ways(self, a: str, b: str, bonded: int = 1) -> list[Link]:
        bandwidth = bonded * self.bandwidth_bytes_s
        return [
            Link(f"{source}>{target}", source, target, self.kind, bandwidth, self.latency_ps, self.efficiency)
            for source, target in ((a, b), (b, a))
        ]


def load_cluster(
    reference: str,
    *,
    gpus: int,
    nodes: int | None,
    overrides: Mapping[str, Section],
    near: Path,
    place: str,
    link_delay_ps: int = 0,
) -> Cluster:
    """The cluster of a preset or a topology file (relative to ``near``), large enough for ``gpus`` GPUs.

    Without ``nodes`` it has as many as the GPUs need. ``overrides`` maps a link kind to a section of another file whose
    keys (``bandwidth``, ``latency``, ``efficiency``) replace those of all links of that kind. ``link_delay_ps`` is for
    ideal clusters only. Raises InputError, at ``place`` for what concerns the choice and the size of the cluster.
    """
    if gpus <= 0:
        raise InputError(f"{place}: a cluster needs at least 1 GPU, got {gpus}")
    if nodes is not None and nodes <= 0:
        raise InputError(f"{place}: a cluster needs at least 1 node, got {nodes}")
    node = _read(presets.find(reference, "topologies", near, "cluster", place), overrides)
    if node.ideal:
        nodes = nodes or 1
        cluster = replace(node, nodes=nodes, gpus_per_node=-(-gpus // nodes), link_delay_ps=link_delay_ps)
    else:
        if link_delay_ps > 0:
            raise InputError(f"{place}: only `cluster: ideal` takes link_delay; the links of {node.name} have a latency")
        cluster = replace(node, nodes=nodes or -(-gpus // node.gpus_per_node))
    if gpus > cluster.gpus:
        raise InputError(
            f"{place}: {gpus} GPUs do not fit on {cluster.nodes} nodes of {cluster.name} with {cluster.gpus_per_node} GPUs"
            f" each; allowed: at most {cluster.gpus} GPUs, or at least {-(-gpus // cluster.gpus_per_node)} nodes"
        )
    _check_connected(cluster, place)
    return cluster


def check_cluster(reference: str | Path) -> Cluster:
    """A topology file, checked whole: two nodes of it, or one when it has no NICs; InputError when anything is wrong."""
    reference = str(reference)
    path = presets.find(reference, "topologies", Path(), "cluster", reference)
    node = _read(path, {})
    cluster = replace(node, nodes=2 if node.nic_of_gpu else 1)
    _check_connected(cluster, str(path))
    return cluster


def _check_connected(cluster: Cluster, place: str) -> None:
    pair = cluster.unreachable()
    if pair is not None:
        hint = "; several nodes need node.nics of at least 1" if not cluster.nic_of_gpu else ""
        a, b = (cluster.device_of(gpu) for gpu in pair)
        raise InputError(f"{place}: cluster {cluster.name}: {a} cannot reach {b} over any links{hint}")


def _read(path: Path, overrides: Mapping[str, Section]) -> Cluster:
    """One node of the file at ``path``."""
    top = document.load(path).section("", ("name", "description", "ideal", "gpu", "node", "network"))
    name, description = top.text("name", path.stem), top.text("description", "")
    gpu = _read_gpu(top.section("gpu", ("name", "memory", "memory_bandwidth", "peak", "efficiency")))
    if top.boolean("ideal", False):
        for key in ("node", "network"):
            if key in top:
                top.error(key, "an ideal cluster has no links: leave this section out, or `ideal: true`")
        _refuse_absent(overrides, (), name)
        return Cluster(name, description, gpu, gpus_per_node=1, nodes=1, ideal=True)

    node = top.section("node", ("gpus", "nvlink", "pcie", "nics", "nic_of_gpu"))
    gpus = node.integer("gpus", maximum=_MAX_GPUS_PER_NODE)
    nics = node.integer("nics", 0, minimum=0, maximum=_MAX_GPUS_PER_NODE)
    if nics == 0 and "network" in top:
        top.error("network", "the nodes have no NICs to reach it: give node.nics, or leave this section out")
    nic_of_gpu = _read_affinity(node, gpus, nics)
    pcie = node.section("pcie", (*LINK_KEYS, "gpus_per_switch"))
    per_switch = pcie.integer("gpus_per_switch", 1, maximum=gpus)
    switches = -(-gpus // per_switch)
    present = ["pcie"] + ["nvlink"] * ("nvlink" in node) + ["network"] * (nics > 0)
    _refuse_absent(overrides, present, name)

    devices = [*((f"pcie{i}", "pcie_switch") for i in range(switches)), ("host", "host")]
    devices += [(f"nic{i}", "nic") for i in range(nics)]
    links: list[Link] = []
    if "nvlink" in node:
        nvlink = node.section("nvlink", (*LINK_KEYS, "layout", "pairs"))
        rate = _read_rate("nvlink", nvlink, overrides)
        if nvlink.choice("layout", ("switch", "mesh")) == "switch":
            if "pairs" in nvlink:
                nvlink.error("pairs", "only `layout: mesh` has pairs; with a switch every GPU has one link to it")
            devices.insert(0, ("nvswitch", "nvswitch"))
            for i in range(gpus):
                links += rate.both_ways(f"gpu{i}", "nvswitch")
        else:
            for a, b, bonded in _read_pairs(nvlink, gpus):
                links += rate.both_ways(f"gpu{a}", f"gpu{b}", bonded)
    rate = _read_rate("pcie", pcie, overrides)
    for i in range(gpus):
        links += rate.both_ways(f"gpu{i}", f"pcie{i // per_switch}")
    for i in range(switches):
        links += rate.both_ways(f"pcie{i}", "host")
    for i in range(nics):
        links += rate.both_ways(f"nic{i}", f"pcie{nic_of_gpu.index(i) // per_switch}")
    if nics:
        rate = _read_rate("network", top.section("network", LINK_KEYS), overrides)
        for i in range(nics):
            links += rate.both_ways(f"nic{i}", NETWORK)
    return Cluster(name, description, gpu, gpus, 1, tuple(devices), tuple(links), nic_of_gpu)


def _read_gpu(section: Section) -> Gpu:
    peak = section.section("peak", PRECISIONS)
    if not peak.data:
        section.error("peak", f"give the peak of at least one precision: {', '.join(PRECISIONS)}")
    return Gpu(
        name=section.text("name"),
        peak_flop_s={precision: peak.quantity(precision, "compute", positive=True) for precision in peak.data},
        memory_bytes=section.quantity("memory", "size", positive=True),
        memory_bandwidth_bytes_s=section.quantity("memory_bandwidth", "bandwidth", positive=True),
        efficiency=section.number("efficiency"),
    )


def _read_rate(kind: str, section: Section, overrides: Mapping[str, Section]) -> _Rate:
    def owner(key: str) -> Section:
        override = overrides.get(kind)
        return override if override is not None and key in override else section

    return _Rate(
        kind,
        owner("bandwidth").quantity("bandwidth", "bandwidth", positive=True),
        units.to_ps(owner("latency").quantity("latency", "time")),
        owner("efficiency").number("efficiency", 1.0),
    )


def _refuse_absent(overrides: Mapping[str, Section], present: list[str] | tuple[str, ...], name: str) -> None:
    for kind, section in overrides.items():
        if section.data and kind not in present:
            has = f"it has {', '.join(k for k in LINK_KINDS if k in present)}" if present else "it has no links"
            section.error("", f"cluster {name} has no {kind} links to change; {has}")


def _read_affinity(node: Section, gpus: int, nics: int) -> tuple[int, ...]:
    given = node.raw("nic_of_gpu", None)
    if given is None:
        affinity = [gpu * nics // gpus for gpu in range(gpus)] if nics else []
    else:
        allowed = f"from 0 to {nics - 1}" if nics else "none, since nics is 0"
        if not isinstance(given, list) or len(given) != gpus:
            shown = f"a list of {len(given)}" if isinstance(given, list) else document.shown(given)
            node.error("nic_of_gpu", f"expected a list of {gpus} NIC numbers, one for each GPU, got {shown}")
        for gpu, nic in enumerate(given):
            if isinstance(nic, bool) or not isinstance(nic, int) or not 0 <= nic < nics:
                node.error("nic_of_gpu", f"GPU {gpu} has no such NIC: {document.shown(nic)}; allowed: {allowed}")
        affinity = given
    unused = set(range(nics)) - set(affinity)
    if unused:
        key = "nics" if given is None else "nic_of_gpu"
        node.error(key, f"NIC {min(unused)} serves no GPU; allowed: NICs that at least one GPU uses")
    return tuple(affinity)


def _read_pairs(nvlink: Section, gpus: int) -> list[tuple[int, int, int]]:
    pairs = nvlink.raw("pairs")
    if not isinstance(pairs, list) or not pairs:
        nvlink.error("pairs", f"expected a list of [GPU, GPU, number of links], got {document.shown(pairs)}")
    seen: set[frozenset[int]] = set()
    for position, pair in enumerate(pairs):
        where = f"entry {position + 1}"
        whole = isinstance(pair, list) and len(pair) == 3 and all(type(value) is int for value in pair)
        if not whole or pair[2] < 1:
            text = str(pair) if isinstance(pair, list) else document.shown(pair)
            nvlink.error("pairs", f"{where}: expected [GPU, GPU, number of links], for example [0, 1, 2], got {text[:60]}")
        a, b, _ = pair
        for gpu in (a, b):
            if not 0 <= gpu < gpus:
                nvlink.error("pairs", f"{where} {pair}: no GPU {gpu}; allowed: 0 to {gpus - 1}")
        if a == b:
            nvlink.error("pairs", f"{where} {pair}: joins GPU {a} to itself; allowed: two different GPUs")
        if frozenset((a, b)) in seen:
            nvlink.error("pairs", f"{where} {pair}: GPUs {a} and {b} are joined already; give the sum of their links once")
        seen.add(frozenset((a, b)))
    return [tuple(pair) for pair in pairs]
