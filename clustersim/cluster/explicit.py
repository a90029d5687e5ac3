"""Devices and links given one by one, of a node or of a whole cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clustersim import document
from clustersim.cluster.fabrics import NETWORK
from clustersim.cluster.links import LINK_KINDS, Link
from clustersim.cluster.rates import LINK_KEYS, Overrides, read_rate
from clustersim.document import Section

NODE_KINDS = ("gpu", "nvswitch", "pcie_switch", "host", "nic")
ALL_KINDS = (*NODE_KINDS, "leaf", "spine", "core", "router", "network_switch")
_DEVICE_KEYS = ("kind", "node", "forwards")
_LINK_KEYS = ("from", "to", "kind", *LINK_KEYS, "count", "one_way")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/-]{0,59}")


@dataclass(frozen=True)
class Wiring:
    """``gpus`` and ``devices`` in order of appearance; ``node_of_gpu`` has None where the file names no node."""

    gpus: tuple[str, ...]
    devices: tuple[tuple[str, str], ...]
    forwarding: tuple[str, ...]
    links: tuple[Link, ...]
    node_of_gpu: tuple[str | None, ...]

    @property
    def nics(self) -> int:
        return sum(kind == "nic" for _, kind in self.devices)


def read_wiring(section: Section, overrides: Overrides, whole: bool) -> Wiring:
    """``devices`` and ``links`` of a section; ``whole`` allows the switches of a network, and nodes."""
    kinds = ALL_KINDS if whole else NODE_KINDS
    given = section.raw("devices", expected="a mapping of names to kinds, for example {gpu0: gpu, switch: nvswitch}")
    if not isinstance(given, Mapping) or not given:
        section.error("devices", f"expected a mapping of names to kinds ({', '.join(kinds)}), got {document.shown(given)}")
    gpus, devices, forwarding, nodes = [], [], [], []
    for name, value in given.items():
        key = f"devices.{name}"
        if not _NAME.fullmatch(name) or name == NETWORK:
            reason = "is the network that the nodes share" if name == NETWORK else "is no name for a device"
            section.error(key, f"{document.shown(name)} {reason}; allowed: letters, digits, _ - /, at most 60")
        data = value if isinstance(value, Mapping) else {"kind": value}
        device = Section(section.document, document.join(section.path, key), data)
        refuse_unknown(device, _DEVICE_KEYS if whole else ("kind", "forwards"))
        if not isinstance(value, Mapping):
            device = replace(device, path=section.path, data={key: value})
            kind = device.choice(key, kinds)
        else:
            kind = device.choice("kind", kinds)
        if isinstance(value, Mapping) and device.boolean("forwards", False):
            forwarding.append(name)
        if kind == "gpu":
            gpus.append(name)
            nodes.append(_node(device) if isinstance(value, Mapping) else None)
        else:
            devices.append((name, kind))
            _refuse_without_effect(device, kind)
    if not gpus:
        section.error("devices", "no device is a gpu; expected at least one")
    return Wiring(tuple(gpus), tuple(devices), tuple(forwarding), _read_links(section, {*given}, overrides), tuple(nodes))


def _refuse_without_effect(device: Section, kind: str) -> None:
    if "node" in device:
        device.error("node", f"a {kind} belongs to no node; allowed at a gpu")
    if "forwards" in device and kind != "nic":
        device.error("forwards", f"a {kind} passes on what is not its own anyway; allowed at a gpu or a nic")


def nodes_of(wiring: Wiring, section: Section) -> tuple[int, int]:
    """(nodes, GPUs in each) of a whole cluster; without ``node`` at its GPUs it is one node."""
    names = list(dict.fromkeys(wiring.node_of_gpu))
    if names == [None]:
        return 1, len(wiring.gpus)
    counts = [wiring.node_of_gpu.count(name) for name in names]
    expected = [name for name, count in zip(names, counts, strict=False) for _ in range(count)]
    for gpu, node, place in zip(wiring.gpus, wiring.node_of_gpu, expected, strict=False):
        if node is None:
            section.error(f"devices.{gpu}", "names no node while others do; allowed: `node:` at every GPU, or at none")
        if node != place:
            section.error(f"devices.{gpu}", f"the GPUs of a node must follow each other: {place!r} is not complete yet")
    for name, count in zip(names, counts, strict=False):
        if count != counts[0]:
            last = wiring.gpus[len(expected) - 1 - expected[::-1].index(name)]
            section.error(
                f"devices.{last}", f"node {name!r} has {count} GPUs and {names[0]!r} has {counts[0]}; allowed: as many in every"
                " node, or no `node:` at all",
            )  # fmt: skip
    return len(names), counts[0]


def items(section: Section, key: str, keys: Sequence[str], example: str) -> Iterator[Section]:
    """Each mapping of a list, as a section with the line of its first key."""
    given = section.raw(key, expected=f"a list of mappings, for example [{example}]")
    if not isinstance(given, list) or not given:
        section.error(key, f"expected a list of mappings, for example [{example}], got {document.shown(given)}")
    for position, value in enumerate(given):
        path = document.join(section.path, f"{key}.{position}")
        if not isinstance(value, Mapping) or not value:
            section.error(key, f"entry {position + 1}: expected a mapping, for example {example}, got {document.shown(value)}")
        known = section.document.lines
        first = known.get(f"{path}.{next(iter(value))}")
        lines = known if first is None else {**known, path: first}
        item = Section(replace(section.document, lines=lines), path, value)
        refuse_unknown(item, keys)
        yield item


def refuse_unknown(section: Section, keys: Sequence[str]) -> None:
    for key in section.data:
        if key not in keys:
            section.error(key, f"unknown key{document.nearest(key, keys)}; allowed: {', '.join(keys)}")


def _node(device: Section) -> str | None:
    value: Any = device.raw("node", None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        device.error("node", f"expected the name or the number of a node, got {document.shown(value)}")
    return str(value)


def _read_links(section: Section, devices: set[str], overrides: Overrides) -> tuple[Link, ...]:
    links: dict[tuple[str, str], Link] = {}
    example = "{from: gpu0, to: switch, kind: nvlink, bandwidth: 25 GB/s, latency: 1 us}"
    for item in items(section, "links", _LINK_KEYS, example):
        a, b = item.text("from", expected="a device"), item.text("to", expected="a device")
        for key, device in (("from", a), ("to", b)):
            if device not in devices:
                item.error(key, f"no device {document.shown(device)}{document.nearest(device, sorted(devices))}; see `devices`")
        if a == b:
            item.error("to", f"joins {a} to itself; allowed: two different devices")
        rate = read_rate(item.choice("kind", LINK_KINDS), item, overrides).times(item.integer("count", 1, maximum=10**6))
        for link in rate.both_ways(a, b)[: 1 if item.boolean("one_way", False) else 2]:
            ends = link.source, link.target
            if ends in links:
                item.error("from", f"{ends[0]} and {ends[1]} are joined that way already; several links are one with a count")
            links[ends] = link
    return tuple(links.values())
