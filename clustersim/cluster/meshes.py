"""Fabrics without levels, one router a node or few: torus and dragonfly."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from clustersim.cluster.fabrics import Bundle, Wire, check_links
from clustersim.cluster.links import Rate
from clustersim.cluster.routes import Hop, Pick, Route, along


@dataclass(frozen=True)
class Torus:
    """A ring in every dimension, one router a node, the last dimension fastest; a ring of two is one link each way.

    A flow takes the shorter way around each ring, both ways when they are equally long.

    >>> torus = Torus((4, 4), Rate("network", 100, 7), nodes=16)
    >>> route = torus.between(0, 6)
    >>> route.latency_ps, len(route.links), torus.wire(0)[:2]
    (21, 12, (0, 4))
    """

    dimensions: tuple[int, ...]
    rate: Rate
    nodes: int
    layout: str = "torus"

    @property
    def switch_count(self) -> int:
        return math.prod(self.dimensions)

    @property
    def link_count(self) -> int:
        return self.switch_count * len(self._slots)

    @property
    def least_nodes(self) -> int:
        return self.switch_count

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.dimensions[place + 1 :]) for place in range(len(self.dimensions)))

    @cached_property
    def _slots(self) -> tuple[tuple[int, int], ...]:
        """The links out of a router: (dimension, step)."""
        steps = [(), (1,), (1, -1)]
        return tuple((place, step) for place, size in enumerate(self.dimensions) for step in steps[min(size, 3) - 1])

    def sized(self, nodes: int) -> Torus:
        if nodes > self.switch_count:
            shape = " x ".join(map(str, self.dimensions))
            raise ValueError(f"{shape} = {self.switch_count} routers, too few for {nodes} nodes; allowed: at most that many")
        return replace(self, nodes=nodes)

    def attach(self, node: int, nic: int) -> int:
        return node

    def switch(self, number: int) -> tuple[str, str]:
        return f"router{number}", "router"

    def wire(self, link: int) -> Wire:
        router, slot = divmod(link, len(self._slots))
        return Wire(router, self._moved(router, *self._slots[slot]), self.rate)

    def kinds(self) -> dict[str, int]:
        return {"router": self.switch_count}

    def bundles(self) -> list[Bundle]:
        return [Bundle(self.link_count, "router", "router", self.rate)]

    def between(self, a: int, b: int, pick: Pick | None = None) -> Route:
        return along(a, b, lambda at: self._hops(at, b), lambda _: self.rate.latency_ps, pick)

    def _hops(self, at: int, target: int) -> list[Hop]:
        hops: list[Hop] = []
        for slot, (place, step) in enumerate(self._slots):
            size, stride = self.dimensions[place], self._strides[place]
            ahead = step * (target // stride - at // stride) % size
            if 0 < 2 * ahead <= size:
                hops.append((self._moved(at, place, step), at * len(self._slots) + slot))
        return hops

    def _moved(self, router: int, place: int, step: int) -> int:
        size, stride = self.dimensions[place], self._strides[place]
        here = router // stride % size
        return router + ((here + step) % size - here) * stride


@dataclass(frozen=True)
class Dragonfly:
    """Groups of routers, each joined to each within the group, and the groups to each other by ``global_links`` a router.

    The links of a group are dealt evenly to the other groups, to its routers in turn; what does not go round stays unused.
    Minimal routing: at most one link within the first group, one between groups, one within the last; the fewest of these,
    evenly over the equal ones. Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.

    >>> dragonfly = Dragonfly(2, 4, 2, Rate("network", 100, 7), nodes=24)
    >>> dragonfly.groups, dragonfly.switch_count, dragonfly.link_count, dragonfly.between(0, 11).latency_ps
    (3, 12, 60, 14)
    """

    nodes_per_router: int
    routers_per_group: int
    global_links: int
    rate: Rate
    nodes: int
    layout: str = "dragonfly"

    @cached_property
    def groups(self) -> int:
        return -(-self.nodes // (self.nodes_per_router * self.routers_per_group))

    @property
    def switch_count(self) -> int:
        return self.groups * self.routers_per_group

    @property
    def link_count(self) -> int:
        return self._local_links + self.groups * (self.groups - 1) * self._ways

    @property
    def least_nodes(self) -> int:
        groups = min(3, 1 + self.routers_per_group * self.global_links)
        return groups * self.nodes_per_router * self.routers_per_group

    @property
    def _local_links(self) -> int:
        return self.switch_count * (self.routers_per_group - 1)

    @cached_property
    def _bonds(self) -> int:
        """Links between two groups."""
        return self.routers_per_group * self.global_links // (self.groups - 1) if self.groups > 1 else 0

    @cached_property
    def _ways(self) -> int:
        """Pairs of routers that join two groups: dealt in turn, a second round would meet the same pairs."""
        return min(self._bonds, self.routers_per_group)

    def sized(self, nodes: int) -> Dragonfly:
        fabric = replace(self, nodes=nodes)
        ports = self.routers_per_group * self.global_links
        if fabric.groups > 1 + ports:
            most = (1 + ports) * self.routers_per_group * self.nodes_per_router
            raise ValueError(
                f"{self.routers_per_group} routers x {self.global_links} reach {ports} other groups, and {nodes} nodes make"
                f" {fabric.groups} groups; allowed: at most {most} nodes, or more links"
            )
        check_links(fabric)
        return fabric

    def attach(self, node: int, nic: int) -> int:
        return node // self.nodes_per_router

    def switch(self, number: int) -> tuple[str, str]:
        return f"router{number}", "router"

    def wire(self, link: int) -> Wire:
        size = self.routers_per_group
        if link < self._local_links:
            router, slot = divmod(link, size - 1)
            group, place = divmod(router, size)
            return Wire(router, group * size + slot + (slot >= place), self.rate)
        pair, way = divmod(link - self._local_links, self._ways)
        group, distance = divmod(pair, self.groups - 1)
        return Wire(*self._ends(group, distance + 1, way), self._global_rate(way))

    def joins(self, group: int, other: int) -> list[Wire]:
        """The links from one group to another."""
        distance = (other - group) % self.groups
        return [Wire(*self._ends(group, distance, way), self._global_rate(way)) for way in range(self._ways)]

    def kinds(self) -> dict[str, int]:
        return {"router": self.switch_count}

    def bundles(self) -> list[Bundle]:
        """Links within groups, then those between them."""
        counts = Counter(self._global_rate(way) for way in range(self._ways))
        pairs = self.groups * (self.groups - 1)
        local = [Bundle(self._local_links, "router", "router", self.rate)] if self._local_links else []
        return local + [Bundle(pairs * count, "router", "router", rate) for rate, count in counts.items()]

    def between(self, a: int, b: int, pick: Pick | None = None) -> Route:
        return along(a, b, lambda at: self._hops(at, b), lambda _: self.rate.latency_ps, pick)

    def _global_rate(self, way: int) -> Rate:
        return self.rate.times(-(-(self._bonds - way) // self.routers_per_group))

    def _ends(self, group: int, distance: int, way: int) -> tuple[int, int]:
        """The routers of a way from ``group`` to the one ``distance`` on; of the way back, the same two."""
        size = self.routers_per_group
        there = ((distance - 1) * self._bonds + way) % size
        back = ((self.groups - distance - 1) * self._bonds + way) % size
        return group * size + there, (group + distance) % self.groups * size + back

    def _hops(self, at: int, target: int) -> list[Hop]:
        size = self.routers_per_group
        group = at // size
        other = target // size
        if group == other:
            return [self._local(at, target)]
        distance = (other - group) % self.groups
        found = [(way, *self._ends(group, distance, way)) for way in range(self._ways)]
        least = min((near != at) + (far != target) for _, near, far in found)
        hops: dict[Hop, None] = {}
        for way, near, far in found:
            if (near != at) + (far != target) == least:
                link = self._local_links + (group * (self.groups - 1) + distance - 1) * self._ways + way
                hops[(far, link) if near == at else self._local(at, near)] = None
        return list(hops)

    def _local(self, at: int, to: int) -> Hop:
        size = self.routers_per_group
        here, there = at % size, to % size
        return to, at * (size - 1) + there - (there > here)
