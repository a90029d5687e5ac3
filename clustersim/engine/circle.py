"""Fair shares where flows hold each other up in a circle: one is limited by a link on which another, limited elsewhere, takes a part.

Links and flows that are alike are taken together (the coarsest equitable partition), so that the answer does not depend on numbers,
and is the same for one of each kind and for all. Which link limits each kind of flow is guessed, the levels follow from linear
equations, exactly, and the guess is mended until it agrees with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

_UNIT = 1 << 60
_ROUNDS, _STEPS = 20, 20
_LESS = 2**-48
_GRAIN = 2**8

Crossing = tuple[int, int, int, int]
"""Link, weight, part, connections: see :class:`clustersim.engine.sharing.Crossing`."""


@dataclass(frozen=True)
class _Kinds:
    """``uses[flow]``: the kinds of link that a kind of flow crosses, with the rate that a level of 1 allows it there.

    ``takes[link]``: what a rate of 1 of each kind of flow takes of one link of the kind. ``left`` is by link, ``limits`` by flow.
    """

    flow_of: list[int]
    uses: list[list[tuple[int, Fraction]]]
    takes: list[dict[int, Fraction]]
    entitled: list[Fraction]
    left: list[int]
    limits: list[int]


def share_in_circle(
    flows: Sequence[Sequence[Crossing]], left: Mapping[int, int], limits: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The rate of each flow and the link that sets it, on links with so much left.

    >>> half = 1 << 59
    >>> flows = [((0, 2 * half, 2 * half, 1), (1, half, 2 * half, 1)), ((1, 2 * half, 2 * half, 1), (0, half, 2 * half, 1))]
    >>> share_in_circle(flows, {0: 300, 1: 300}, [(300, 0), (300, 1)])
    [(200, 0), (200, 1)]
    """
    links = list(left)
    link_kind, flow_kind = _kinds_of(flows, left, limits)
    kinds = _gather(flows, links, link_kind, flow_kind, left, limits)
    rates, limiting = _solve(kinds)
    result = []
    for number, crossings in enumerate(flows):
        kind = flow_kind[number]
        at = limiting[kind]
        if at is None:
            link = limits[number][1]
        else:
            link = min((Fraction(part, weight), link) for link, weight, part, _ in crossings if link_kind[link] == at)[1]
        result.append((max(1, int(rates[kind])), link))
    return result


def _kinds_of(
    flows: Sequence[Sequence[Crossing]], left: Mapping[int, int], limits: Sequence[tuple[int, int]]
) -> tuple[dict[int, int], list[int]]:
    """Colour refinement: links of one kind carry alike flows, flows of one kind cross alike links."""
    on_link: dict[int, list[tuple[int, Crossing]]] = {link: [] for link in left}
    for number, crossings in enumerate(flows):
        for crossing in crossings:
            on_link[crossing[0]].append((number, crossing))
    link_kind = _numbered(dict(left))
    flow_kind = _numbered({number: limit for number, (limit, _) in enumerate(limits)})
    while True:
        before = len(set(link_kind.values())) + len(set(flow_kind.values()))
        flow_kind = _numbered(
            {
                number: (flow_kind[number], *sorted((link_kind[link], *use) for link, *use in crossings))
                for number, crossings in enumerate(flows)
            }
        )
        link_kind = _numbered(
            {
                link: (link_kind[link], *sorted(Counter((flow_kind[number], *use) for number, (_, *use) in here).items()))
                for link, here in on_link.items()
            }
        )
        if len(set(link_kind.values())) + len(set(flow_kind.values())) == before:
            return link_kind, [flow_kind[number] for number in range(len(flows))]


def _numbered(keys: Mapping[int, Hashable]) -> dict[int, int]:
    numbers: dict[Hashable, int] = {}
    return {item: numbers.setdefault(key, len(numbers)) for item, key in keys.items()}


def _gather(
    flows: Sequence[Sequence[Crossing]], links: list[int], link_kind: dict[int, int], flow_kind: list[int],
    left: Mapping[int, int], limits: Sequence[tuple[int, int]],
) -> _Kinds:  # fmt: skip
    """The kinds, from one flow and one link of each."""
    flow_of = [flow_kind.index(kind) for kind in range(max(flow_kind) + 1)]
    link_of = {kind: link for link, kind in reversed(link_kind.items())}
    takes: list[dict[int, Fraction]] = [{} for _ in link_of]
    entitled = [Fraction(0)] * len(link_of)
    for number, crossings in enumerate(flows):
        for link, weight, part, connections in crossings:
            kind = link_kind[link]
            if link_of[kind] == link:
                flow = flow_kind[number]
                takes[kind][flow] = takes[kind].get(flow, Fraction(0)) + Fraction(connections * weight, _UNIT)
                entitled[kind] += Fraction(connections * part, _UNIT)
    return _Kinds(
        flow_of=flow_of,
        uses=[[(link_kind[link], Fraction(part, weight)) for link, weight, part, _ in flows[number]] for number in flow_of],
        takes=takes,
        entitled=entitled,
        left=[left[link_of[kind]] for kind in range(len(link_of))],
        limits=[limits[number][0] for number in flow_of],
    )


def _solve(kinds: _Kinds) -> tuple[list[Fraction], list[int | None]]:
    """The rate of each kind of flow, and the kind of link that limits it, None when nothing does."""
    nearing = _Nearing(kinds)
    tried: list[int | None] = []
    for _ in range(_ROUNDS):
        for _ in range(_STEPS):
            nearing.step()
        levels = nearing.levels.tolist()
        limiting = [_scarcest(kinds, flow, levels) for flow in range(len(kinds.uses))]
        if limiting != tried:
            rates = _rates(kinds, limiting)
            if rates is not None and _agree(kinds, rates, limiting):
                return rates, limiting
            tried = limiting
    return _within(kinds, levels), limiting


def _within(kinds: _Kinds, levels: Sequence[float]) -> list[Fraction]:
    """What these levels allow, less what would overfill a link: where several rates would be fair, the equations have none of their own."""
    rates = [
        min([float(limit), *(levels[link] * float(factor) for link, factor in uses)])
        for limit, uses in zip(kinds.limits, kinds.uses, strict=True)
    ]
    loads = [sum(sorted(float(each) * rates[flow] for flow, each in takes.items())) for takes in kinds.takes]
    room = [min(1.0, left / load) * (1 - _LESS) for left, load in zip(kinds.left, loads, strict=True)]
    found = [int(rate * min(room[link] for link, _ in uses)) for rate, uses in zip(rates, kinds.uses, strict=True)]
    return [Fraction(rate // _GRAIN * _GRAIN or rate) for rate in found]


class _Nearing:
    """Levels of links that come nearer, step by step, to those at which each is full while the others stay.

    Columns by use of a kind of link by a kind of flow, sorted by flow.
    """

    def __init__(self, kinds: _Kinds) -> None:
        uses = sorted({(flow, link) for flow, crossed in enumerate(kinds.uses) for link, _ in crossed})
        self.flow, self.link = (np.array(column) for column in zip(*uses, strict=True))
        self.factor = np.array([float(_factor(kinds, flow, link)) for flow, link in uses])
        self.takes = np.array([float(kinds.takes[link][flow]) for flow, link in uses])
        self.limit = np.array(kinds.limits, dtype=float)[self.flow]
        self.left = np.array(kinds.left, dtype=float)
        self.levels = self.left / np.array([float(each) for each in kinds.entitled])
        self.gentle = 1 / max(len(crossed) for crossed in kinds.uses)  # all the way at once they would swing
        self.first_of_flow = np.flatnonzero(np.diff(self.flow, prepend=-1))

    def step(self) -> None:
        full = self._full_levels(self._elsewhere())
        self.levels = self.levels + self.gentle * (full - self.levels)

    def _elsewhere(self) -> np.ndarray:
        """By use, the rate that the flow's other links allow it."""
        allowed = self.levels[self.link] * self.factor
        least = np.minimum.reduceat(allowed, self.first_of_flow)[self.flow]
        lowest = allowed == least
        alone = (np.add.reduceat(lowest, self.first_of_flow) == 1)[self.flow] & lowest
        others = np.minimum.reduceat(np.where(alone, np.inf, allowed), self.first_of_flow)[self.flow]
        return np.minimum(self.limit, np.where(alone, others, least))

    def _full_levels(self, rate: np.ndarray) -> np.ndarray:
        """By link the level at which it is full; where it never is, one at which it holds up nobody."""
        level, entitled = rate / self.factor, self.factor * self.takes
        order = np.lexsort((entitled, level, self.link))
        level, entitled, taken, link = level[order], entitled[order], (rate * self.takes)[order], self.link[order]
        begins = np.flatnonzero(np.diff(link, prepend=-1))
        counts = np.diff(np.append(begins, len(link)))
        rest = np.repeat(np.add.reduceat(entitled, begins), counts) - _before(entitled, begins, counts)
        room = self.left[link] - _before(taken, begins, counts)
        fits = level * rest >= room
        at = np.where(fits, np.arange(len(link)), len(link))
        first = np.minimum.reduceat(at, begins)
        found = np.append(room / np.maximum(rest, np.finfo(float).tiny), 0.0)[first]
        last = 2 * level[begins + counts - 1]
        result = self.levels.copy()
        result[link[begins]] = np.where(first < len(link), found, last)
        return result


def _before(values: np.ndarray, begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of those before each in its segment."""
    total = np.cumsum(values) - values
    return total - np.repeat(total[begins], counts)


def _agree(kinds: _Kinds, rates: Sequence[Fraction], limiting: Sequence[int | None]) -> bool:
    """Whether no link is overfull, and no connection has more on a link than those that it limits."""
    if any(rates[flow] > kinds.limits[flow] for flow in range(len(limiting))):
        return False
    for link, takes in enumerate(kinds.takes):
        if sum(each * rates[flow] for flow, each in takes.items()) > kinds.left[link]:
            return False
        shares = {flow: rates[flow] / _factor(kinds, flow, link) for flow in takes}
        limited = [shares[flow] for flow in takes if limiting[flow] == link]
        if limited and max(shares.values()) > min(limited):
            return False
    return True


def _scarcest(kinds: _Kinds, flow: int, levels: Sequence[float]) -> int | None:
    """The kind of link that allows the flow least; None when none does."""
    rate, link = min((levels[link] * float(factor), link) for link, factor in kinds.uses[flow])
    return link if rate < kinds.limits[flow] else None


def _factor(kinds: _Kinds, flow: int, link: int) -> Fraction:
    return min(factor for other, factor in kinds.uses[flow] if other == link)


def _rates(kinds: _Kinds, limiting: Sequence[int | None]) -> list[Fraction] | None:
    """The rates when each kind of link that limits any flow is full; None when there are no such rates."""
    unknown = sorted({link for link in limiting if link is not None})
    column = {link: place for place, link in enumerate(unknown)}
    factors = [Fraction(kinds.limits[flow]) if link is None else _factor(kinds, flow, link) for flow, link in enumerate(limiting)]
    rows = []
    for link in unknown:
        row = [Fraction(0)] * len(unknown) + [Fraction(kinds.left[link])]
        for flow, takes in kinds.takes[link].items():
            at = limiting[flow]
            if at is None:
                row[-1] -= takes * factors[flow]
            else:
                row[column[at]] += takes * factors[flow]
        rows.append(row)
    levels = _eliminate(rows)
    if levels is None:
        return None
    rates = [factors[flow] if link is None else levels[column[link]] * factors[flow] for flow, link in enumerate(limiting)]
    return rates if all(rate > 0 for rate in rates) else None


def _eliminate(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of linear equations (coefficients, then the right side), None when there is no single one."""
    size = len(rows)
    for place in range(size):
        pivot = next((row for row in range(place, size) if rows[row][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        top = rows[place]
        for row in range(size):
            if row != place and rows[row][place]:
                times = rows[row][place] / top[place]
                rows[row] = [value - times * other for value, other in zip(rows[row], top, strict=True)]
    return [rows[place][-1] / rows[place][place] for place in range(size)]
