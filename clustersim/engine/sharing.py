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
    """A flow's use of one link: its bytes there are ``weight_numerator / weight_denominator`` of those on its busiest link."""

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
    most = max(load.volume_bytes for load in loads)
    crossings = []
    for load in loads:
        weight = load.volume_bytes / most
        if weight:
            crossings.append(Crossing(load.link, weight.numerator, weight.denominator, load.connections))
    on = {crossing.link: crossing for crossing in crossings}
    return Demand(max(1, round(most * WORK_PER_BYTE)), tuple(crossings), on)


def alone(crossings: Sequence[Crossing], capacities: Sequence[int]) -> tuple[int, int]:
    """The rate of a flow that meets no other, and the link that sets it."""
    return min((capacities[link] // connections * below // above, link) for link, above, below, connections in crossings)


def shares(flows: Sequence[Sequence[Crossing]], capacities: Mapping[int, int] | Sequence[int]) -> list[tuple[int, int]]:
    """The rate of each flow, and the link that sets it.

    Every connection on a link has an equal share of what the flows that are limited elsewhere leave; a flow goes at the pace of
    its scarcest link (progressive filling: Bertsekas and Gallager, Data Networks, section 6.5.2). ``capacities`` by link, in
    rate units.

    >>> a, b = Crossing(0, 1, 1, 1), Crossing(1, 1, 1, 1)
    >>> [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])]
    [2, 8, 2]
    """
    left: dict[int, int] = {}
    connections: dict[int, int] = {}
    on_link: dict[int, list[int]] = {}
    for number, crossings in enumerate(flows):
        for link, _, _, count in crossings:
            if link in left:
                connections[link] += count
                on_link[link].append(number)
            else:
                left[link], connections[link], on_link[link] = capacities[link], count, [number]
    result: list[tuple[int, int]] = [(0, -1)] * len(flows)
    scarcest = [(left[link] // connections[link], link) for link in left]
    heapq.heapify(scarcest)
    while scarcest:
        # All links that are equally scarce at once, so that the result does not depend on how links and flows are numbered.
        level, here = heapq.heappop(scarcest)
        full = [here] if _is_level(level, here, left, connections, scarcest) else []
        while scarcest and full and scarcest[0][0] == level:
            _, other = heapq.heappop(scarcest)
            if _is_level(level, other, left, connections, scarcest):
                full.append(other)
        rates = {
            # Another link limits a flow when more of its bytes go there.
            number: min((left[link] // connections[link] * below // above, link) for link, above, below, _ in flows[number])
            for link in full
            for number in on_link[link]
            if not result[number][0]
        }
        for number, (rate, slowest) in rates.items():
            result[number] = rate, slowest = max(1, rate), slowest
            for link, above, below, count in flows[number]:
                left[link] = max(0, left[link] - count * (-(-rate * above // below)))
                connections[link] -= count
    return result


def _is_level(level: int, link: int, left: dict[int, int], connections: dict[int, int], scarcest: list[tuple[int, int]]) -> bool:
    """Whether a link still has this level; one to which others have left more goes back to wait its turn."""
    if not connections[link]:
        return False
    now = left[link] // connections[link]
    if now > level:
        heapq.heappush(scarcest, (now, link))
    return now <= level
