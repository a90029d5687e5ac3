"""The ``network`` section of a topology file: how the NICs of the nodes are joined.

>>> from clustersim.document import loads
>>> text = "network: {layout: leaf-spine, bandwidth: 200 Gb/s, latency: 1 us, nodes_per_leaf: 2, spines: 2, oversubscription: 4}"
>>> fabric = read_fabric(loads(text, "net.yaml").section("", ("network",)).section("network", KEYS), {}, nics=8).sized(4)
>>> fabric.switch_count, fabric.link_count, fabric.wire(0).rate.bandwidth_bytes_s  # 2 x 8 x 25 GB/s over 2 spines, a quarter
(4, 8, 50000000000)
"""

from __future__ import annotations

import math

from clustersim import document
from clustersim.cluster.explicit import items
from clustersim.cluster.fabrics import FLAT, MAX_LINKS, Fabric, Tier, Tiers
from clustersim.cluster.links import Rate
from clustersim.cluster.meshes import Dragonfly, Torus
from clustersim.cluster.rates import NETWORK_KEYS, Overrides, read_rate, read_trunk
from clustersim.cluster.routes import ROUTINGS
from clustersim.document import Section

_OWN_KEYS = {
    "flat": (),
    "leaf-spine": ("nodes_per_leaf", "spines", "oversubscription", "trunk"),
    "rail": ("nodes_per_leaf", "spines", "oversubscription", "trunk"),
    "fat-tree": ("levels", "trunk"),
    "dragonfly": ("nodes_per_router", "routers_per_group", "global_links", "trunk"),
    "torus": ("dimensions", "trunk"),
}
LAYOUTS = tuple(_OWN_KEYS)
KEYS = (*NETWORK_KEYS, "layout", *dict.fromkeys(key for keys in _OWN_KEYS.values() for key in keys))

SIZE_KEY = {"leaf-spine": "spines", "rail": "spines", "fat-tree": "levels", "dragonfly": "global_links", "torus": "dimensions"}
"""The key to blame when a fabric cannot have so many nodes."""

_MOST = 1_000_000
_MOST_ROUTERS = 100_000  # of a torus: a flow to the other side crosses a good part of them
_MOST_WAYS = 10_000  # a flow spreads over all links between two groups of switches
_MAX_RATIO = 1000.0


def read_routing(section: Section, overrides: Overrides) -> str:
    override = overrides.get("network")
    source = override if override is not None and "routing" in override else section
    return source.choice("routing", ROUTINGS, "spread")


def read_fabric(network: Section, overrides: Overrides, nics: int) -> Fabric:
    """The fabric for nodes of so many NICs, sized for one node."""
    layout = network.choice("layout", LAYOUTS, "flat")
    for key in network.data:
        if key not in (*NETWORK_KEYS, "layout", *_OWN_KEYS[layout]):
            owners = " or ".join(f"`layout: {name}`" for name, keys in _OWN_KEYS.items() if key in keys)
            network.error(key, f"`layout: {layout}` has no such key, {owners} has")
    if layout == "flat":
        return FLAT
    nic = read_rate("network", network, overrides)
    trunk, fixed = read_trunk(network, overrides, nic)
    if layout == "torus":
        return Torus(_read_dimensions(network), trunk, nodes=1)
    if layout == "dragonfly":
        routers = network.integer("routers_per_group", maximum=_MOST)
        if routers * (routers - 1) > MAX_LINKS:
            text = f"{routers:,} routers, each joined to each, are {routers * (routers - 1):,} links in every group"
            network.error("routers_per_group", f"{text}; allowed: at most {MAX_LINKS:,} links between switches")
        return Dragonfly(
            network.integer("nodes_per_router", maximum=_MOST),
            routers,
            network.integer("global_links", maximum=_MOST),
            trunk,
            nodes=1,
        )
    if layout == "fat-tree":
        return Tiers(layout, _read_levels(network, nic, trunk, fixed), 1, nics)
    nodes, spines = network.integer("nodes_per_leaf", maximum=_MOST), network.integer("spines", maximum=_MOST_WAYS)
    ports = nodes if layout == "rail" else nodes * nics
    uplink = _uplink(network, nic.times(ports), trunk, fixed, spines)
    tiers = (Tier("leaf", "leaf", ports, 1, uplink), Tier("spine", "spine", 0, spines))
    return Tiers(layout, tiers, 1, nics, nodes if layout == "rail" else 0)


def _uplink(section: Section, below: Rate, trunk: Rate, fixed: bool, links: int) -> Rate:
    """One of ``links`` links up from a switch that has ``below`` in all on its way down."""
    if fixed:
        if "oversubscription" in section:
            section.error("oversubscription", "the trunk has a bandwidth already; give one of the two")
        return trunk
    ratio = section.number("oversubscription", 1.0, high=_MAX_RATIO)
    return Rate("network", max(1, round(below.bandwidth_bytes_s / ratio / links)), trunk.latency_ps, trunk.efficiency)


def _read_levels(network: Section, nic: Rate, trunk: Rate, fixed: bool) -> tuple[Tier, ...]:
    levels = list(items(network, "levels", ("ports", "oversubscription", "switches"), "{ports: 8, oversubscription: 2}"))
    if len(levels) < 2:
        network.error("levels", "expected at least 2 levels, bottom up, the last one joins everything")
    if "oversubscription" in levels[-1]:
        levels[-1].error("oversubscription", "the last level has no links up; give it to the level below")
    if levels[0].integer("switches", 1) != 1:
        levels[0].error("switches", "a NIC hangs on one switch of the first level: 1, or leave this out")
    switches = [level.integer("switches", 1, maximum=_MOST) for level in levels] + [1]
    for level, here, under in zip(levels[1:], switches[1:], switches, strict=False):
        if here * under > _MOST_WAYS:
            text = f"{here:,} switches over groups of {under:,} are {here * under:,} links up from each group"
            level.error("switches", f"{text}, and every flow spreads over all of them; allowed: at most {_MOST_WAYS:,}")
    tiers = []
    below = nic.times(levels[0].integer("ports", maximum=_MOST))
    for place, level in enumerate(levels):
        kind = "leaf" if place == 0 else "spine" if place == 1 or place < len(levels) - 1 else "core"
        name = f"spine{place}-" if kind == "spine" and len(levels) > 3 else kind
        uplink = None
        if place < len(levels) - 1:
            uplink = _uplink(level, below, trunk, fixed, switches[place + 1])
            # Of the next level: one of its switches has a link to every switch of each child.
            below = uplink.times(switches[place] * levels[place + 1].integer("ports", maximum=_MOST))
        tiers.append(Tier(name, kind, level.integer("ports", maximum=_MOST), switches[place], uplink))
    return tuple(tiers)


def _read_dimensions(network: Section) -> tuple[int, ...]:
    given = network.raw("dimensions", expected="the sizes of a torus, for example [4, 4, 4]")
    whole = isinstance(given, list) and 1 <= len(given) <= 8 and all(type(size) is int and size >= 1 for size in given)
    if not whole or math.prod(given) > _MOST_ROUTERS:
        shown = str(given)[:60] if isinstance(given, list) else document.shown(given)
        network.error(
            "dimensions", f"expected 1 to 8 whole numbers of at least 1 whose product is at most {_MOST_ROUTERS:,}, for example"
            f" [4, 4, 4], got {shown}",
        )  # fmt: skip
    return tuple(given)
