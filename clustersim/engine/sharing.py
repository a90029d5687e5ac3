"""Max-min fair sharing: what each flow gets when flows meet on links. Integers only, so that equal cases are equal.

Rates are in units of 1e-6 bytes/s and work in units of 1e-18 bytes, so that work = rate x picoseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from clustersim.program.program import Load

RATE_PER_BYTE_S = 10**6
WORK_PER_BYTE = 10**18


class Crossing(NamedTuple):
    """A flow's use of one link: it holds it ``weight_numerator / weight_denominator`` times as much as its busiest link."""

    link: int
    weight_numerator: int
    weight_denominator: int
    connections: int


class Demand(NamedTuple):
    """What a flow asks of the network: its work on its busiest link, and the links it crosses, in order and by link."""

    work: int
    crossings: tuple[Crossing, ...]
    on: dict[int, Crossing]


def demand(loads: Sequence[Load]) -> Demand:
    """The demand of a transfer.

    >>> demand([Load(0, Fraction(10)), Load(3, Fraction(5))]).on[3]
    Crossing(link=3, weight_numerator=1, weight_denominator=2, connections=1)
    """
    most = max(load.held_bytes for load in loads)
    crossings = []
    for load in loads:
        weight = load.held_bytes / most
        if weight:
            crossings.append(Crossing(load.link, weight.numerator, weight.denominator, load.connections))
    on = {crossing.link: crossing for crossing in crossings}
    return Demand(max(1, round(most * WORK_PER_BYTE)), tuple(crossings), on)


def alone(crossings: Sequence[Crossing], capacities: Mapping[int, int] | Sequence[int]) -> tuple[int, int]:
    """The rate of a flow that meets no other, and the link that sets it."""
    rate, link = min((capacities[link] // connections * below // above, link) for link, above, below, connections in crossings)
    return max(1, rate), link


def shares(
    flows: Sequence[Sequence[Crossing]],
    capacities: Mapping[int, int] | Sequence[int],
    limits: Sequence[tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """The rate of each flow, and the link that sets it.

    Every connection on a link has an equal share of what the flows that are limited elsewhere leave; a flow goes at the pace of
    its scarcest link (progressive filling: Bertsekas and Gallager, Data Networks, section 6.5.2). ``capacities`` by link, in
    rate units. ``limits`` are the rates that the flows would have alone, with the links that set them; where they are given, links
    that cannot hold up a flow any further may be left out of ``flows``.

    >>> a, b = Crossing(0, 1, 1, 1), Crossing(1, 1, 1, 1)
    >>> [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])]
    [2, 8, 2]
    """
    if limits is None:
        limits = [alone(crossings, capacities) for crossings in flows]
    filling = _Filling(flows, capacities, limits)
    waiting = [(filling.level(link), link) for link in filling.left]
    heapq.heapify(waiting)
    aside: list[int] = []  # scarce links on which some flow is limited by another link that is not full yet
    progress, force = True, False
    while waiting or aside:
        if not waiting:
            # No link at all whose flows are all limited there: unequal weights in a circle. The scarcest goes first.
            force, progress = not progress, False
            waiting = [(filling.level(link), link) for link in aside if filling.connections[link]]
            heapq.heapify(waiting)
            aside = []
            continue
        full = _scarcest(waiting, filling)
        if not full:
            continue
        rates, at_limit, elsewhere = filling.rates(full)
        if at_limit:
            filling.take(at_limit)
            for link in full:
                if filling.connections[link]:
                    heapq.heappush(waiting, (filling.level(link), link))
            continue
        for link in full:
            if link in elsewhere and not force:
                aside.append(link)
        if force or not elsewhere:
            taken = rates
        else:
            whole = set(full).difference(elsewhere)
            taken = {number: rates[number] for link in whole for number in filling.on_link[link] if number in rates}
        if taken:
            filling.take(taken)
            progress, force = True, False
    return filling.result


class _Filling:
    """The state of a progressive filling: what is left of each link, for how many connections, and the rates so far."""

    def __init__(
        self,
        flows: Sequence[Sequence[Crossing]],
        capacities: Mapping[int, int] | Sequence[int],
        limits: Sequence[tuple[int, int]],
    ) -> None:
        self.flows, self.limits = flows, limits
        self.result = [(0, -1) if crossings else limit for crossings, limit in zip(flows, limits, strict=True)]
        left: dict[int, int] = {}
        connections: dict[int, int] = {}
        on_link: dict[int, list[int]] = {}
        heaviest: dict[int, tuple[int, int]] = {}
        for number, crossings in enumerate(flows):
            for link, above, below, count in crossings:
                if link in left:
                    connections[link] += count
                    on_link[link].append(number)
                    most, least = heaviest[link]
                    if above * least > most * below:
                        heaviest[link] = above, below
                else:
                    left[link], connections[link], on_link[link] = capacities[link], count, [number]
                    heaviest[link] = above, below
        self.left, self.connections, self.on_link, self.heaviest = left, connections, on_link, heaviest

    def level(self, link: int) -> int:
        """The rate of the slowest flow that the link limits."""
        above, below = self.heaviest[link]
        return self.left[link] // self.connections[link] * below // above

    def rates(self, full: list[int]) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]], set[int]]:
        """Of the flows on these links: their rates, those that have all they can, and the links with flows that others limit."""
        flows, limits, left, connections, result = self.flows, self.limits, self.left, self.connections, self.result
        rates: dict[int, tuple[int, int]] = {}
        at_limit: dict[int, tuple[int, int]] = {}
        elsewhere: set[int] = set()
        for link in full:
            for number in self.on_link[link]:
                if result[number][0]:
                    continue
                most = rate, slowest = limits[number]
                here = 0
                for other, above, below, _ in flows[number]:
                    share = left[other] // connections[other]
                    if above != below:
                        share = share * below // above
                    if share < rate:
                        rate, slowest = share, other
                    if other == link:
                        here = share
                if slowest == most[1] and rate == most[0]:
                    at_limit[number] = most
                else:
                    rates[number] = rate, slowest
                    if rate < here:
                        elsewhere.add(link)
        return rates, at_limit, elsewhere

    def take(self, rates: dict[int, tuple[int, int]]) -> None:
        left, connections = self.left, self.connections
        for number, (rate, slowest) in rates.items():
            self.result[number] = rate, slowest = max(1, rate), slowest
            for link, above, below, count in self.flows[number]:
                rest = left[link] - (count * rate if above == below else count * (-(-rate * above // below)))
                left[link] = rest if rest > 0 else 0
                connections[link] -= count


def _scarcest(waiting: list[tuple[int, int]], filling: _Filling) -> list[int]:
    """All links that are equally scarce at once, so that the result does not depend on how links and flows are numbered.

    A link to which others have left more than it had when it was put into ``waiting`` goes back to wait its turn.
    """
    least, _ = waiting[0]
    full = []
    while waiting and waiting[0][0] == least:
        _, link = heapq.heappop(waiting)
        if filling.connections[link]:
            level = filling.level(link)
            if level > least:
                heapq.heappush(waiting, (level, link))
            else:
                full.append(link)
    return full
