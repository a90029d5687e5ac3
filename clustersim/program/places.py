"""Where activities happen, and which links they load: an exchange is planned by an algorithm and laid over routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from clustersim.cluster.blocks import Block, blocks_of
from clustersim.cluster.spec import Cluster
from clustersim.collectives.loads import LaidPhase, Pace, lay_phases
from clustersim.program.grid import DIMENSIONS, Grid
from clustersim.program.groups import Groups, Pattern, groups_along, patterns, ranks_of

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

    @property
    def ends(self) -> tuple[int, ...]:
        """The pipeline ranks that take part. A sender and its receiver lie on one copy."""
        return (self.pipeline, self.to) if self.dimension == "pipeline" else (self.pipeline,)


def shape_of(cluster: Cluster, group: Sequence[int]) -> Shape:
    """How many members of a group lie on each of its nodes."""
    return tuple(sorted(Counter(rank // cluster.gpus_per_node for rank in group).values()))


class Spots(NamedTuple):
    """Loads of a group relative to its members, as columns: the link at ``offset`` of the set that the owner of ``member`` has in a
    ``block`` (-1: ``offset`` is the link itself) carries the share of the payload with the number ``amount``. ``sender`` has the member
    whose messages they are, by its place in the group; ``parts`` what of a connection crosses each link.
    """

    block: np.ndarray
    member: np.ndarray
    offset: np.ndarray
    amount: np.ndarray
    sender: np.ndarray
    parts: tuple[Fraction, ...] = ()


class PhaseLoads(NamedTuple):
    """One phase of groups that lie alike: its pace, how long it holds links, what a group loads and what of it each copy's messages do."""

    pace: Pace
    occupancy: Fraction
    total: Spots
    own: Spots


class PlaceLoads(NamedTuple):
    """A place's groups, by how they lie, and the phases of each sort."""

    place: Place
    groups: Groups
    patterns: list[Pattern]
    phases: list[tuple[PhaseLoads, ...]]


@dataclass(frozen=True)
class Site:
    """A job's grid on its cluster. What its places load is found once for all groups that lie alike."""

    cluster: Cluster
    grid: Grid

    @cached_property
    def blocks(self) -> tuple[Block, ...] | None:
        return blocks_of(self.cluster)

    @cached_property
    def shares(self) -> list[Fraction]:
        """The shares of a payload that amounts number."""
        return []

    @cached_property
    def _amounts(self) -> dict[Fraction, int]:
        return {}

    @cached_property
    def _laid(self) -> dict[tuple[Any, ...], tuple[PhaseLoads, ...]]:
        return {}

    @cached_property
    def _groups(self) -> dict[str, Groups]:
        return {}

    @cached_property
    def _patterns(self) -> dict[tuple[Any, ...], list[Pattern]]:
        return {}

    def groups(self, dimension: str) -> Groups:
        if dimension not in self._groups:
            self._groups[dimension] = groups_along(self.grid, dimension)
        return self._groups[dimension]

    def patterns(self, place: Place) -> list[Pattern]:
        key = place.dimension, place.ends
        if key not in self._patterns:
            ranks = ranks_of(self.grid, self.groups(place.dimension), place.ends)
            self._patterns[key] = patterns(ranks, self.blocks, self.cluster.gpus_per_node)
        return self._patterns[key]

    def shapes(self, place: Place) -> dict[Shape, tuple[tuple[int, ...], int]]:
        """By shape the first group of a place that has it, and how many have."""
        found: dict[Shape, tuple[tuple[int, ...], int]] = {}
        for pattern in self.patterns(place):
            first = tuple(pattern.ranks[0].tolist())
            shape = shape_of(self.cluster, first)
            known, count = found.get(shape, (first, 0))
            found[shape] = known, count + len(pattern.groups)
        return found

    def loads(self, place: Place) -> PlaceLoads:
        """What the groups of a place load, by ``multi-ring`` where the algorithm cannot do it."""
        found = self.patterns(place)
        return PlaceLoads(place, self.groups(place.dimension), found, [self._lay(place, pattern) for pattern in found])

    def links(self, spots: Spots, ranks: np.ndarray) -> np.ndarray:
        """The links of spots, a row for each row of ranks."""
        links = np.repeat(spots.offset[None], len(ranks), axis=0)
        for number, block in enumerate(self.blocks or ()):
            here = np.flatnonzero(spots.block == number)
            links[:, here] += block.first + block.owner(ranks[:, spots.member[here]]) * block.size
        return links

    def _lay(self, place: Place, pattern: Pattern) -> tuple[PhaseLoads, ...]:
        ranks = pattern.ranks[0]
        algorithm = place.algorithm_for(shape_of(self.cluster, ranks.tolist()))
        key = pattern.key, place.dimension, place.op, algorithm
        if key not in self._laid:
            flow = DIMENSIONS.index(place.dimension) * _FLOWS_APART
            phases = lay_phases(self.cluster, ranks.tolist(), place.op, algorithm, or_ring=True, flow=flow)
            self._laid[key] = tuple(self._relative(phase, ranks, len(place.ends)) for phase in phases)
        return self._laid[key]

    def _relative(self, phase: LaidPhase, ranks: np.ndarray, ends: int) -> PhaseLoads:
        senders = np.repeat(np.arange(len(phase.by_member)) // ends, [len(one) for one in phase.by_member])
        own = [(link, share) for one in phase.by_member for link, share in one.items()]
        parts = tuple(phase.parts.get(link, Fraction(1)) for link in phase.total)
        total = self._spots(list(phase.total.items()), ranks, np.zeros(len(phase.total), dtype=np.int64))._replace(parts=parts)
        return PhaseLoads(phase.pace, phase.occupancy, total, self._spots(own, ranks, senders))

    def _spots(self, carried: list[tuple[int, Fraction]], ranks: np.ndarray, senders: np.ndarray) -> Spots:
        links = np.array([link for link, _ in carried], dtype=np.int64)
        # Hashes of fractions are slow, and plans have few that many members share.
        number = {identity: self._number(share) for identity, share in {id(share): share for _, share in carried}.items()}
        amounts = np.array([number[id(share)] for _, share in carried], dtype=np.int64)
        if not self.blocks:
            return Spots(np.full(len(links), -1), np.zeros_like(links), links, amounts, senders)
        firsts, sizes = np.array([(block.first, block.size) for block in self.blocks], dtype=np.int64).T
        block = np.searchsorted(firsts, links, side="right") - 1
        owner, offset = np.divmod(links - firsts[block], np.maximum(1, sizes[block]))
        member_of: dict[tuple[int, int], int] = {}
        for at, one in enumerate(self.blocks):
            for member, of in reversed(list(enumerate(one.owner(ranks).tolist()))):
                member_of[at, of] = member
        members = np.array([member_of[pair] for pair in zip(block.tolist(), owner.tolist(), strict=True)], dtype=np.int64)
        return Spots(block, members, offset, amounts, senders)

    def _number(self, share: Fraction) -> int:
        found = self._amounts.setdefault(share, len(self.shares))
        if found == len(self.shares):
            self.shares.append(share)
        return found
