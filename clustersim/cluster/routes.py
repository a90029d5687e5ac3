"""Routes: which share of a flow crosses which link.

Equal-cost shortest paths share a flow evenly, split hop by hop, which is what per-packet spraying and ECMP approach; or a
``pick`` takes one way at each fork. The work is linear in the links of the shortest paths, not in their number.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from clustersim.cluster.links import Link

ONE = Fraction(1)
ROUTINGS = ("spread", "ecmp")

# One hop of a slower kind outweighs any number of hops of a faster one, as in NCCL, whatever bandwidth a sweep gives them.
_HOP_COST = {"nvlink": 1, "pcie": 10**5, "network": 10**10}
_UNIT = 10**18  # whole numbers, so that equal costs are equal; among as many hops the wider links win


Shares = tuple[tuple[int, Fraction], ...]
"""Links, each with a share of the bytes."""


class Route(NamedTuple):
    """Links of a flow with the share of its bytes that crosses each (1 on a single path), and the latency.

    On several paths the latency is that of the slowest. Links come in order of the way.
    """

    links: Shares
    latency_ps: int


NO_LINKS = Route((), 0)

Hop = tuple[int | str, int]  # the next device, the link to it
Pick = Callable[[int], int]
"""Chooses one of so many ways."""
Hops = Callable[[Any], Sequence[Hop]]
"""The ways on from a device, which is the number of a switch or a name."""


def ecmp(source: int, target: int, flow: int) -> Pick:
    """A pick that depends on nothing but the three numbers, on any machine.

    >>> pick = ecmp(0, 8, 1)
    >>> [pick(4) for _ in range(5)]
    [1, 0, 1, 3, 1]
    """
    state = int.from_bytes(hashlib.blake2b(f"{source},{target},{flow}".encode(), digest_size=16).digest(), "big")

    def pick(ways: int) -> int:
        nonlocal state
        state, choice = divmod(state, ways)
        return choice

    return pick


def along(
    source: int | str,
    target: int | str,
    hops: Hops,
    latency_ps: Callable[[int], int],
    pick: Pick | None,
) -> Route:
    """The route over the ways that ``hops`` gives at each device, none of which may lead in a circle.

    >>> square = {"a": [("b", 0), ("c", 1)], "b": [("d", 2)], "c": [("d", 3)]}
    >>> along("a", "d", square.__getitem__, lambda link: 5, None)
    Route(links=((0, Fraction(1, 2)), (1, Fraction(1, 2)), (2, Fraction(1, 2)), (3, Fraction(1, 2))), latency_ps=10)
    >>> along("a", "d", square.__getitem__, lambda link: 5, lambda ways: 1)
    Route(links=((1, Fraction(1, 1)), (3, Fraction(1, 1))), latency_ps=10)
    """
    ways, unseen = _ways(source, target, hops, pick)
    share, latency = {source: ONE}, {source: 0}
    links = []
    ready = deque([source])
    while ready:
        at = ready.popleft()
        if at == target:
            continue
        each = share[at] if len(ways[at]) == 1 else share[at] / len(ways[at])
        for to, link in ways[at]:
            links.append((link, each))
            total = share[to] + each if to in share else each
            share[to] = ONE if total == 1 else total
            latency[to] = max(latency.get(to, 0), latency[at] + latency_ps(link))
            unseen[to] -= 1
            if not unseen[to]:  # all of the flow has come together here
                ready.append(to)
    return Route(tuple(links), latency[target])


def _ways(
    source: int | str, target: int | str, hops: Hops, pick: Pick | None
) -> tuple[dict[int | str, Sequence[Hop]], dict[int | str, int]]:
    """The hops taken from each device that the flow comes through, and the number of hops into each."""
    ways: dict[int | str, Sequence[Hop]] = {}
    into: dict[int | str, int] = {source: 0}
    pending = [source]
    while pending:
        at = pending.pop()
        if at == target:
            continue
        found = hops(at)
        ways[at] = found if pick is None or len(found) == 1 else [found[pick(len(found))]]
        for to, _ in ways[at]:
            if to not in into:
                into[to] = 0
                pending.append(to)
            into[to] += 1
    return ways, into


class Paths:
    """Shortest paths over any links, found when asked for; ``ends`` begin and end paths and never forward."""

    def __init__(self, links: Sequence[Link], ends: Collection[str]) -> None:
        self._links = links
        self._ends = frozenset(ends)
        self._cost = [_HOP_COST[link.kind] * _UNIT + _UNIT // link.bandwidth_bytes_s for link in links]
        self._out: dict[str, list[tuple[str, int]]] = {}
        for number, link in enumerate(links):
            self._out.setdefault(link.source, []).append((link.target, number))
        self._into: dict[str, list[tuple[str, int]]] = {}
        for number, link in enumerate(links):
            self._into.setdefault(link.target, []).append((link.source, number))
        self._distances: dict[str, dict[str, int]] = {}

    def route(self, source: str, target: str, pick: Pick | None = None) -> Route | None:
        """Over link numbers; None without a path."""
        distance = self.distances(target)
        if source not in distance:
            return None

        def hops(at: str) -> list[Hop]:
            left = distance[at]
            return [
                (to, link)
                for to, link in self._out[at]
                if (to == target or to not in self._ends) and distance.get(to, left) + self._cost[link] == left
            ]

        return along(source, target, hops, lambda link: self._links[link].latency_ps, pick)

    def distances(self, target: str) -> dict[str, int]:
        """The cost from each device that reaches ``target``."""
        if target not in self._distances:
            self._distances[target] = self._backwards(target)
        return self._distances[target]

    def _backwards(self, target: str) -> dict[str, int]:
        """Dijkstra's algorithm against the direction of the links; networkx has it too, but takes longer to import than this to run."""
        found: dict[str, int] = {}
        waiting = [(0, target)]
        while waiting:
            distance, at = heapq.heappop(waiting)
            if at in found:
                continue
            found[at] = distance
            if at == target or at not in self._ends:
                for before, link in self._into.get(at, ()):
                    if before not in found:
                        heapq.heappush(waiting, (distance + self._cost[link], before))
        return found

    def reached(self, source: str) -> frozenset[str]:
        """All devices to which a path leads from ``source``."""
        seen, pending = {source}, [source]
        while pending:
            at = pending.pop()
            if at == source or at not in self._ends:
                fresh = [to for to, _ in self._out.get(at, ()) if to not in seen]
                seen.update(fresh)
                pending += fresh
        return frozenset(seen)
