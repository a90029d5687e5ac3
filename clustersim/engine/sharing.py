"""Max-min fair sharing: what each flow gets when flows meet on links. Integers only, so that equal cases are equal.

Rates are in units of 1e-6 bytes/s and work in units of 1e-18 bytes, so that work = rate x picoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """What a flow asks of the network: its work on its busiest link, and the links it crosses."""

    work: int
    crossings: tuple[Crossing, ...]


def demand(loads: Sequence[Load]) -> Demand:
    """The demand of a transfer.

    >>> demand([Load(0, Fraction(10)), Load(3, Fraction(5))])
    Demand(work=10000000000000000000, crossings=(Crossing(link=0, weight_numerator=1, weight_denominator=1, connections=1), \
Crossing(link=3, weight_numerator=1, weight_denominator=2, connections=1)))
    """
    most = max(load.volume_bytes for load in loads)
    crossings = []
    for load in loads:
        weight = load.volume_bytes / most
        if weight:
            crossings.append(Crossing(load.link, weight.numerator, weight.denominator, load.connections))
    return Demand(max(1, round(most * WORK_PER_BYTE)), tuple(crossings))


def alone(crossings: Sequence[Crossing], capacities: Sequence[int]) -> tuple[int, int]:
    """The rate of a flow that meets no other, and the link that sets it."""
    return min((capacities[link] // connections * below // above, link) for link, above, below, connections in crossings)


def shares(flows: Sequence[Sequence[Crossing]], capacities: Sequence[int]) -> list[tuple[int, int]]:
    """The rate of each flow, and the link that sets it.

    Every connection on a link has an equal share of what the flows that are limited elsewhere leave; a flow goes at the
    pace of its scarcest link. ``capacities`` by link, in rate units.

    >>> a, b = Crossing(0, 1, 1, 1), Crossing(1, 1, 1, 1)
    >>> [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])]
    [2, 8, 2]
    """
    left: dict[int, int] = {}
    connections: dict[int, int] = {}
    on_link: dict[int, list[int]] = {}
    for number, crossings in enumerate(flows):
        for link, _, _, count in crossings:
            left.setdefault(link, capacities[link])
            connections[link] = connections.get(link, 0) + count
            on_link.setdefault(link, []).append(number)
    result: list[tuple[int, int]] = [(0, -1)] * len(flows)
    open_flows = dict.fromkeys(range(len(flows)))
    while open_flows:
        limits = {
            number: min((left[link] // connections[link] * below // above, link) for link, above, below, _ in flows[number])
            for number in open_flows
        }
        # A link whose open flows all wait for it and for nothing else sets their rates; where flows wait for each
        # other's links in a ring there is none, and the scarcest link goes first.
        settled = [
            number
            for number, (_, link) in limits.items()
            if all(limits[other][1] == link for other in on_link[link] if other in open_flows)
        ]
        number = min(settled or open_flows, key=lambda n: (left[limits[n][1]] // connections[limits[n][1]], n))
        rate = max(1, limits[number][0])
        result[number] = rate, limits[number][1]
        del open_flows[number]
        for link, above, below, count in flows[number]:
            left[link] = max(0, left[link] - count * (-(-rate * above // below)))
            connections[link] -= count
    return result
