"""Fair sharing: what each flow gets when flows meet on links. Integers only, so that equal cases are equal.

Rates are in units of 1e-6 bytes/s and work in units of 1e-18 bytes, so that work = rate x picoseconds. The rate of a flow counts its
bytes on the link where one of its connections carries most.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from clustersim.engine.circle import share_in_circle
from clustersim.program.program import Load

RATE_PER_BYTE_S = 10**6
WORK_PER_BYTE = 10**18
BITS = 60
UNIT = 1 << BITS
"""Weights and parts are whole numbers of 2^-60."""


class Crossing(NamedTuple):
    """A flow's use of one link, by so many equal connections: at a rate r each takes ``weight`` x r of it.

    ``part`` is what of a connection crosses it, less than 1 where routes are spread: so much of a fair share is the flow's.
    """

    link: int
    weight: int = UNIT
    part: int = UNIT
    connections: int = 1

    def share(self, rate: int) -> int:
        """What one connection takes of the link, at a rate of its flow."""
        return rate * self.weight >> BITS


class Demand(NamedTuple):
    """What a flow asks of the network: its work where a connection carries most, and the links it crosses."""

    work: int
    crossings: tuple[Crossing, ...]


def demand(loads: Sequence[Load]) -> Demand:
    """The demand of a transfer.

    >>> work, crossings = demand([Load(0, Fraction(10)), Load(3, Fraction(5))])
    >>> work == 10 * WORK_PER_BYTE, [crossing.weight / UNIT for crossing in crossings]
    (True, [1.0, 0.5])
    """
    # Fractions are slow, and most links of a transfer carry the same.
    alike: dict[tuple[int, int, int], tuple[Fraction, Fraction]] = {}
    for load in loads:
        key = id(load.volume_bytes), id(load.occupancy), id(load.part)
        if key not in alike:
            alike[key] = load.held_bytes, load.held_bytes / load.part
    most = max(each for _, each in alike.values())
    uses = {key: (_up(held / most), _up(Fraction(each and held / each))) for key, (held, each) in alike.items()}
    crossings = []
    for load in loads:
        weight, part = uses[id(load.volume_bytes), id(load.occupancy), id(load.part)]
        if weight:
            crossings.append(Crossing(load.link, weight, part, load.connections))
    return Demand(max(1, round(most * WORK_PER_BYTE)), tuple(crossings))


def _up(value: Fraction) -> int:
    return -(-(value.numerator << BITS) // value.denominator)


def alone(crossings: Sequence[Crossing], capacities: Mapping[int, int] | Sequence[int]) -> tuple[int, int]:
    """The rate of a flow that meets no other, and the link that sets it."""
    rate, link = min(
        ((capacities[crossing.link] << BITS) // (crossing.connections * crossing.weight), crossing.link) for crossing in crossings
    )
    return max(1, rate), link


def shares(
    flows: Sequence[Sequence[Crossing]],
    capacities: Mapping[int, int] | Sequence[int],
    limits: Sequence[tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """The rate of each flow, and the link that sets it: one that is full, and where no other connection has a greater share.

    For flows that need the same of all their links it is max-min fairness, found by progressive filling (Bertsekas and Gallager,
    Data Networks, section 6.5.2); for the others it is bottleneck max fairness (Bonald and Roberts, ACM SIGMETRICS 2015).
    ``capacities`` by link, in rate units. ``limits`` are the rates that the flows would have alone, with the links that set them;
    where they are given, links that can hold up no flow may be left out of ``flows``.

    >>> a, b = Crossing(0), Crossing(1)
    >>> [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])]
    [2, 8, 2]
    """
    if limits is None:
        limits = [alone(crossings, capacities) for crossings in flows]
    filling = _Filling(flows, capacities, limits)
    waiting = [(filling.pace(link), link) for link in filling.left]
    heapq.heapify(waiting)
    aside: list[int] = []  # scarce links with a flow that may be held up elsewhere, by a link that is not settled yet
    progress = False
    while waiting or aside:
        if not waiting:
            open_links = [link for link in aside if filling.parts[link]]
            if not progress:
                filling.settle_circle(open_links)
                break
            progress, aside = False, []
            waiting = [(filling.pace(link), link) for link in open_links]
            heapq.heapify(waiting)
            continue
        full = _scarcest(waiting, filling)
        at_limit, settled, doubtful = filling.certain(full)
        if at_limit:
            filling.settle(at_limit)
            for link in full:
                if filling.parts[link]:
                    heapq.heappush(waiting, (filling.pace(link), link))
        else:
            filling.settle(settled)
            aside += doubtful
        progress = progress or bool(at_limit or settled)
    return filling.result


class _Filling:
    """The state of a filling: what is left of each link, for how many connections, and the rates so far."""

    def __init__(
        self,
        flows: Sequence[Sequence[Crossing]],
        capacities: Mapping[int, int] | Sequence[int],
        limits: Sequence[tuple[int, int]],
    ) -> None:
        self.flows, self.limits = flows, limits
        self.result = [(0, -1) if crossings else limit for crossings, limit in zip(flows, limits, strict=True)]
        left: dict[int, int] = {}
        parts: dict[int, int] = {}
        on_link: dict[int, list[int]] = {}
        heaviest: dict[int, tuple[int, int]] = {}
        for number, crossings in enumerate(flows):
            for link, weight, part, connections in crossings:
                if link in left:
                    parts[link] += connections * part
                    on_link[link].append(number)
                    if weight != part:
                        most, of = heaviest[link]
                        if weight * of > most * part:
                            heaviest[link] = weight, part
                else:
                    left[link], parts[link], on_link[link] = capacities[link], connections * part, [number]
                    heaviest[link] = weight, part
        self.left, self.parts, self.on_link, self.heaviest = left, parts, on_link, heaviest

    def pace(self, link: int) -> int:
        """The rate of the slowest flow that the link could hold up."""
        weight, part = self.heaviest[link]
        level = (self.left[link] << BITS) // self.parts[link]
        return level if weight == part else level * part // weight

    def certain(
        self, full: list[int]
    ) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]], list[int]]:
        """Rates that no later settling changes, of flows on these links; and the links on which there are others.

        While others settle a link's level can only rise. So a flow has its rate when it goes as fast as alone (the first result),
        and when all flows of a link are held up there by what is known so far (the second).
        """
        flows, limits, left, parts, result = self.flows, self.limits, self.left, self.parts, self.result
        at_limit: dict[int, tuple[int, int]] = {}
        settled: dict[int, tuple[int, int]] = {}
        doubtful: list[int] = []
        for link in full:
            here: dict[int, tuple[int, int]] = {}
            elsewhere = False
            for number in self.on_link[link]:
                if result[number][0]:
                    continue
                most, own = limits[number], 0
                rate, _ = most
                for other, weight, part, _ in flows[number]:
                    share = (left[other] << BITS) // parts[other]
                    if weight != part:
                        share = share * part // weight
                    if share < rate:
                        rate = share
                    if other == link:
                        own = share
                if rate == most[0]:
                    at_limit[number] = most
                else:
                    here[number] = rate, link  # of several that are as scarce the one that is full now
                    elsewhere = elsewhere or rate < own
            if elsewhere:
                doubtful.append(link)
            else:
                settled.update(here)
        return at_limit, settled, doubtful

    def settle(self, rates: dict[int, tuple[int, int]]) -> None:
        left, parts = self.left, self.parts
        for number, (rate, slowest) in rates.items():
            rate = max(1, rate)
            self.result[number] = rate, slowest
            for link, weight, part, connections in self.flows[number]:
                rest = left[link] - connections * (rate if weight == UNIT else rate * weight >> BITS)
                left[link] = rest if rest > 0 else 0
                parts[link] -= connections * part

    def settle_circle(self, links: Sequence[int]) -> None:
        """Flows of which each may be held up where another takes a part of what it needs: all at once."""
        numbers = sorted({number for link in links for number in self.on_link[link] if not self.result[number][0]})
        flows = [self.flows[number] for number in numbers]
        found = share_in_circle(flows, {link: self.left[link] for link in links}, [self.limits[number] for number in numbers])
        self.settle(dict(zip(numbers, found, strict=True)))


def _scarcest(waiting: list[tuple[int, int]], filling: _Filling) -> list[int]:
    """All links that are equally scarce at once, so that the result does not depend on how links and flows are numbered.

    A link to which others have left more than it had when it was put into ``waiting`` goes back to wait its turn.
    """
    least, _ = waiting[0]
    full = []
    while waiting and waiting[0][0] == least:
        _, link = heapq.heappop(waiting)
        if filling.parts[link]:
            pace = filling.pace(link)
            if pace > least:
                heapq.heappush(waiting, (pace, link))
            else:
                full.append(link)
    return full
