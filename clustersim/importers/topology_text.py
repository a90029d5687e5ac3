"""The topology file of a node: in the short form (``nvlink``, ``pcie``, ``nics``) where that says all, else device by device."""

from __future__ import annotations

from clustersim.importers.common import commented, remark, scalar
from clustersim.importers.gpus import Generation
from clustersim.importers.node import Node, Nvlinks, PcieDevice
from clustersim.units import parse

_PCIE_EFFICIENCY = ("0.762", "NCCL src/graph/topo.h: 12 GB/s of 15.75 for generation 3, in proportion")
_PCIE_LATENCY = ("0.5 us", "two links a route: 1.0 us, a hop of NCCL's LL protocol")
_NETWORK_EFFICIENCY = ("0.96", "NCCL src/graph/topo.h: 12 GB/s of 12.5 per 100 Gb/s")
_NETWORK_LATENCY = ("0.35 us", "four PCIe links and two of these: NCCL's 2.7 us")
_SWITCH_LATENCY = ("0.3 us", "two links a route: 0.6 us, a hop of NCCL's LL protocol")
_MESH_LATENCY = ("0.6 us", "one link is the whole route: a hop of NCCL's LL protocol")


def topology_text(node: Node) -> tuple[str, list[str]]:
    """The file, and notes on what it says otherwise than the input."""
    notes: list[str] = []
    short = _is_short(node)
    lines = [
        f"# Made by `clustersim topology import` from {remark(node.source)}. Bandwidths are nominal, per direction;",
        "# capacity = bandwidth x efficiency. What the input does not say is marked `assumed`: check it.",
        f"name: {scalar(node.name)}",
        f"description: {scalar(_description(node))}",
        f"# {node.gpu_origin}",
        node.gpu.text,
        "node:",
        *(_short_lines(node) if short else _explicit_lines(node)),
    ]
    if node.nics:
        names = ", ".join(remark(nic.name) for nic in node.nics)
        if short:
            lines.append(commented(f"  nics: {len(node.nics)}", f"those that a GPU uses: {names}"))
        lines.append(commented(f"  nic_of_gpu: {list(node.nic_of_gpu)}", node.affinity_origin))
        lines += _network_lines(node, notes)
    lines += _collective_lines(node, notes)
    return "\n".join(lines) + "\n", notes


def _description(node: Node) -> str:
    parts = [f"{len(node.gpus)} x {node.gpu.name}"]
    if node.nvlinks is None:
        parts.append("no NVLink")
    if node.nvlinks and node.nvlinks.uplinks:
        least, most = min(node.nvlinks.uplinks), max(node.nvlinks.uplinks)
        parts.append(f"NVSwitch with {most if least == most else f'{least} to {most}'} NVLinks a GPU")
    if node.nvlinks and node.nvlinks.pairs:
        parts.append("NVLink mesh")
    if node.nics:
        parts.append(f"{len(node.nics)} NIC{'s' if len(node.nics) > 1 else ''}")
    return ", ".join(parts)


def _is_short(node: Node) -> bool:
    """Whether equal blocks of GPUs share PCIe switches, the NICs hang beside their GPUs, and links of a kind are alike."""
    nvlinks = node.nvlinks
    if nvlinks and nvlinks.uplinks and (nvlinks.pairs or len(set(nvlinks.uplinks)) > 1):
        return False
    labels = _switch_labels(node)
    size = labels.count(labels[0])
    blocks = [gpu // size for gpu in range(len(labels))]
    numbers: dict[object, int] = {}
    if [numbers.setdefault(label, len(numbers)) for label in labels] != blocks:
        return False
    for number, nic in enumerate(node.nics):
        if nic.pcie.switch is None or nic.pcie.switch != node.gpus[node.nic_of_gpu.index(number)].switch:
            return False
    return len({*_pcie_bandwidths(node)}) == 1


def _switch_labels(node: Node) -> list[object]:
    """The PCIe switch of each GPU; one on the host has a label of its own."""
    return [("alone", number) if gpu.switch is None else gpu.switch for number, gpu in enumerate(node.gpus)]


def _pcie_bandwidths(node: Node) -> list[str]:
    return [*(gpu.bandwidth for gpu in node.gpus), *(nic.pcie.bandwidth for nic in node.nics), *node.uplinks]


def _known(node: Node) -> str:
    generation = node.gpu.generation
    return f"of {generation.label}" if generation.nvlinks else "assumed: as NVLink 2 to 4"


def _short_lines(node: Node) -> list[str]:
    labels = _switch_labels(node)
    return [
        f"  gpus: {len(node.gpus)}",
        *(_nvlink_lines(node, node.nvlinks) if node.nvlinks else ()),
        "  pcie:",
        commented(f"    gpus_per_switch: {labels.count(labels[0])}", "GPUs behind one switch, from the PCIe paths"),
        commented(f"    bandwidth: {node.gpus[0].bandwidth}", node.pcie_origin),
        commented(f"    efficiency: {_PCIE_EFFICIENCY[0]}", _PCIE_EFFICIENCY[1]),
        commented(f"    latency: {_PCIE_LATENCY[0]}", _PCIE_LATENCY[1]),
    ]


def _nvlink_lines(node: Node, nvlinks: Nvlinks) -> list[str]:
    generation, known = node.gpu.generation, _known(node)
    link = generation.nvlink_gb_s
    if nvlinks.uplinks:
        count, latency = nvlinks.uplinks[0], _SWITCH_LATENCY
        shape = [
            commented("    layout: switch", nvlinks.origin),
            commented(f"    bandwidth: {count * link} GB/s", f"{count} links of {link} GB/s each way, {known}"),
        ]
    else:
        latency = _MESH_LATENCY
        shape = [
            commented("    layout: mesh", nvlinks.origin),
            "    # GPU, GPU, bonded links",
            f"    pairs: [{', '.join(str(list(pair)) for pair in nvlinks.pairs)}]",
            commented(f"    bandwidth: {link} GB/s", f"of one link each way, {known}"),
        ]
    return [
        "  nvlink:",
        *shape,
        commented(f"    efficiency: {generation.nvlink_efficiency}", f"{_efficiency_source(generation)}, share of a link, {known}"),
        commented(f"    latency: {latency[0]}", latency[1]),
    ]


def _explicit_lines(node: Node) -> list[str]:
    """Every device by name, every link both ways."""
    devices = [f"    {name}: gpu" for name in _names("gpu", node.gpus)]
    if node.nvlinks and node.nvlinks.uplinks:
        devices.append("    nvswitch: nvswitch")
    devices += [f"    pcie{number}: pcie_switch" for number in range(len(node.uplinks))]
    devices.append("    host: host")
    devices += [commented(f"    nic{number}: nic", remark(nic.name)) for number, nic in enumerate(node.nics)]
    return ["  devices:", *devices, "  links:                     # each both ways", *_nvlink_items(node), *_pcie_items(node)]


def _efficiency_source(generation: Generation) -> str:
    return "fit of dgx-a100.yaml" if generation.label == "A100" else "NCCL src/graph/topo.h"


def _names(prefix: str, things: tuple[object, ...]) -> list[str]:
    return [f"{prefix}{number}" for number in range(len(things))]


def _nvlink_items(node: Node) -> list[str]:
    nvlinks, generation = node.nvlinks, node.gpu.generation
    if nvlinks is None:
        return []
    rate = f"kind: nvlink, bandwidth: {generation.nvlink_gb_s} GB/s, efficiency: {generation.nvlink_efficiency}"
    return [
        f"    # NVLink: {nvlinks.origin}.",
        f"    # bandwidth of one link, {_known(node)}; efficiency {_efficiency_source(generation)}; latency such that a route has 0.6 us",
        *(
            f"    - {{from: gpu{gpu}, to: nvswitch, count: {count}, {rate}, latency: {_SWITCH_LATENCY[0]}}}"
            for gpu, count in enumerate(nvlinks.uplinks)
            if count
        ),
        *(f"    - {{from: gpu{a}, to: gpu{b}, count: {count}, {rate}, latency: {_MESH_LATENCY[0]}}}" for a, b, count in nvlinks.pairs),
    ]


def _pcie_items(node: Node) -> list[str]:
    def item(device: str, target: str, bandwidth: str) -> str:
        rate = f"kind: pcie, bandwidth: {bandwidth}, efficiency: {_PCIE_EFFICIENCY[0]}, latency: {_PCIE_LATENCY[0]}"
        return f"    - {{from: {device}, to: {target}, {rate}}}"

    def up(name: str, device: PcieDevice) -> str:
        return item(name, "host" if device.switch is None else f"pcie{device.switch}", device.bandwidth)

    return [
        f"    # PCIe: bandwidth {node.pcie_origin}.",
        f"    # efficiency {_PCIE_EFFICIENCY[1]}; latency, {_PCIE_LATENCY[1]}",
        *(up(name, gpu) for name, gpu in zip(_names("gpu", node.gpus), node.gpus, strict=True)),
        *(up(name, nic.pcie) for name, nic in zip(_names("nic", node.nics), node.nics, strict=True)),
        *(item(name, "host", bandwidth) for name, bandwidth in zip(_names("pcie", node.uplinks), node.uplinks, strict=True)),
    ]


def _network_lines(node: Node, notes: list[str]) -> list[str]:
    slowest = min((nic.bandwidth for nic in node.nics), key=lambda text: parse(text, "bandwidth"))
    origins = sorted({nic.origin for nic in node.nics if nic.bandwidth == slowest})
    if any(nic.bandwidth != slowest for nic in node.nics):
        speeds = ", ".join(f"{remark(nic.name)} {nic.bandwidth}" for nic in node.nics)
        notes.append(f"the NICs differ ({speeds}); the file gives all of them the lowest bandwidth, {slowest}")
    latency = node.network_latency or _NETWORK_LATENCY
    return [
        "network:",
        commented(f"  bandwidth: {slowest}", "; ".join(origins)),
        commented(f"  efficiency: {_NETWORK_EFFICIENCY[0]}", _NETWORK_EFFICIENCY[1]),
        commented(f"  latency: {latency[0]}", latency[1]),
    ]


def _collective_lines(node: Node, notes: list[str]) -> list[str]:
    """The library's own costs as on the shipped machine with this GPU; what its NVSwitches do only where the node has one."""
    given, origin = node.gpu.collectives, f"topologies/{node.gpu.topology}.yaml"
    if not given:
        notes.append(
            "the file has no `collectives:` section, the time that a library adds to the links: small messages come out too fast;"
            " a hint in the file says how to complete it"
        )
        return [
            "# collectives:                TO FILL IN: algorithms, and the protocols' base and steps, which the links do not have.",
            "#                             Without them small messages are too fast. topologies/dgx-a100.yaml has such a section.",
        ]
    switched = node.nvlinks is not None and len(node.nvlinks.uplinks) > 0 and min(node.nvlinks.uplinks) > 0
    notes.append(f"`collectives:` (base latencies, protocols) is assumed, that of {origin}: the input does not hold it")
    algorithms = [name for name in given.get("algorithms", ()) if switched or name != "in-switch"]
    protocols = {
        name: {key: value for key, value in protocol.items() if switched or key != "in_switch"}
        for name, protocol in given.get("protocols", {}).items()
    }
    return [
        commented("collectives:", f"assumed: as in {origin}, which says where each figure is from"),
        *([f"  algorithms: [{', '.join(algorithms)}]"] if algorithms else ()),
        *([f"  in_switch: {given['in_switch']}"] if switched and "in_switch" in given else ()),
        *(["  protocols:"] if protocols else ()),
        *(f"    {name}: {{{', '.join(f'{key}: {value}' for key, value in protocol.items())}}}" for name, protocol in protocols.items()),
    ]
