"""NCCL's topology XML (written by ``NCCL_TOPO_DUMP_FILE``), made into a topology file.

The nesting of ``<pci>`` is the PCIe tree of a ``<cpu>``; a ``<gpu>`` lists its NVLinks by target: a GPU (class 0x03....) or an
NVSwitch (0x068000); a ``<net>`` is a port, ``speed`` in Mb/s.

>>> gpu = '<pci busid="0:{0}" class="0x030200"><gpu dev="{0}" sm="90"><nvlink target="-1" count="18" tclass="0x068000"/></gpu></pci>'
>>> text = f'<system version="1"><cpu numaid="0">{gpu.format(1)}{gpu.format(2)}</cpu></system>'
>>> [line.split("#")[0].strip() for line in import_nccl_xml(text, "topo.xml").text.splitlines() if "450 GB/s" in line]
['bandwidth: 450 GB/s']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from clustersim import units
from clustersim.document import clipped, shown
from clustersim.errors import InputError
from clustersim.importers.common import Imported, option_text, readable, remark
from clustersim.importers.gpus import GENERATIONS, Generation, GpuSection, allowed_gpus, find_gpu
from clustersim.importers.node import Nic, Node, Nvlinks, PcieDevice, nearest_nics, numbered, why_idle
from clustersim.importers.topology_text import topology_text
from clustersim.importers.xml_tree import Element, parse_xml

WHAT = "NCCL's topology XML (from NCCL_TOPO_DUMP_FILE)"
_USED = frozenset(("system", "cpu", "pci", "gpu", "nvlink", "nic", "net"))
_WHY_UNUSED = {
    "c2c": "the link between GPU and CPU carries no traffic that is simulated",
    "xgmi": "only NVLink is read",
}
_NVSWITCH, _GPU_CLASS = "0x0680", "0x03"
# PCI device ids of NVIDIA GPUs in shipped topologies (pci-ids.ucw.cz).
_OF_DEVICE = {
    "0x1db5": "V100-SXM2-32GB", "0x20b0": "A100-SXM4-40GB", "0x20b2": "A100-SXM4-80GB", "0x2330": "H100-SXM5-80GB", "0x2236": "A10-24GB",
}  # fmt: skip
_LANE_GB_S = {"2.5": 0.25, "5": 0.5, "8": 8 * 128 / 130 / 8, "16": 16 * 128 / 130 / 8, "32": 32 * 128 / 130 / 8, "64": 64 * 242 / 256 / 8}
"""Payload of one lane by its GT/s: 8b/10b up to 5, 128b/130b up to 32, 242 of 256 bytes at 64."""
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9])?)\s*GT/s(?:\s+PCIe)?\s*")
_NCCL_DEFAULT_MB_S = 10_000
_ASSUMED_SPEED = "assumed: the 10 Gb/s that NCCL takes where <net speed> is missing or not above 0"
_MAX_SPEED_MB_S = 100_000_000
_MAX_LINKS = 1000
_MAX_DEVICES = 512


@dataclass(frozen=True)
class _Device:
    """A GPU or a port of a NIC, and the ``<pci>`` elements above it, outermost first."""

    element: Element
    chain: tuple[Element, ...]
    cpu: Element

    @property
    def busid(self) -> str:
        return self.chain[-1].attributes.get("busid", "").lower() if self.chain else ""

    def distance(self, other: _Device) -> int:
        """0 under one switch, 1 under one root port, 2 under one CPU, 3 otherwise."""
        if len(self.chain) > 1 and len(other.chain) > 1 and self.chain[-2] is other.chain[-2]:
            return 0
        if self.chain and other.chain and self.chain[0] is other.chain[0]:
            return 1
        return 2 if self.cpu is other.cpu else 3


def import_nccl_xml(text: str, source: str, *, gpu: str | None = None, name: str = "imported") -> Imported:
    """A topology file from NCCL's topology XML; ``source`` is its name in messages.

    ``gpu`` names a GPU of a shipped topology (or ``fill-in``); without it the PCI device or the compute capability must tell.
    InputError, with the line, for whatever is wrong.
    """
    text = readable(text, source, WHAT)
    option_text(name, "--name", "a name for the cluster")
    root = parse_xml(text, source)
    if root.tag != "system":
        hint = "; this is the dump of NCCL_GRAPH_DUMP_FILE" if root.tag == "graphs" else ""
        got = f"got <{clipped(root.tag)}>{hint}"
        raise InputError(f"{source}:{root.line}: expected <system> as the outermost element of {WHAT}, {got}")
    hosts = {cpu.attributes.get("host_hash") for cpu in root.children if cpu.tag == "cpu"}
    if len(hosts) > 1:
        raise InputError(f"{source}: holds {len(hosts)} hosts (host_hash); expected the dump of one node")
    notes: list[str] = []
    _refuse_twins(root, source)
    gpus = _in_order(_devices(root, "gpu", source), source, notes)
    nets = _devices(root, "net", source)
    section, gpu_origin = _choose_gpu(gpus, gpu, source, notes)
    generation = section.generation
    given_speeds = [_net_speed(net, source) for net in nets]
    speeds = [speed or _NCCL_DEFAULT_MB_S for speed in given_speeds]
    used, nic_of_gpu = _affinity(gpus, nets, speeds)
    pcie, uplinks, pcie_origin = _pcie([*gpus, *(nets[i] for i in used)], source, generation, notes)
    node = Node(
        name=name,
        source=source,
        gpu=section,
        gpu_origin=gpu_origin,
        nvlinks=_read_nvlinks(gpus, source, notes),
        gpus=tuple(pcie[: len(gpus)]),
        uplinks=tuple(uplinks),
        pcie_origin=pcie_origin,
        nics=tuple(
            Nic(_net_name(nets[i]), f"{speeds[i] / 1000:g} Gb/s", link, "<net speed>" if given_speeds[i] else _ASSUMED_SPEED)
            for i, link in zip(used, pcie[len(gpus) :], strict=False)
        ),
        nic_of_gpu=nic_of_gpu,
        affinity_origin="nearest in the PCIe tree, then fastest, GPUs shared out evenly",
        network_latency=_latency([nets[i] for i in used], source),
    )
    written, simplified = topology_text(node)
    silent = [_net_name(net) for net, speed in zip(nets, given_speeds, strict=False) if not speed]
    if silent:
        notes.append(f"the file does not say the speed of {', '.join(silent[:8])}; {_ASSUMED_SPEED.removeprefix('assumed: ')}")
    unused = [f"{_net_name(net)}: {_why_idle(i, gpus, nets, speeds)}" for i, net in enumerate(nets) if i not in used]
    others = Counter(element.tag for element in root.walk() if element.tag not in _USED)
    unused += [f"<{clipped(tag)}>: {_WHY_UNUSED.get(tag, 'not known')}" for tag in sorted(others)]
    unused.append("CPU affinity, NUMA nodes: the file has one host")
    return Imported(written, (*notes, *simplified), tuple(unused))


def _devices(root: Element, tag: str, source: str) -> list[_Device]:
    found: list[_Device] = []

    def look(element: Element, chain: tuple[Element, ...], cpu: Element) -> None:
        if element.tag == tag:
            found.append(_Device(element, chain, cpu))
        for child in element.children:
            look(child, (*chain, child) if child.tag == "pci" else chain, child if child.tag == "cpu" else cpu)

    look(root, (), root)
    if len(found) > _MAX_DEVICES:
        raise InputError(f"{source}:{found[_MAX_DEVICES].element.line}: more than {_MAX_DEVICES:,} <{tag}>; allowed: one node's")
    return found


def _refuse_twins(root: Element, source: str) -> None:
    """A device that is there twice would be counted twice."""
    elements = list(root.walk())
    for tag, key in (("pci", "busid"), ("gpu", "rank"), ("gpu", "dev")):
        _refuse_twin((element for element in elements if element.tag == tag), key, source)
    for gpu in (element for element in elements if element.tag == "gpu"):
        _refuse_twin((link for link in gpu.children if link.tag == "nvlink"), "target", source)


def _refuse_twin(elements: Iterable[Element], key: str, source: str) -> None:
    lines: dict[str, int] = {}
    for element in elements:
        value = element.attributes.get(key, "").strip().lower()
        if value in lines:
            raise InputError(
                f"{source}:{element.line}: <{element.tag} {key}>: {shown(value)} is that of line {lines[value]} too; expected each once"
            )
        if value:
            lines[value] = element.line


def _in_order(gpus: list[_Device], source: str, notes: list[str]) -> list[_Device]:
    """By rank, or by device number, whichever tells all of them apart."""
    if not gpus:
        raise InputError(f"{source}: no <gpu> in the file; expected {WHAT}")
    for key in ("rank", "dev"):
        if all(key in gpu.element.attributes for gpu in gpus):
            numbers = [_whole(gpu.element, key, source, 10**6) for gpu in gpus]
            if len(set(numbers)) == len(numbers):
                return [gpu for _, gpu in sorted(zip(numbers, gpus, strict=False), key=lambda pair: pair[0])]
    notes.append("neither rank nor dev tells the GPUs apart; they are numbered in the order of the file")
    return gpus


def _whole(element: Element, key: str, source: str, maximum: int, minimum: int = 0) -> int:
    text = element.attributes.get(key, "")
    value = int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) else None
    if value is None or not minimum <= value <= maximum:
        given = shown(text) if key in element.attributes else "nothing"
        raise InputError(
            f"{source}:{element.line}: <{element.tag} {key}>: expected a whole number from {minimum} to {maximum:,}, got {given}"
        )
    return value


def _choose_gpu(gpus: list[_Device], gpu: str | None, source: str, notes: list[str]) -> tuple[GpuSection, str]:
    if gpu is not None:
        section = find_gpu(gpu)
        return section, f"Asked for; from topologies/{section.topology}.yaml." if section.topology else "Asked for."
    kinds = {(g.chain[-1].attributes.get("device", "") if g.chain else "", g.element.attributes.get("sm", "")) for g in gpus}
    if len(kinds) == 1 and not any("gcn" in g.element.attributes for g in gpus):
        ((device, capability),) = kinds
        try:
            if device.lower() in _OF_DEVICE:
                section = find_gpu(_OF_DEVICE[device.lower()])
                return section, f"PCI device {device.lower()}; from topologies/{section.topology}.yaml."
            if re.fullmatch("[0-9]{1,4}", capability) and int(capability) in GENERATIONS:
                section = find_gpu(GENERATIONS[int(capability)].label)
                notes.append(f"GPU is assumed, {section.name}, by its compute capability {int(capability)}; --gpu gives another")
                return section, f"Assumed, by compute capability {int(capability)}; from topologies/{section.topology}.yaml."
        except InputError:
            pass  # known, but no shipped machine has one
    given = ", ".join(sorted(remark(f"device {device or '?'} sm {capability or '?'}") for device, capability in kinds)[:3])
    raise InputError(f"{source}: no shipped topology has this GPU ({given}); --gpu must name one: {allowed_gpus()}")


def _read_nvlinks(gpus: list[_Device], source: str, notes: list[str]) -> Nvlinks | None:
    number = {gpu.busid: i for i, gpu in enumerate(gpus) if gpu.busid}
    uplinks = [0] * len(gpus)
    peers: list[Counter[int]] = [Counter() for _ in gpus]
    elsewhere: Counter[str] = Counter()
    for i, gpu in enumerate(gpus):
        for link in gpu.element.children:
            if link.tag != "nvlink":
                continue
            count = _whole(link, "count", source, _MAX_LINKS, minimum=1)
            target = link.attributes.get("target", "").lower()
            kind = link.attributes.get("tclass", "").lower()
            if target in number:
                peers[i][number[target]] += count
            elif kind.startswith(_NVSWITCH):
                uplinks[i] += count
            elif kind.startswith(_GPU_CLASS):
                elsewhere["a GPU that is not in the file"] += count
            else:
                elsewhere[f"a device of class {remark(kind) or 'unknown'}"] += count
    notes += [f"{count} NVLinks go to {where}; the file leaves them out" for where, count in elsewhere.items()]
    for a, row in enumerate(peers):
        for b, count in row.items():
            if a == b or peers[b][a] != count:
                raise InputError(
                    f"{source}:{gpus[a].element.line}: GPU {a} has {count} NVLinks to GPU {b}, which has {peers[b][a]} back;"
                    " expected two GPUs with the same number both ways"
                )
    pairs = tuple((a, b, count) for a, row in enumerate(peers) for b, count in sorted(row.items()) if a < b)
    if not any(uplinks):
        return Nvlinks("<nvlink> targets are GPUs (class 0x03....)", pairs=pairs) if pairs else None
    others = " and GPUs (0x03....)" if pairs else ""
    return Nvlinks(f"<nvlink> targets are NVSwitches (class 0x0680..){others}", uplinks=tuple(uplinks), pairs=pairs)


def _pcie(
    devices: list[_Device], source: str, generation: Generation, notes: list[str]
) -> tuple[list[PcieDevice], list[str], str]:
    """The PCIe link of each device, the bandwidths of the switches' uplinks, and where they are from.

    The outermost bridge of several devices is their switch; what is nested below it narrows a device's link, no more.
    """
    bridges = [id(device.chain[0]) if device.chain else id(device) for device in devices]
    switches = numbered([bridge if bridges.count(bridge) > 1 else None for bridge in bridges])
    known: list[bool] = []

    def text(chain: tuple[Element, ...]) -> str:
        rates = [rate for pci in chain if (rate := _pci_rate(pci, source))]
        known.append(bool(rates))
        return units.bandwidth_text(min(rates) * 1e9) if rates else generation.pcie

    links: list[PcieDevice] = []
    uplinks: dict[int, str] = {}
    for device, switch in zip(devices, switches, strict=False):
        # Several ports of one NIC share its link: they are their own "switch".
        below = device.chain if switch is None else device.chain[1:] or device.chain
        links.append(PcieDevice(switch, text(below)))
        if switch is not None:
            uplinks[switch] = text(device.chain[:1])
    origin = "<pci link_speed link_width>, payload after line coding"
    if not all(known):
        some = "some" if any(known) else "the"
        notes.append(f"{some} PCIe links have no speed in the file; {generation.pcie} is assumed ({generation.pcie_source})")
        assumed = f"assumed: {generation.pcie_source}"
        origin = f"{origin}; {generation.pcie} {assumed}" if any(known) else assumed
    if any(_lanes_assumed(pci) for device in devices for pci in device.chain):
        notes.append("some PCIe links have no width in the file; 16 lanes are assumed, as NCCL does")
    return links, [uplinks[switch] for switch in sorted(uplinks)], origin


def _pci_rate(pci: Element, source: str) -> float:
    """GB/s of payload; 0 where the file does not say (``""``, ``Unknown``)."""
    match = _SPEED.fullmatch(pci.attributes.get("link_speed", ""))
    per_lane = _LANE_GB_S.get(match[1].removesuffix(".0")) if match else None
    if match and per_lane is None:
        allowed = ", ".join(_LANE_GB_S)
        raise InputError(f"{source}:{pci.line}: <pci link_speed>: unknown {shown(match[0])}; allowed: {allowed} GT/s")
    if per_lane is None:
        return 0.0
    width = _whole(pci, "link_width", source, 32) if pci.attributes.get("link_width") else 16
    return round(per_lane * (width or 16), 3)


def _lanes_assumed(pci: Element) -> bool:
    return bool(_SPEED.fullmatch(pci.attributes.get("link_speed", ""))) and pci.attributes.get("link_width", "") in ("", "0")


def _net_name(net: _Device) -> str:
    return remark(net.element.attributes.get("name") or f"net {net.element.attributes.get('dev', '?')}")


def _net_speed(net: _Device, source: str) -> int:
    """In Mb/s; 0 where the file does not say."""
    if "speed" not in net.element.attributes:
        return 0
    return max(0, _whole(net.element, "speed", source, _MAX_SPEED_MB_S, minimum=-(10**9)))


def _why_idle(nic: int, gpus: list[_Device], nets: list[_Device], speeds: list[int]) -> str:
    hops = [[gpu.distance(net) for net in nets] for gpu in gpus]
    near = [row for row in hops if row[nic] == min(row)]
    slower = [any(hop == row[nic] and speed > speeds[nic] for hop, speed in zip(row, speeds, strict=False)) for row in near]
    return "others as near are faster" if near and all(slower) else why_idle(nic, hops)


def _affinity(gpus: list[_Device], nets: list[_Device], speeds: list[int]) -> tuple[list[int], tuple[int, ...]]:
    """The NICs that GPUs use, and for each GPU its position among them."""
    if not nets:
        return [], ()
    order = {speed: rank for rank, speed in enumerate(sorted(set(speeds), reverse=True))}
    distances = [[gpu.distance(net) * len(order) + order[speed] for net, speed in zip(nets, speeds, strict=False)] for gpu in gpus]
    chosen = nearest_nics(distances)
    used = sorted(set(chosen))
    return used, tuple(used.index(nic) for nic in chosen)


def _latency(nets: list[_Device], source: str) -> tuple[str, str] | None:
    """The network's latency where the file has one; NCCL writes microseconds, 0 for unknown."""
    most = 0.0
    for net in nets:
        text = net.element.attributes.get("latency", "0")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text):
            raise InputError(f"{source}:{net.element.line}: <net latency>: expected microseconds, got {shown(text)}")
        most = max(most, float(text))
    half = f"{most / 2:.9f}".rstrip("0").rstrip(".")
    return (f"{half} us", f"<net latency> {most:g} us, over the two links of a route") if most else None
