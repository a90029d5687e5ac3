"""Folding: copies of the template that are alike by symmetry are simulated once.

A *copy* is one (data, tensor) coordinate: the ranks of all pipeline stages there. Copies, groups and links are coloured, and the
colours refined until they are an equitable partition: copies of one colour load, in each phase, links of the same colours, and links
of one colour carry groups of the same colours. The simulation of one copy per colour then takes the same course as that of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from clustersim.cluster.routes import ONE
from clustersim.cluster.spec import Cluster
from clustersim.collectives.loads import Pace
from clustersim.program.grid import Grid
from clustersim.program.places import Amounts, GroupLoads, Place, place_loads


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
    """``copies`` to simulate, each standing for ``multiplicity`` copies of the job.

    ``group[place, copy]`` numbers the groups that are simulated; ``members`` lists their ranks in the job, ``phases`` what they do.
    ``links`` has an id of the cluster for each class of links, ``link_multiplicity`` the size of the class.
    """

    copies: tuple[tuple[int, int], ...]
    multiplicity: tuple[int, ...]
    group: dict[tuple[Place, int], int]
    members: tuple[tuple[int, ...], ...]
    phases: tuple[tuple[PhaseUse, ...], ...]
    links: tuple[int, ...]
    link_multiplicity: tuple[int, ...]


def fold(cluster: Cluster, grid: Grid, places: list[Place], enabled: bool = True) -> Fold:
    """The coarsest equitable partition of the copies; every copy and link by itself when not ``enabled``."""
    copies = [(d, t) for d in range(grid.copies) for t in range(grid.tensor)]
    amounts = Amounts()
    loads = [place_loads(cluster, grid, place, copies, amounts) for place in places]
    used = dict.fromkeys(link for place in loads for phase in place.by_group for group in phase for link, _ in group)
    base = {link: (cluster.link_figures(link), None if enabled else link) for link in used}
    colour = [0] * len(copies) if enabled else list(range(len(copies)))
    while True:
        colours = _Colours(loads, colour, base)
        if len(set(colours.refined)) == len(set(colour)):
            break
        colour = colours.refined
    found = _quotient(copies, colour, loads, colours, amounts)
    # Links of one class that one group loads differently have no single load.
    return found if found is not None else fold(cluster, grid, places, enabled=False)


class _Colours:
    """Colours of groups and links that follow from those of copies, and the finer colours of copies that follow from both."""

    def __init__(self, loads: list[GroupLoads], colour: list[int], base: dict[int, Hashable]) -> None:
        numbers: dict[Hashable, int] = {}
        self.group = [
            [numbers.setdefault(tuple(sorted(Counter(colour[c] for c in members).items())), len(numbers)) for members in place.groups]
            for place in loads
        ]
        self.crossing: dict[int, Counter] = defaultdict(Counter)  # link -> (place, phase, colour of the group, amount) -> groups
        for number, place in enumerate(loads):
            for phase, by_group in enumerate(place.by_group):
                for group, carried in enumerate(by_group):
                    kind = self.group[number][group]
                    for link, amount in carried:
                        self.crossing[link][number, phase, kind, amount] += 1
        self.link = _numbered({link: (base[link], tuple(sorted(self.crossing[link].items()))) for link in base})
        of = self.link
        signature = {
            copy: (
                own,
                tuple(
                    (
                        self.group[number][place.group_of[copy]],
                        tuple(tuple([(of[link], amount) for link, amount in phase[copy]]) for phase in place.by_copy),
                    )
                    for number, place in enumerate(loads)
                ),
            )
            for copy, own in enumerate(colour)
        }
        self.refined = list(_numbered(signature).values())


def _numbered(keys: dict[int, Hashable]) -> dict[int, int]:
    numbers: dict[Hashable, int] = {}
    return {item: numbers.setdefault(key, len(numbers)) for item, key in keys.items()}


def _quotient(
    copies: list[tuple[int, int]], colour: list[int], loads: list[GroupLoads], colours: _Colours, amounts: Amounts
) -> Fold | None:
    chosen = [colour.index(number) for number in sorted(set(colour))]
    first_link: dict[int, int] = {}
    for link, number in colours.link.items():
        first_link.setdefault(number, link)
    sizes = Counter(colours.link.values())
    numbers: dict[tuple[int, int], int] = {}
    group, members, phases = {}, [], []
    for number, place in enumerate(loads):
        for position, copy in enumerate(chosen):
            instance = place.group_of[copy]
            key = number, colours.group[number][instance]
            if key not in numbers:
                numbers[key] = len(numbers)
                members.append(place.ranks[instance])
                found = []
                for phase, by_group in enumerate(place.by_group):
                    if place.pace[phase][instance] is None:
                        continue
                    by_class: dict[int, set[tuple[int, Fraction]]] = defaultdict(set)
                    for link, amount in by_group[instance]:
                        by_class[colours.link[link]].add((amount, place.part[phase][instance].get(link, ONE)))
                    if any(len(different) > 1 for different in by_class.values()):
                        return None
                    uses = [
                        Use(link, amounts.shares[amount], colours.crossing[first_link[link]][number, phase, key[1], amount], part)
                        for link, ((amount, part),) in by_class.items()
                    ]
                    found.append(PhaseUse(place.pace[phase][instance], tuple(uses), place.occupancy[phase][instance]))
                phases.append(tuple(found))
            group[place.place, position] = numbers[key]
    return Fold(
        copies=tuple(copies[copy] for copy in chosen),
        multiplicity=tuple(colour.count(colour[copy]) for copy in chosen),
        group=group,
        members=tuple(members),
        phases=tuple(phases),
        links=tuple(first_link[number] for number in sorted(first_link)),
        link_multiplicity=tuple(sizes[number] for number in sorted(first_link)),
    )
