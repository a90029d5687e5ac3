"""Max-min fair sharing: what each flow gets when flows meet on links. Integers only, so that equal cases are equal.

Rates are in units of 1e-6 bytes/s and work in units of 1e-18 bytes, so that work = rate x picoseconds. The rate of a flow counts its
bytes on its bottleneck, the link that holds it up longest when it meets no other; what it takes of another link is so many times
that, its weight there.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from clustersim.program.program import Load

RATE_PER_BYTE_S = 10**6
WORK_PER_BYTE = 10**18
WEIGHT_BITS = 60
UNIT_WEIGHT = 1 << WEIGHT_BITS
"""Weights are whole numbers too: so many times that of the bottleneck, which is exact for 1 and to 1e-18 for any other."""


class Crossing(NamedTuple):
    """A flow's use of one link: ``weight`` in units of ``UNIT_WEIGHT``, for each of so many equal connections."""

    link: int
    weight: int = UNIT_WEIGHT
    connections: int = 1

    def share(self, rate: int) -> int:
        """What one connection takes of the link, at a rate of its flow."""
        return rate * self.weight >> WEIGHT_BITS


class Demand(NamedTuple):
    """What a flow asks of the network: its work on its bottleneck, and the links it crosses."""

    work: int
    crossings: tuple[Crossing, ...]


def demand(loads: Sequence[Load], capacities: Mapping[int, int] | Sequence[int]) -> Demand:
    """The demand of a transfer on links of these capacities, in rate units.

    >>> work, crossings = demand([Load(0, Fraction(10)), Load(1, Fraction(5))], [100, 10])
    >>> work == 5 * WORK_PER_BYTE, [crossing.weight / UNIT_WEIGHT for crossing in crossings]
    (True, [2.0, 1.0])
    """
    _, most = max((load.held_bytes / capacities[load.link], load.held_bytes) for load in loads)
    held = [(load.link, load.held_bytes, load.connections) for load in loads if load.held_bytes]
    crossings = tuple(Crossing(link, _rounded_up(UNIT_WEIGHT * size / most), connections) for link, size, connections in held)
    return Demand(max(1, round(most * WORK_PER_BYTE)), crossings)


def alone(crossings: Sequence[Crossing], capacities: Mapping[int, int] | Sequence[int]) -> tuple[int, int]:
    """The rate of a flow that meets no other, and the link that sets it."""
    rate, link = min(((capacities[link] << WEIGHT_BITS) // (connections * weight), link) for link, weight, connections in crossings)
    return max(1, rate), link


def shares(
    flows: Sequence[Sequence[Crossing]],
    capacities: Mapping[int, int] | Sequence[int],
    limits: Sequence[tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """The rate of each flow, and the link that sets it.

    All rates rise together; where a link is full, those of the flows that cross it stay (progressive filling: Bertsekas and
    Gallager, Data Networks, section 6.5.2). ``capacities`` by link, in rate units. ``limits`` are the rates that the flows would
    have alone, with the links that set them; where they are given, links that can hold up no flow may be left out of ``flows``.

    >>> a, b = Crossing(0), Crossing(1)
    >>> [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])]
    [2, 8, 2]
    """
    if limits is None:
        limits = [alone(crossings, capacities) for crossings in flows]
    filling = _Filling(flows, capacities)
    by_limit = sorted(range(len(flows)), key=limits.__getitem__, reverse=True)
    while by_limit:
        number = by_limit[-1]
        if filling.result[number][0]:
            by_limit.pop()
        elif limits[number][0] <= filling.next_level():
            filling.stay(number, *limits[by_limit.pop()])
        else:
            filling.fill()
    return filling.result


class _Filling:
    """The state of a progressive filling: what is left of each link, for how much weight of flows, and the rates so far."""

    def __init__(self, flows: Sequence[Sequence[Crossing]], capacities: Mapping[int, int] | Sequence[int]) -> None:
        left: dict[int, int] = {}
        weights: dict[int, int] = {}
        on_link: dict[int, list[int]] = {}
        for number, crossings in enumerate(flows):
            for link, weight, connections in crossings:
                if link in left:
                    weights[link] += connections * weight
                    on_link[link].append(number)
                else:
                    left[link], weights[link], on_link[link] = capacities[link], connections * weight, [number]
        self.flows, self.left, self.weights, self.on_link = flows, left, weights, on_link
        self.result = [(0, -1)] * len(flows)
        self.waiting = [((left[link] << WEIGHT_BITS) // weights[link], link) for link in left]
        heapq.heapify(self.waiting)

    def next_level(self) -> float:
        """The rate at which the next link is full, or less where flows that stay have left it more since it was reckoned."""
        return self.waiting[0][0] if self.waiting else math.inf

    def fill(self) -> None:
        """Let the flows rise to the next level, where those on links that are full stay.

        All links that are full at this level at once, so that the result does not depend on how links and flows are numbered.
        """
        waiting, left, weights, result = self.waiting, self.left, self.weights, self.result
        level = waiting[0][0]
        full = []
        while waiting and waiting[0][0] == level:
            _, link = heapq.heappop(waiting)
            if weights[link]:
                now = (left[link] << WEIGHT_BITS) // weights[link]
                if now > level:
                    heapq.heappush(waiting, (now, link))
                else:
                    full.append(link)
        for link in full:
            for number in self.on_link[link]:
                if not result[number][0]:
                    self.stay(number, level, link)

    def stay(self, number: int, rate: int, link: int) -> None:
        """The flow stays at this rate, because of this link."""
        rate = max(1, rate)
        self.result[number] = rate, link
        left, weights = self.left, self.weights
        for other, weight, connections in self.flows[number]:
            rest = left[other] - connections * (rate * weight >> WEIGHT_BITS)
            left[other] = rest if rest > 0 else 0
            weights[other] -= connections * weight


def _rounded_up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
