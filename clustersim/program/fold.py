"""Folding: copies of the template that are alike by symmetry are simulated once.

A *copy* is one (data, tensor) coordinate: the ranks of all pipeline stages there. Copies, groups and links are coloured, and the
colours refined until they are an equitable partition: copies of one colour see, on each hop, links of the same colours, and links of
one colour carry groups of the same colours. The simulation of one copy per colour then takes the same course as that of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.cluster.spec import Cluster
from clustersim.program.grid import Grid


class Place(NamedTuple):
    """Where an exchange happens: along which dimension, from which pipeline rank, to which (sends only)."""

    dimension: str
    pipeline: int
    to: int


class Use(NamedTuple):
    """A group's use of one link of a class: over how many of its hops, beside how many such groups in all (itself counted)."""

    link: int
    hops: int
    groups: int


@dataclass(frozen=True)
class Fold:
    """``copies`` to simulate, each standing for ``multiplicity`` copies of the job.

    ``group[place, copy]`` numbers the groups that are simulated, ``members`` lists their ranks in the job, ``uses`` the link classes
    they load and ``hop_latency_ps`` their slowest hop. ``links`` has an id of the cluster for each class, ``link_multiplicity`` its size.
    """

    copies: tuple[tuple[int, int], ...]
    multiplicity: tuple[int, ...]
    group: dict[tuple[Place, int], int]
    members: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[Use, ...], ...]
    hop_latency_ps: tuple[int, ...]
    links: tuple[int, ...]
    link_multiplicity: tuple[int, ...]


def fold(cluster: Cluster, grid: Grid, places: list[Place], enabled: bool = True) -> Fold:
    """The coarsest equitable partition of the copies; every copy and link by itself when not ``enabled``."""
    copies = [(d, t) for d in range(grid.data) for t in range(grid.tensor)]
    layout = [_Layout(cluster, grid, place, copies) for place in places]
    colour = [0] * len(copies) if enabled else list(range(len(copies)))
    kind = [(link.kind, link.capacity_bytes_s, link.latency_ps) for link in cluster.node_links]
    base = {
        link: (kind[link % len(kind)], None if enabled else link)
        for link in dict.fromkeys(link for place in layout for hop in place.hops for link in hop)
    }
    while True:
        group_colour = [[tuple(sorted(Counter(colour[c] for c in members).items())) for members in place.groups] for place in layout]
        loads = _loads(layout, group_colour)
        link_colour = _numbered({link: (base[link], tuple(sorted(loads[link].items()))) for link in base})
        signature = {
            copy: (
                colour[copy],
                tuple(
                    (group_colour[number][place.group_of[copy]], tuple(link_colour[link] for link in place.hops[copy]))
                    for number, place in enumerate(layout)
                ),
            )
            for copy in range(len(copies))
        }
        refined = list(_numbered(signature).values())
        if len(set(refined)) == len(set(colour)):
            break
        colour = refined
    found = _quotient(cluster, kind, copies, colour, layout, group_colour, loads, link_colour)
    # Two links of one class, loaded once and twice by one group, have no single load.
    return found if found is not None else fold(cluster, grid, places, enabled=False)


class _Layout:
    """One place: its groups (of copy numbers, and of ranks), the group of each copy, each copy's own hop as link ids."""

    def __init__(self, cluster: Cluster, grid: Grid, place: Place, copies: list[tuple[int, int]]) -> None:
        self.place = place
        key = {"tensor": lambda d, t: d, "data": lambda d, t: t, "pipeline": lambda d, t: d * grid.tensor + t}[place.dimension]
        self.group_of = [key(d, t) for d, t in copies]
        self.groups: list[list[int]] = [[] for _ in range(max(self.group_of) + 1)]
        for copy, group in enumerate(self.group_of):
            self.groups[group].append(copy)
        ranks = [grid.rank(place.pipeline, d, t) for d, t in copies]
        if place.dimension == "pipeline":
            self.ranks = [(ranks[c], grid.rank(place.to, *copies[c])) for c in range(len(copies))]
            self.hops = [cluster.route(a, b) for a, b in self.ranks]
            return
        self.ranks = [tuple(ranks[copy] for copy in members) for members in self.groups]
        self.hops = [()] * len(copies)
        for members in self.groups:
            for copy, following in zip(members, members[1:] + members[:1], strict=True):
                self.hops[copy] = cluster.route(ranks[copy], ranks[following])


Loads = dict[int, Counter]


def _loads(layout: list[_Layout], group_colour: list[list[Hashable]]) -> Loads:
    """For each link: how many groups of each (place, colour) cross it, by the number of their hops that do."""
    loads: Loads = defaultdict(Counter)
    for number, place in enumerate(layout):
        for group, members in enumerate(place.groups):
            key = number, group_colour[number][group]
            if len(members) == 1:
                for link in place.hops[members[0]]:
                    loads[link][*key, 1] += 1
            else:
                for link, hops in Counter(link for copy in members for link in place.hops[copy]).items():
                    loads[link][*key, hops] += 1
    return loads


def _numbered(keys: dict[int, Hashable]) -> dict[int, int]:
    numbers: dict[Hashable, int] = {}
    return {item: numbers.setdefault(key, len(numbers)) for item, key in keys.items()}


def _quotient(
    cluster: Cluster, kind: list, copies: list, colour: list[int], layout: list[_Layout], group_colour: list, loads: Loads, link_colour: dict[int, int]
) -> Fold | None:
    chosen = [colour.index(number) for number in sorted(set(colour))]
    first_link: dict[int, int] = {}
    for link, number in link_colour.items():
        first_link.setdefault(number, link)
    sizes = Counter(link_colour.values())
    numbers: dict[Hashable, int] = {}
    group, members, uses, latencies = {}, [], [], []
    for number, place in enumerate(layout):
        for position, copy in enumerate(chosen):
            instance = place.group_of[copy]
            key = number, group_colour[number][instance]
            if key not in numbers:
                numbers[key] = len(numbers)
                hops = [place.hops[member] for member in place.groups[instance]]
                by_class: dict[int, set[int]] = defaultdict(set)
                for link, times in Counter(link for hop in hops for link in hop).items():
                    by_class[link_colour[link]].add(times)
                if any(len(times) > 1 for times in by_class.values()):
                    return None
                members.append(place.ranks[instance])
                uses.append(
                    tuple(Use(link, times, loads[first_link[link]][(*key, times)]) for link, (times,) in by_class.items())
                )
                latencies.append(max(sum(kind[link % len(kind)][2] for link in hop) for hop in hops))
            group[place.place, position] = numbers[key]
    return Fold(
        copies=tuple(copies[copy] for copy in chosen),
        multiplicity=tuple(colour.count(colour[copy]) for copy in chosen),
        group=group,
        members=tuple(members),
        uses=tuple(uses),
        hop_latency_ps=tuple(max(latency, cluster.link_delay_ps) for latency in latencies),
        links=tuple(first_link[number] for number in sorted(first_link)),
        link_multiplicity=tuple(sizes[number] for number in sorted(first_link)),
    )
