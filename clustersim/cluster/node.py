"""The ``node`` section of a topology file: what is inside one node."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim import document
from clustersim.cluster.explicit import read_wiring
from clustersim.cluster.fabrics import NETWORK
from clustersim.cluster.links import Link
from clustersim.cluster.rates import LINK_KEYS, Overrides, read_rate, refuse_keys
from clustersim.document import Section

KEYS = ("gpus", "nvlink", "pcie", "nics", "nic_of_gpu", "devices", "links")
_EXPLICIT_KEYS, _SHORT_KEYS = ("devices", "links"), ("gpus", "nvlink", "pcie", "nics")
_MAX_GPUS = _MAX_SWITCHES = 1024
_MAX_NVLINKS = 8192  # between the GPUs and the NVSwitches of a node: reachability is checked GPU by GPU


@dataclass(frozen=True)
class Node:
    """As the fields of a cluster of these names; links of NICs to the network are not in here."""

    gpus: int
    gpu_names: tuple[str, ...]
    devices: tuple[tuple[str, str], ...]
    links: tuple[Link, ...]
    nic_of_gpu: tuple[int, ...]
    forwarding: tuple[str, ...] = ()

    @property
    def nics(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.devices if kind == "nic")


def read_node(node: Section, overrides: Overrides) -> Node:
    """A node by its ``gpus``, ``nvlink``, ``pcie``, ``nics``, or by its ``devices`` and ``links``."""
    if any(key in node for key in _EXPLICIT_KEYS):
        refuse_keys(node, _SHORT_KEYS, "`devices` and `links` say it all: leave this out, or them")
        wiring = read_wiring(node, overrides, whole=False)
        affinity = _read_affinity(node, len(wiring.gpus), wiring.nics)
        return Node(len(wiring.gpus), wiring.gpus, wiring.devices, wiring.links, affinity, wiring.forwarding)
    gpus = node.integer("gpus", maximum=_MAX_GPUS)
    nics = node.integer("nics", 0, minimum=0, maximum=_MAX_GPUS)
    nic_of_gpu = _read_affinity(node, gpus, nics)
    if "pcie" not in node:
        node.error("", "key 'pcie' is missing: GPUs and adapters reach the host over it; expected {bandwidth: 32 GB/s, latency: 0.5 us}")
    pcie = node.section("pcie", (*LINK_KEYS, "gpus_per_switch"))
    per_switch = pcie.integer("gpus_per_switch", 1, maximum=gpus)
    switches = -(-gpus // per_switch)
    nvswitches, links = _read_nvlink(node, gpus, overrides)
    devices = [*((name, "nvswitch") for name in nvswitches), *((f"pcie{i}", "pcie_switch") for i in range(switches))]
    devices += [("host", "host"), *((f"nic{i}", "nic") for i in range(nics))]
    rate = read_rate("pcie", pcie, overrides)
    for i in range(gpus):
        links += rate.both_ways(f"gpu{i}", f"pcie{i // per_switch}")
    for i in range(switches):
        links += rate.both_ways(f"pcie{i}", "host")
    for i in range(nics):
        links += rate.both_ways(f"nic{i}", f"pcie{nic_of_gpu.index(i) // per_switch}")
    return Node(gpus, (), tuple(devices), tuple(links), nic_of_gpu)


def network_links(node: Node, network: Section, overrides: Overrides) -> tuple[Link, ...]:
    """The links between the NICs of a node and the network."""
    rate = read_rate("network", network, overrides)
    return tuple(link for nic in node.nics for link in rate.both_ways(nic, NETWORK))


def _read_nvlink(node: Section, gpus: int, overrides: Overrides) -> tuple[list[str], list[Link]]:
    """The NVSwitches and the NVLinks."""
    if "nvlink" not in node:
        return [], []
    nvlink = node.section("nvlink", (*LINK_KEYS, "layout", "pairs", "switches"))
    rate = read_rate("nvlink", nvlink, overrides)
    if nvlink.choice("layout", ("switch", "mesh")) == "mesh":
        refuse_keys(nvlink, ("switches",), "only `layout: switch` has switches")
        pairs = _read_pairs(nvlink, gpus)
        return [], [link for a, b, bonded in pairs for link in rate.times(bonded).both_ways(f"gpu{a}", f"gpu{b}")]
    refuse_keys(nvlink, ("pairs",), "only `layout: mesh` has pairs; with a switch every GPU has one link to it")
    switches = nvlink.integer("switches", 1, maximum=_MAX_SWITCHES)
    if gpus * switches > _MAX_NVLINKS:
        text = f"{gpus} GPUs, each on all of {switches} NVSwitches, have {gpus * switches:,} links"
        nvlink.error("switches", f"{text}; allowed: at most {_MAX_NVLINKS:,} a node, or one switch for all")
    names = ["nvswitch"] if switches == 1 else [f"nvswitch{i}" for i in range(switches)]
    # A GPU has the same bandwidth over any number of switches: its links are dealt out to them.
    part = rate.times(1 / switches)
    return names, [link for i in range(gpus) for name in names for link in part.both_ways(f"gpu{i}", name)]


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
