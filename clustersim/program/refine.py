"""Colour refinement on arrays: which copies, groups and links of a job are alike.

Two copies keep one colour while, in each phase, their messages load links of the same colours in the same order, and their groups have
members of the same colours; two links while they are alike and carry as many groups of each colour, with the same shares. What stays is
the coarsest equitable partition. Sets are compared by two sums of hashes of 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustersim.hashing import hashed
from clustersim.program.groups import Groups, numbered
from clustersim.program.places import PhaseLoads, PlaceLoads, Site


@dataclass(frozen=True)
class Incidence:
    """Who loads what. ``links`` are those in use, ascending; in all else they go by their position there.

    Groups of all dimensions are numbered one after another, from ``first_group`` of each. Places that differ in amounts alone are of
    one ``structure`` (by place), and counted once; ``counted`` has the loads of each. Rows ``bounds[link]`` to ``bounds[link + 1]`` of
    ``group`` and ``tag`` are what a link carries; those of ``own_bounds``, ``own_link``, ``own_tag`` what a copy's messages load.
    """

    links: np.ndarray
    groups: dict[str, Groups]
    first_group: dict[str, int]
    structure: list[int]
    counted: list[PlaceLoads]
    bounds: np.ndarray
    group: np.ndarray
    tag: np.ndarray
    own_bounds: np.ndarray
    own_link: np.ndarray
    own_tag: np.ndarray

    def carried(self, link: int, place: int, phase: int, amount: int, colour: np.ndarray, group: int) -> int:
        """How many groups of the colour of ``group`` put an amount (of the counted place) on a link in a phase of a place."""
        rows = slice(self.bounds[link], self.bounds[link + 1])
        same = self.tag[rows] == _tag(self.structure[place], phase, np.array([amount]))[0]
        return int((same & (colour[self.group[rows]] == colour[group])).sum())


@dataclass(frozen=True)
class Colours:
    """Of copies, groups and links; equal numbers mean alike."""

    copy: np.ndarray
    group: np.ndarray
    link: np.ndarray


def incidence(site: Site, loads: Sequence[PlaceLoads]) -> Incidence:
    groups: dict[str, Groups] = {}
    first_group: dict[str, int] = {}
    for one in loads:
        if one.place.dimension not in groups:
            first_group[one.place.dimension] = sum(len(known.members) for known in groups.values())
            groups[one.place.dimension] = one.groups
    numbers: dict[tuple[Any, ...], int] = {}
    structure = [numbers.setdefault(_structure(one), len(numbers)) for one in loads]
    counted = [loads[structure.index(number)] for number in range(len(numbers))]
    nothing = np.zeros(0, dtype=np.int64)
    link, group, tag, own_copy, own_link, own_tag = ([nothing] for _ in range(6))
    for number, one in enumerate(counted):
        for pattern, phases in zip(one.patterns, one.phases, strict=False):
            for at, phase in enumerate(phases):
                rows = len(pattern.ranks)
                link.append(site.links(phase.total, pattern.ranks).ravel())
                group.append(np.repeat(pattern.groups + first_group[one.place.dimension], len(phase.total.amount)))
                tag.append(np.tile(_tag(number, at, phase.total.amount), rows))
                own_copy.append(one.groups.members[pattern.groups][:, phase.own.sender].ravel())
                own_link.append(site.links(phase.own, pattern.ranks).ravel())
                place = np.arange(len(phase.own.amount)) - np.searchsorted(phase.own.sender, phase.own.sender)  # among its sender's
                own_tag.append(np.tile(hashed(_tag(number, at, phase.own.amount) + hashed(_u64(place))), rows))
    every = np.concatenate(link)
    used = np.zeros(site.cluster.link_count, dtype=bool)
    used[every] = True
    position = np.cumsum(used) - 1
    links, copies = np.flatnonzero(used), site.grid.copies * site.grid.tensor
    by_link, by_copy = position[every], np.concatenate(own_copy)
    order, own_order = np.argsort(by_link, kind="stable"), np.argsort(by_copy, kind="stable")
    return Incidence(
        links, groups, first_group, structure, counted,
        bounds=_bounds(by_link, len(links)), group=np.concatenate(group)[order], tag=_joined(tag)[order],
        own_bounds=_bounds(by_copy, copies), own_link=position[np.concatenate(own_link)][own_order], own_tag=_joined(own_tag)[own_order],
    )  # fmt: skip


def refine(found: Incidence, copy: np.ndarray, link: np.ndarray) -> Colours:
    """The coarsest equitable partition that keeps apart what the given colours of copies and links keep apart."""
    while True:
        group = _of_groups(found, copy)
        once = hashed(found.tag + group[found.group])
        link_colour = _labels(link, _sums(once, found.bounds), _sums(hashed(once), found.bounds))
        once = hashed(found.own_tag + hashed(_u64(link_colour))[found.own_link])
        mine = [_sums(once, found.own_bounds), _sums(hashed(once), found.own_bounds)]
        for dimension, groups in found.groups.items():
            mine.append(group[found.first_group[dimension] + groups.of_copy])
        finer = _labels(copy, *mine)
        if finer.max(initial=0) == copy.max(initial=0):
            return Colours(copy, _labels(group), link_colour)
        copy = finer


def _of_groups(found: Incidence, copy: np.ndarray) -> np.ndarray:
    """A hash of the colours of each group's members, and of its dimension."""
    once = hashed(_u64(copy))
    twice = hashed(once)
    hashes = [
        hashed(hashed(once[groups.members].sum(axis=1)) + twice[groups.members].sum(axis=1) + _u64(np.array(number)))
        for number, groups in enumerate(found.groups.values())
    ]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])


def _structure(one: PlaceLoads) -> tuple[Any, ...]:
    """Equal for places of which the same groups load the same links in the same way, whatever the amounts."""
    rows = tuple((pattern.groups.tobytes(), tuple(map(_way, phases))) for pattern, phases in zip(one.patterns, one.phases, strict=False))
    return one.place.dimension, one.place.ends, rows


def _way(phase: PhaseLoads) -> tuple[Any, ...]:
    return tuple(
        column.tobytes()
        for spots in (phase.total, phase.own)
        for column in (spots.block, spots.member, spots.offset, spots.sender, numbered(spots.amount))
    )


def _bounds(sorted_by: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(sorted_by, minlength=size))])


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Of the rows between two bounds, modulo 2^64."""
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)])
    return running[bounds[1:]] - running[bounds[:-1]]


def _labels(*columns: np.ndarray) -> np.ndarray:
    """A number for each distinct row, from 0 in the order of first appearance.

    >>> _labels(np.array([5, 3, 5, 3]), np.array([1, 1, 1, 2]))
    array([0, 1, 0, 2])
    """
    order = np.lexsort(columns)
    new = np.zeros(len(order), dtype=bool)
    for column in columns:
        in_order = column[order]
        new[1:] |= in_order[1:] != in_order[:-1]
    label = np.empty(len(order), dtype=np.int64)
    label[order] = np.cumsum(new)
    return numbered(label)


def _tag(structure: int, phase: int, amount: np.ndarray) -> np.ndarray:
    return hashed(hashed(_u64(amount)) + _u64(np.array(structure * 64 + phase)))


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([column.astype(np.uint64) for column in columns])


def _u64(values: np.ndarray) -> np.ndarray:
    return values.astype(np.uint64)
