"""Folding: copies of the template that are alike by symmetry are simulated once.

A *copy* is one (data, tensor) coordinate: the ranks of all pipeline stages there. Copies, groups and links are coloured, and the
colours refined until they are an equitable partition (:mod:`clustersim.program.refine`). The simulation of one copy per colour then takes
the same course as that of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from clustersim.collectives.loads import Pace
from clustersim.program.places import PhaseLoads, Place, PlaceLoads, Site
from clustersim.program.refine import Colours, Incidence, incidence, refine

NO_LINKS: Mapping[int, float] = MappingProxyType({})


class Use(NamedTuple):
    """A group's use of one class of links in one phase: a share of its payload, beside how many such groups (itself counted).

    ``part``: what of a connection crosses each.
    """

    link: int
    share: Fraction
    groups: int
    part: Fraction


class PhaseUse(NamedTuple):
    """One phase of a group: its pace, the links it loads, and how much longer than their bytes it holds them."""

    pace: Pace
    uses: tuple[Use, ...]
    occupancy: Fraction


@dataclass(frozen=True)
class Fold:
    """``copies`` to simulate, each standing for ``multiplicity`` copies of the job; ``stands_for`` has, by copy of the job, which.

    ``group[place, copy]`` numbers the groups that are simulated; ``members`` lists their ranks in the job, ``phases`` what they do.
    ``links`` has an id of the cluster for each class of links, ``link_multiplicity`` the size of the class. ``apart``: why copies that do
    the same are not alike.
    """

    copies: tuple[int, ...]
    multiplicity: tuple[int, ...]
    stands_for: np.ndarray
    group: dict[tuple[Place, int], int]
    members: tuple[tuple[int, ...], ...]
    phases: tuple[tuple[PhaseUse, ...], ...]
    links: tuple[int, ...]
    link_multiplicity: tuple[int, ...]
    apart: tuple[str, ...] = ()


def fold(
    site: Site, places: Sequence[Place], enabled: bool = True, unlike: np.ndarray | None = None, slow_links: Mapping[int, float] = NO_LINKS
) -> Fold:
    """The coarsest equitable partition of the copies; every copy and link by itself when not ``enabled``.

    ``unlike`` numbers copies that are not alike on their own account; ``slow_links`` has the capacity that a link has left.
    """
    loads = [site.loads(place) for place in places]
    found = incidence(site, loads)
    copies = np.arange(len(found.own_bounds) - 1)
    links = np.arange(len(found.links))
    if not enabled:
        groups = sum(len(groups.members) for groups in found.groups.values())
        colours = Colours(copies, np.arange(groups), links)
        return _Quotient(site, loads, found, colours).fold()
    start = np.zeros_like(copies) if unlike is None else unlike
    alike = _figures(site, found.links, slow_links)
    uneven = 0
    while True:
        quotient = _Quotient(site, loads, found, refine(found, start, alike))
        result = quotient.fold()
        if not quotient.uneven:
            apart = _reasons(site, loads, uneven, bool(slow_links)) if len(result.copies) > len(np.unique(start)) else ()
            return replace(result, apart=apart)
        # Links of one class that one group loads differently have no single load: each for itself.
        uneven += len(quotient.uneven)
        split = np.isin(quotient.colours.link, list(quotient.uneven))
        alike = np.where(split, links + alike.max() + 1, alike)


def _reasons(site: Site, loads: Sequence[PlaceLoads], uneven: int, disturbed: bool) -> tuple[str, ...]:
    """Why copies are not alike, as far as the way their groups lie tells; ``disturbed``: there is another reason already."""
    reasons = [f"the link {site.cluster.link(link).name} failed, and traffic goes around it" for link in sorted(site.cluster.failed)]
    if site.blocks is None and not reasons:
        reasons.append("routes depend on the numbers of the GPUs")
    for dimension, place in {one.place.dimension: one.place for one in loads if one.place.dimension not in ("pipeline", "host")}.items():
        shapes = list(site.shapes(place))
        if len(shapes) > 1:
            shown = " or ".join(" + ".join(map(str, shape[:4])) + (" ..." if len(shape) > 4 else "") for shape in shapes[:2])
            reasons.append(f"{dimension} groups lie on their nodes in {len(shapes)} ways: {shown}")
        elif 1 < len(shapes[0]) < sum(shapes[0]):
            reasons.append(f"{dimension} groups have {max(shapes[0])} members on a node, and those at its edge send to another")
    if uneven:
        reasons.append(f"{uneven} classes of links that one group loads unevenly")
    trees = {one.place.dimension for one in loads if "tree" in (one.place.algorithm, *dict(one.place.chosen).values())}
    reasons += [f"members of {dimension} groups have unlike places in a tree" for dimension in sorted(trees)]
    generic = () if disturbed else ("members of a group send over links that others share in other ways",)
    return tuple(reasons) or generic


def _figures(site: Site, links: np.ndarray, slow_links: Mapping[int, float]) -> np.ndarray:
    """A number for the kind, capacity and latency of each link; within a block those of one place are the same for all owners."""
    numbers: dict[tuple[Any, ...], int] = {}
    found = np.full(len(links), -1, dtype=np.int64)

    def number(link: int) -> int:
        return numbers.setdefault(site.cluster.link_figures(link), len(numbers))

    for block in site.blocks or ():
        after = block.first + block.size * site.cluster.gpus  # at most one owner a GPU
        here = np.flatnonzero((links >= block.first) & (links < after))
        if block.size:
            found[here] = np.array([number(block.first + place) for place in range(block.size)])[(links[here] - block.first) % block.size]
    rest = np.flatnonzero(found < 0)
    found[rest] = [number(link) for link in links[rest].tolist()]
    for link, left in slow_links.items():
        found[links == link] = numbers.setdefault((site.cluster.link_figures(link), left), len(numbers))
    return found


class _Quotient:
    """One copy of each colour, with its groups and the classes of links that they load."""

    def __init__(self, site: Site, loads: Sequence[PlaceLoads], found: Incidence, colours: Colours) -> None:
        self.site, self.loads, self.found, self.colours = site, loads, found, colours
        self.uneven: set[int] = set()  # colours of links that a group loads differently
        self.folded = len(np.unique(colours.copy)) < len(colours.copy)
        _, self.first_link, self.link_sizes = np.unique(colours.link, return_index=True, return_counts=True)

    def fold(self) -> Fold:
        _, chosen, stands_for, sizes = np.unique(self.colours.copy, return_index=True, return_inverse=True, return_counts=True)
        numbers: dict[tuple[int, int], int] = {}
        group: dict[tuple[Place, int], int] = {}
        members, phases = [], []
        for number, one in enumerate(self.loads):
            pattern_of, row_of = _places_of(one)
            first = self.found.first_group[one.place.dimension]
            for position, instance in enumerate(one.groups.of_copy[chosen].tolist()):
                key = number, int(self.colours.group[first + instance])
                if key not in numbers:
                    numbers[key] = len(numbers)
                    pattern, row = pattern_of[instance], row_of[instance]
                    ranks = one.patterns[pattern].ranks[row]
                    members.append(tuple(ranks.tolist()))
                    which = first + instance
                    phases.append(
                        tuple(self._phase(number, at, phase, pattern, ranks, which) for at, phase in enumerate(one.phases[pattern]))
                    )
                group[one.place, position] = numbers[key]
        return Fold(
            copies=tuple(chosen.tolist()),
            multiplicity=tuple(sizes.tolist()),
            stands_for=stands_for.reshape(-1),
            group=group,
            members=tuple(members),
            phases=tuple(phases),
            links=tuple(self.found.links[self.first_link].tolist()),
            link_multiplicity=tuple(self.link_sizes.tolist()),
        )

    def _phase(self, place: int, at: int, phase: PhaseLoads, pattern: int, ranks: np.ndarray, group: int) -> PhaseUse:
        links = np.searchsorted(self.found.links, self.site.links(phase.total, ranks[None])[0])
        counted = self.found.counted[self.found.structure[place]].phases[pattern][at].total.amount.tolist()
        uses: dict[int, tuple[int, Use]] = {}
        classes = self.colours.link[links].tolist()
        for link, colour, amount, of, part in zip(links.tolist(), classes, phase.total.amount.tolist(), counted, phase.total.parts,
                                                  strict=True):
            if colour not in uses:
                groups = self.found.carried(link, place, at, of, self.colours.group, group) if self.folded else 1
                uses[colour] = amount, Use(colour, self.site.shares[amount], groups, part)
            elif uses[colour][0] != amount or uses[colour][1].part != part:
                self.uneven.add(colour)
        return PhaseUse(phase.pace, tuple(use for _, use in uses.values()), phase.occupancy)


def _places_of(one: PlaceLoads) -> tuple[list[int], list[int]]:
    """By group, its pattern and its row there."""
    pattern_of, row_of = (np.empty(len(one.groups.members), dtype=np.int64) for _ in range(2))
    for number, pattern in enumerate(one.patterns):
        pattern_of[pattern.groups] = number
        row_of[pattern.groups] = np.arange(len(pattern.groups))
    return pattern_of.tolist(), row_of.tolist()
