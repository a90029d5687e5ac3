"""Where activities happen, and which links they load: an exchange is planned by an algorithm and laid over routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from clustersim.cluster.spec import Cluster
from clustersim.collectives.loads import Pace, lay_phases
from clustersim.program.grid import DIMENSIONS, Grid


_FLOWS_APART = 1 << 16  # what a pair of GPUs sends along different dimensions are different flows


Shape = tuple[int, ...]


class Place(NamedTuple):
    """Which groups do what: the dimension they lie along, their pipeline rank (``to`` which, for sends), operation, algorithm.

    ``chosen`` are the algorithms by the shape of a group, where it is chosen for each.
    """

    dimension: str
    pipeline: int
    to: int
    op: str
    algorithm: str
    chosen: tuple[tuple[Shape, str], ...] = ()

    def algorithm_for(self, shape: Shape) -> str:
        return dict(self.chosen).get(shape, self.algorithm)


def shape_of(cluster: Cluster, group: tuple[int, ...]) -> Shape:
    """How many members of a group lie on each of its nodes."""
    return tuple(sorted(Counter(rank // cluster.gpus_per_node for rank in group).values()))


class Amounts:
    """Shares of a payload by small numbers, which compare and hash faster."""

    def __init__(self) -> None:
        self.shares: list[Fraction] = []
        self._number: dict[Fraction, int] = {}
        self._known: dict[int, tuple[Fraction, int]] = {}  # by id, since plans use one object for many members

    def number(self, share: Fraction) -> int:
        known = self._known.get(id(share))
        if known is not None:
            return known[1]
        found = self._number.setdefault(share, len(self.shares))
        if found == len(self.shares):
            self.shares.append(share)
        self._known[id(share)] = share, found
        return found


Carried = tuple[tuple[int, int], ...]  # (link, amount number)


@dataclass(frozen=True)
class GroupLoads:
    """The groups of a place, as copy numbers and as ranks, the group of each copy, and what they load.

    By phase: what each copy sends over which links, what each group does in all, and of each group its pace (None where it has no
    such phase), how long it holds links, and the part of a connection on each link where it is not the whole.
    """

    place: Place
    groups: list[list[int]]
    ranks: list[tuple[int, ...]]
    group_of: list[int]
    by_copy: list[list[Carried]]
    by_group: list[list[Carried]]
    pace: list[list[Pace | None]]
    occupancy: list[list[Fraction]]
    part: list[list[dict[int, Fraction]]]


def groups_of(grid: Grid, place: Place, copies: list[tuple[int, int]]) -> tuple[list[list[int]], list[tuple[int, ...]], list[int]]:
    """Groups as copy numbers and as ranks, and the group of each copy. A sender and its receiver lie on one copy."""
    numbers: dict[Hashable, int] = {}
    group_of = [numbers.setdefault(grid.key(place.dimension, *copy), len(numbers)) for copy in copies]
    groups: list[list[int]] = [[] for _ in numbers]
    for copy, group in enumerate(group_of):
        groups[group].append(copy)
    ends = (place.pipeline,) if place.dimension != "pipeline" else (place.pipeline, place.to)
    ranks = [tuple(grid.rank(end, *copies[copy]) for copy in members for end in ends) for members in groups]
    return groups, ranks, group_of


def place_loads(cluster: Cluster, grid: Grid, place: Place, copies: list[tuple[int, int]], amounts: Amounts) -> GroupLoads:
    """Plan the exchange for each group, by ``multi-ring`` where the algorithm cannot do it, and lay it over the routes."""
    groups, ranks, group_of = groups_of(grid, place, copies)
    flow = DIMENSIONS.index(place.dimension) * _FLOWS_APART
    by_copy: list[list[Carried]] = []
    by_group: list[list[Carried]] = []
    pace: list[list[Pace | None]] = []
    occupancy: list[list[Fraction]] = []
    part: list[list[dict[int, Fraction]]] = []
    for group, (members, here) in enumerate(zip(groups, ranks, strict=True)):
        algorithm = place.algorithm_for(shape_of(cluster, here))
        for number, phase in enumerate(lay_phases(cluster, here, place.op, algorithm, or_ring=True, flow=flow)):
            if number == len(by_copy):
                by_copy.append([()] * len(copies))
                by_group.append([()] * len(groups))
                pace.append([None] * len(groups))
                occupancy.append([Fraction(1)] * len(groups))
                part.append([{}] * len(groups))
            own = phase.by_member if place.dimension != "pipeline" else [_sum(phase.by_member)]  # both ends lie on one copy
            for copy, carried in zip(members, own, strict=True):
                by_copy[number][copy] = _numbered(carried, amounts)
            by_group[number][group] = _numbered(phase.total, amounts)
            pace[number][group] = phase.pace
            part[number][group] = phase.parts
            occupancy[number][group] = phase.occupancy
    return GroupLoads(place, groups, ranks, group_of, by_copy, by_group, pace, occupancy, part)


def _sum(by_member: Sequence[dict[int, Fraction]]) -> dict[int, Fraction]:
    total: dict[int, Fraction] = {}
    for carried in by_member:
        for link, share in carried.items():
            total[link] = total.get(link, Fraction(0)) + share
    return total


def _numbered(carried: dict[int, Fraction], amounts: Amounts) -> Carried:
    return tuple([(link, amounts.number(share)) for link, share in carried.items()])
