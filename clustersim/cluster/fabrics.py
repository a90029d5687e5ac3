"""The network between nodes: switches, numbered from 0, and the directed links between them.

Each fabric answers in closed form, so that a network of thousands of switches costs nothing until a route is asked for:
which switch a NIC hangs on, what joins two switches, and how a flow gets from one to another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from clustersim.cluster.links import Rate
from clustersim.cluster.routes import NO_LINKS, ONE, Pick, Route, Shares

if TYPE_CHECKING:
    from clustersim.cluster.meshes import Dragonfly

NETWORK = "network"
"""The switch of a flat network; within a node's links, whatever switch the NIC hangs on."""

MAX_LINKS = 10_000_000
"""Between switches: what a number with some zeros too many asks for, no network has."""


class Wire(NamedTuple):
    """One directed link between two switches."""

    source: int
    target: int
    rate: Rate


class Bundle(NamedTuple):
    """So many directed links of one rate between switches of these two kinds, the lower first."""

    count: int  # type: ignore[assignment]  # a tuple's method of the same name is not used
    lower: str
    upper: str
    rate: Rate


class Fabric(Protocol):
    """What a cluster asks of its network."""

    @property
    def layout(self) -> str: ...

    @property
    def switch_count(self) -> int: ...

    @property
    def link_count(self) -> int: ...

    @property
    def least_nodes(self) -> int:
        """The smallest number of nodes that shows every level."""
        ...

    def attach(self, node: int, nic: int) -> int:
        """The switch on which a NIC hangs."""
        ...

    def switch(self, number: int) -> tuple[str, str]:
        """Name and kind."""
        ...

    def wire(self, link: int) -> Wire: ...

    def kinds(self) -> dict[str, int]:
        """The number of switches of each kind, bottom up."""
        ...

    def bundles(self) -> list[Bundle]:
        """All links, the alike together."""
        ...

    def between(self, a: int, b: int, pick: Pick | None = None) -> Route:
        """The route from one switch to another, over link numbers from 0."""
        ...

    def sized(self, nodes: int) -> Fabric:
        """The same fabric for so many nodes; ValueError when it cannot have them."""
        ...


@dataclass(frozen=True)
class Flat:
    """One switch that never blocks."""

    layout: str = "flat"
    switch_count: int = 1
    link_count: int = 0
    least_nodes: int = 2

    def attach(self, node: int, nic: int) -> int:
        return 0

    def switch(self, number: int) -> tuple[str, str]:
        return NETWORK, "network_switch"

    def wire(self, link: int) -> Wire:
        raise IndexError(f"link {link} of a network without links")

    def kinds(self) -> dict[str, int]:
        return {"network_switch": 1}

    def bundles(self) -> list[Bundle]:
        return []

    def between(self, a: int, b: int, pick: Pick | None = None) -> Route:
        return NO_LINKS

    def sized(self, nodes: int) -> Flat:
        return self


FLAT = Flat()


@dataclass(frozen=True)
class Tier:
    """One level of a tree of switch groups: the switches of a group, the groups below it (NICs, at the bottom).

    ``children`` 0 is one group over everything. ``uplink`` is one link from a switch of the group to one of the group above.
    """

    name: str
    kind: str
    children: int
    switches: int = 1
    uplink: Rate | None = None


@dataclass(frozen=True)
class Tiers:
    """Leaf-spine, rail-optimized and fat-tree: a flow climbs to the lowest group over both ends, and descends.

    Every switch of a group has a link each way to every switch of the group above, so that all paths up are equally long;
    several switches in a group are for ``ecmp`` and for counting: under ``spread`` they act as one with the sum of their links.
    ``rails`` is the number of nodes of a pod in which NIC i of each hangs on leaf i; 0 hangs the NICs on leaves in order.

    >>> rate = Rate("network", 100, 7)
    >>> tiers = (Tier("leaf", "leaf", 2, 1, rate), Tier("spine", "spine", 0, 2))
    >>> fabric = Tiers("leaf-spine", tiers, nodes=4, nics=1)
    >>> [fabric.attach(node, 0) for node in range(4)], fabric.switch(3)
    ([0, 0, 1, 1], ('spine1', 'spine'))
    >>> fabric.between(0, 1).links == tuple((link, Fraction(1, 2)) for link in (0, 2, 5, 7))
    True
    """

    layout: str
    tiers: tuple[Tier, ...]
    nodes: int
    nics: int
    rails: int = 0

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The number of groups of each tier, up to the one that joins everything."""
        ports = self.nodes * self.nics
        lowest = -(-self.nodes // self.rails) * self.nics if self.rails else -(-ports // self.tiers[0].children)
        counts = [lowest]
        for tier in self.tiers[1:]:
            if counts[-1] == 1:
                break
            counts.append(-(-counts[-1] // tier.children) if tier.children else 1)
        return tuple(counts)

    @cached_property
    def first_switch(self) -> tuple[int, ...]:
        """The number of the first switch of each tier, and of all of them."""
        return _sums(count * tier.switches for count, tier in zip(self.groups, self.tiers, strict=False))

    @cached_property
    def first_link(self) -> tuple[int, ...]:
        sizes = [below * self._fan(level) * 2 for level, below in enumerate(self.groups[:-1])]
        return _sums(sizes)

    @property
    def switch_count(self) -> int:
        return self.first_switch[-1]

    @property
    def link_count(self) -> int:
        return self.first_link[-1]

    @property
    def least_nodes(self) -> int:
        if self.rails:
            return 2 * self.rails
        below, held = (math.prod(tier.children for tier in tiers) for tiers in (self.tiers[:-1], self.tiers))
        wanted = max(2, -(-2 * below // self.nics))
        return max(1, min(wanted, held // self.nics)) if held else wanted  # without ports the last level joins everything

    def sized(self, nodes: int) -> Tiers:
        fabric = replace(self, nodes=nodes)
        if fabric.groups[-1] > 1:
            most = math.prod(tier.children for tier in self.tiers) // self.nics
            raise ValueError(f"the levels hold {most} nodes of {self.nics} NICs, not {nodes}; give more ports, or a level")
        check_links(fabric)
        return fabric

    def attach(self, node: int, nic: int) -> int:
        if self.rails:
            return node // self.rails * self.nics + nic
        return (node * self.nics + nic) // self.tiers[0].children

    def switch(self, number: int) -> tuple[str, str]:
        level = self.level(number)
        tier = self.tiers[level]
        return f"{tier.name}{number - self.first_switch[level]}", tier.kind

    def level(self, switch: int) -> int:
        return next(level for level, first in enumerate(self.first_switch[1:]) if switch < first)

    def wire(self, link: int) -> Wire:
        level = next(level for level, first in enumerate(self.first_link[1:]) if link < first)
        pair, down = divmod(link - self.first_link[level], 2)
        tier, above = self.tiers[level], self.tiers[level + 1]
        low, high = divmod(pair, above.switches)
        group = low // tier.switches // above.children if above.children else 0
        low += self.first_switch[level]
        high += self.first_switch[level + 1] + group * above.switches
        rate = self.uplink(level)
        return Wire(high, low, rate) if down else Wire(low, high, rate)

    def uplink(self, level: int) -> Rate:
        """A link up from a tier that is not the last."""
        rate = self.tiers[level].uplink
        assert rate is not None  # only the last tier has none
        return rate

    def trunks(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, capacity) between groups, a group by its first switch: all links from one group to the next, both ways.

        >>> rate = Rate("network", 100, 7)
        >>> list(Tiers("leaf-spine", (Tier("leaf", "leaf", 2, 1, rate), Tier("spine", "spine", 0, 3)), nodes=4, nics=1).trunks())
        [(0, 2, 300), (2, 0, 300), (1, 2, 300), (2, 1, 300)]
        """
        for level, groups in enumerate(self.groups[:-1]):
            tier, above = self.tiers[level], self.tiers[level + 1]
            capacity = self.uplink(level).capacity_bytes_s * self._fan(level)
            for group in range(groups):
                low = self.first_switch[level] + group * tier.switches
                high = self.first_switch[level + 1] + (group // above.children if above.children else 0) * above.switches
                yield low, high, capacity
                yield high, low, capacity

    def kinds(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for count, tier in zip(self.groups, self.tiers, strict=False):
            kinds[tier.kind] = kinds.get(tier.kind, 0) + count * tier.switches
        return kinds

    def bundles(self) -> list[Bundle]:
        return [
            Bundle(2 * count * self._fan(level), self.tiers[level].kind, self.tiers[level + 1].kind, self.uplink(level))
            for level, count in enumerate(self.groups[:-1])
        ]

    def between(self, a: int, b: int, pick: Pick | None = None) -> Route:
        group_a, group_b, height = a, b, 0
        while group_a != group_b:
            height += 1
            children = self.tiers[height].children
            group_a, group_b = (group_a // children, group_b // children) if children else (0, 0)
        latency = 2 * sum(self.uplink(level).latency_ps for level in range(height))
        if pick is None:
            return Route(self._ways(a, height)[0] + self._ways(b, height)[1], latency)
        return Route(self._picked(self._first_links(a, height), self._first_links(b, height), pick), latency)

    def _ways(self, leaf: int, height: int) -> tuple[Shares, Shares]:
        """All links up from a leaf through so many levels, and down to it, with their shares."""
        ways = self._known.get((leaf, height))
        if ways is None:
            up: Shares = ()
            down: Shares = ()
            for first, share in zip(self._first_links(leaf, height), self._shares, strict=False):
                links = range(first, first + 2 * share.denominator, 2)
                up = (*up, *((link, share) for link in links))
                down = (*((link + 1, share) for link in links), *down)
            ways = self._known[leaf, height] = up, down
        return ways

    def _first_links(self, leaf: int, height: int) -> list[int]:
        """Of each level climbed the first of the links up from the group over a leaf."""
        group, links = leaf, []
        for level in range(height):
            links.append(self.first_link[level] + 2 * group * self._fan(level))
            children = self.tiers[level + 1].children
            group = group // children if children else 0
        return links

    def _picked(self, up: list[int], down: list[int], pick: Pick) -> tuple[tuple[int, Fraction], ...]:
        links = []
        here = 0  # the place of the switch in its group
        for first, above in zip(up, self.tiers[1:], strict=False):
            there = pick(above.switches)
            links.append((first + 2 * (here * above.switches + there), ONE))
            here = there
        for level in range(len(down) - 1, -1, -1):
            below = pick(self.tiers[level].switches)
            links.append((down[level] + 2 * (below * self.tiers[level + 1].switches + here) + 1, ONE))
            here = below
        return tuple(links)

    @cached_property
    def _known(self) -> dict[tuple[int, int], tuple[Shares, Shares]]:
        return {}

    @cached_property
    def _shares(self) -> tuple[Fraction, ...]:
        """Of each tier with one above, the part of a flow on each link up."""
        fans = [self._fan(level) for level in range(len(self.tiers) - 1)]
        return tuple(Fraction(1, fan) if fan > 1 else ONE for fan in fans)

    def _fan(self, level: int) -> int:
        return self.tiers[level].switches * self.tiers[level + 1].switches


def check_links(fabric: Tiers | Dragonfly) -> None:
    """ValueError when it has more links than ``MAX_LINKS``."""
    if fabric.link_count > MAX_LINKS:
        text = f"{fabric.nodes:,} nodes take {fabric.link_count:,} links between switches"
        raise ValueError(f"{text}; allowed: at most {MAX_LINKS:,}")


def _sums(sizes: Iterator[int] | list[int]) -> tuple[int, ...]:
    total, sums = 0, [0]
    for size in sizes:
        total += size
        sums.append(total)
    return tuple(sums)
