"""Ways: the links that can hold up a flow, found once for all phases. Flows that take the same way go at the same rate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from clustersim.engine.sharing import Crossing, Demand, alone, demand
from clustersim.program.program import Phase


class Way(NamedTuple):
    """Links, and the rate of a flow that meets no other with the link that sets it.

    ``most`` is what such a flow takes of each of its links, in the order of ``crossings``; ``on`` is by link.
    """

    crossings: tuple[Crossing, ...]
    on: dict[int, Crossing]
    alone: tuple[int, int]
    most: tuple[int, ...]


class Ways(NamedTuple):
    """By phase: its work, and the number of its way, -1 where it moves nothing."""

    work: list[int]
    way: list[int]
    ways: list[Way]


def find_ways(phases: Sequence[Phase], capacities: Sequence[int], carriers: Sequence[Collection[int]] | None = None) -> Ways:
    """``capacities`` by link, in rate units. ``carriers`` by phase: the streams that run it, of which each runs one phase at a time.

    Left out are links that can hold up no flow: those that are never full before another link of all their flows is, and those that
    can carry at once whatever their streams ever run.

    >>> from fractions import Fraction
    >>> from clustersim.program.program import Load
    >>> series = Phase(0, tuple(Load(link, Fraction(1)) for link in (0, 1, 2)))
    >>> found = find_ways([series, Phase(0, (Load(2, Fraction(1)),))], [30, 20, 50])
    >>> [[crossing.link for crossing in found.ways[way].crossings] for way in found.way]
    [[1, 2], [2]]
    """
    demands = [demand(phase.loads) if phase.loads else None for phase in phases]
    users: dict[int, dict[int, Crossing]] = {}
    for number, one in enumerate(demands):
        for crossing in one.crossings if one is not None else ():
            users.setdefault(crossing.link, {})[number] = crossing
    rates = [(0, -1) if one is None else alone(one.crossings, capacities) for one in demands]
    needless = {link for link in users if _dominated(link, users, demands, rates, capacities)}
    if carriers is not None:
        setters = {
            alone([crossing for crossing in one.crossings if crossing.link not in needless], capacities)[1]
            for one in demands
            if one is not None
        }
        needless |= {link for link, use in users.items() if link not in setters and _wide(use, rates, capacities[link], carriers)}
    numbers: dict[tuple[Crossing, ...], int] = {}
    way_of = []
    for one in demands:
        crossings = tuple(crossing for crossing in _crossings(one) if crossing.link not in needless)
        way_of.append(numbers.setdefault(crossings, len(numbers)) if crossings else -1)
    return Ways([0 if one is None else one.work for one in demands], way_of, [_way(crossings, capacities) for crossings in numbers])


def _crossings(one: Demand | None) -> Sequence[Crossing]:
    return () if one is None else one.crossings


def _dominated(
    link: int, users: Mapping[int, Mapping[int, Crossing]], demands: Sequence[Demand | None], rates: Sequence[tuple[int, int]],
    capacities: Sequence[int]
) -> bool:
    """Whether another link, crossed by all phases that cross this one, is always full before it; of links alike all but the first."""
    use = users[link]
    phase = min(use, key=lambda number: len(_crossings(demands[number])))
    others = _crossings(demands[phase])
    candidates = [crossing.link for crossing in others] if len(others) <= _FEW else [rates[phase][1]]
    return any(other != link and _fills_first(other, link, users, capacities) for other in candidates)


def _fills_first(other: int, link: int, users: Mapping[int, Mapping[int, Crossing]], capacities: Sequence[int]) -> bool:
    theirs, use = users[other], users[link]
    if len(theirs) < len(use):
        return False
    alike = len(theirs) == len(use)
    for phase, crossing in use.items():
        there = theirs.get(phase)
        if there is None:
            return False
        if crossing[1:] == there[1:] and capacities[other] <= capacities[link]:
            alike = alike and capacities[other] == capacities[link]
        elif there.connections * there.weight * capacities[link] > crossing.connections * crossing.weight * capacities[other]:
            alike = False
        else:
            return False
    return not alike or other < link


def _wide(use: Mapping[int, Crossing], rates: Sequence[tuple[int, int]], capacity: int, carriers: Sequence[Collection[int]]) -> bool:
    """Whether the link bears whatever its streams run at once, each phase as fast as it would go alone."""
    most: dict[int, int] = {}
    for phase, crossing in use.items():
        taken = crossing.connections * crossing.share(rates[phase][0])
        for carrier in carriers[phase]:
            most[carrier] = max(taken, most.get(carrier, 0))
    return sum(most.values()) <= capacity


def _way(crossings: tuple[Crossing, ...], capacities: Sequence[int]) -> Way:
    rate, slowest = alone(crossings, capacities)
    most = tuple(crossing.connections * crossing.share(rate) for crossing in crossings)
    return Way(crossings, {crossing.link: crossing for crossing in crossings}, (rate, slowest), most)


_FEW = 64  # links of a phase among which one is looked for that fills first
