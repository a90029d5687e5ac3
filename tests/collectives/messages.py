"""Collectives written out as single messages of named chunks, from the papers and not from the plans, and who holds what after them.

A round is a list of messages that leave at once. A member's share of a chunk is the set of members whose data it holds of it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from clustersim.collectives.algorithms import two_trees


class Message(NamedTuple):
    source: object
    to: object
    chunks: tuple
    add: bool = False  # add to what the receiver holds, or replace it


class Expansion(NamedTuple):
    """Rounds by phase, the weight of each chunk as a share of the payload, and for a gather whose chunk each is."""

    phases: list[list[list[Message]]]
    weights: dict
    owner: dict

    @property
    def rounds(self):
        return [messages for phase in self.phases for messages in phase]


def expand(op, algorithm, layout) -> Expansion:
    n = len(layout.ring)
    if op == "send":
        return Expansion([[[Message(0, 1, ("all",))]]], {"all": Fraction(1)}, {})
    if op == "all_to_all":
        chunks = {(a, b): Fraction(1, n) for a in range(n) for b in range(n) if a != b}
        rounds = [[Message(a, (a + k) % n, ((a, (a + k) % n),)) for a in range(n)] for k in range(1, n)]
        return Expansion([rounds], chunks, {chunk: chunk[0] for chunk in chunks})
    make = {"ring": rings, "multi-ring": rings, "tree": trees, "halving-doubling": halving, "hierarchical": levels, "direct": direct}
    return make.get(algorithm, in_switch)(op, layout if algorithm != "ring" else layout._replace(rings=((layout.ring, Fraction(1)),)))


def scatter(ring, blocks):
    """Rounds of a reduce-scatter: the block of each member ends, complete, at it."""
    n = len(ring)
    return [[Message(ring[p], ring[(p + 1) % n], blocks[ring[(p - 1 - s) % n]], True) for p in range(n)] for s in range(n - 1)]


def gather(ring, blocks):
    n = len(ring)
    return [[Message(ring[p], ring[(p + 1) % n], blocks[ring[(p - s) % n]]) for p in range(n)] for s in range(n - 1)]


def together(several):
    return [[message for rounds in several for message in rounds[turn]] for turn in range(len(several[0]))]


def both_ways(op, scattering, gathering):
    return {"reduce_scatter": scattering, "all_gather": gathering}.get(op, scattering + gathering)


def rings(op, layout):
    n = len(layout.ring)
    if op == "broadcast":
        return broadcast_rings(layout)
    weights, owner, several = {}, {}, []
    for number, (ring, part) in enumerate(layout.rings):
        blocks = {member: ((number, member),) for member in ring}
        weights |= {(number, member): part / n for member in ring}
        owner |= {(number, member): member for member in ring}
        several.append(both_ways(op, scatter(ring, blocks), gather(ring, blocks)))
    return Expansion([together(several)], weights, owner)


def broadcast_rings(layout, pieces=3):
    root = min(range(len(layout.ring)), key=layout.order.index)
    weights, several = {}, []
    for number, (ring, part) in enumerate(layout.rings):
        start = ring.index(root)
        path = ring[start:] + ring[:start]
        weights |= {(number, piece): part / pieces for piece in range(pieces)}
        several.append(
            [
                [Message(path[hop], path[hop + 1], ((number, turn - hop),)) for hop in range(len(path) - 1) if 0 <= turn - hop < pieces]
                for turn in range(pieces + len(path) - 2)
            ]
        )
    return Expansion([together(several)], weights, dict.fromkeys(weights, root))


def trees(op, layout):
    order, weights, several = layout.order, {0: Fraction(1, 2), 1: Fraction(1, 2)}, []
    for number, parents in enumerate(two_trees(len(order))[0]):
        by_depth = defaultdict(list)
        for member, parent in enumerate(parents):
            depth, at = 0, parent
            while at >= 0:
                depth, at = depth + 1, parents[at]
            if parent >= 0:
                by_depth[depth].append((order[member], order[parent]))
        levels = [by_depth[depth] for depth in sorted(by_depth)]
        up = [[Message(child, above, (number,), True) for child, above in level] for level in reversed(levels)]
        several.append(up + [[Message(above, child, (number,)) for child, above in level] for level in levels])
    return Expansion([together(several)], weights, {})


def halving(op, layout):
    """A member's block carries the place of that member in the order."""
    order, n = layout.order, len(layout.order)
    held = [set(range(n)) for _ in range(n)]
    scattering = []
    distance = 1
    while distance < n:
        messages = []
        for place in range(n):
            gone = {block for block in held[place] if (block ^ place) & distance}
            held[place] -= gone
            messages.append(Message(order[place], order[place ^ distance], tuple(sorted(gone)), True))
        scattering.append(messages)
        distance *= 2
    gathering = []
    for messages in reversed(scattering):  # what a member gave away comes back, complete
        gathering.append([Message(message.to, message.source, message.chunks) for message in messages])
    weights = {block: Fraction(1, n) for block in range(n)}
    phases = both_ways(op, [[messages] for messages in scattering], [[messages] for messages in gathering])
    return Expansion(phases, weights, dict(enumerate(order)))


def columns(layout):
    """Members of the same place in each node; nodes as the ring visits them."""
    return list(zip(*sorted(layout.nodes, key=lambda node: min(map(layout.ring.index, node))), strict=True))


def levels(op, layout):
    """Inside the nodes, between them: a block of a column is that of all its members."""
    across = columns(layout)
    weights = {member: Fraction(1, len(layout.ring)) for member in layout.ring}
    inner = [tuple(sorted(node, key=layout.ring.index)) for node in layout.nodes]
    column_of = {member: column for column in across for member in column}
    whole = {member: tuple(sorted(column_of[member])) for member in layout.ring}
    single = {member: (member,) for member in layout.ring}
    scattering = [together([scatter(ring, whole) for ring in inner]), together([scatter(ring, single) for ring in across])]
    gathering = [together([gather(ring, single) for ring in across]), together([gather(ring, whole) for ring in inner])]
    if op == "all_reduce":
        return Expansion([scattering[0], scattering[1] + gathering[0], gathering[1]], weights, {})
    return Expansion(both_ways(op, scattering, gathering), weights, {member: member for member in layout.ring})


def direct(op, layout):
    members = layout.order
    if op == "broadcast":
        return Expansion([[[Message(members[0], to, ("all",)) for to in members[1:]]]], {"all": Fraction(1)}, {"all": members[0]})
    weights = {member: Fraction(1, len(members)) for member in members}
    pairs = [(a, b) for a in members for b in members if a != b]
    scattering, gathering = [[Message(a, b, (b,), True) for a, b in pairs]], [[Message(a, b, (a,)) for a, b in pairs]]
    return Expansion(both_ways(op, [scattering], [gathering]), weights, {member: member for member in members})


def in_switch(op, layout):
    """Up to the switch of each node, which adds, and down from it; between nodes rings of the members of one place."""
    across, root = columns(layout), layout.order[0]
    several = len(layout.nodes) > 1
    members = {member: node for node in layout.nodes for member in node}
    weights = {member: Fraction(1, len(layout.ring)) for member in layout.ring}
    everything = tuple(weights)
    column_of = {member: tuple(sorted(column)) for column in across for member in column}
    part = column_of if several else {member: (member,) for member in layout.ring}
    single = {member: (member,) for member in layout.ring}
    up = [Message(member, node, everything, True) for member, node in members.items()]
    all_down = [Message(node, member, everything) for member, node in members.items()]
    part_down = [Message(node, member, part[member]) for member, node in members.items()]
    part_up = [Message(member, node, part[member]) for member, node in members.items()]
    if op == "broadcast":
        ring = next(column for column in across if root in column)
        first = [[Message(a, b, everything)] for a, b in itertools.pairwise(ring)]
        holders = ring if several else (root,)
        once = [[Message(member, members[member], everything) for member in holders], all_down]
        return Expansion([first, once] if several else [once], weights, dict.fromkeys(weights, root))
    between = [together([scatter(ring, single) for ring in across]), together([gather(ring, single) for ring in across])] if several else []
    if op == "all_reduce":
        phases = [[up, part_down], between[0] + between[1], [part_up, all_down]] if several else [[up, all_down]]
        return Expansion(phases, weights, {})
    phases = both_ways(op, [[up, part_down], *between[:1]], [*between[1:], [part_up, all_down]])
    return Expansion(phases, weights, {member: member for member in layout.ring})


def held_after(op, expansion, n):
    """By member and chunk, whose data it holds in the end; what is added must be new, what replaces must hold no less."""
    holds = defaultdict(frozenset)
    for chunk in expansion.weights:
        for member in range(n):
            starts = op in ("all_reduce", "reduce_scatter") or member == expansion.owner.get(chunk, 0)
            if starts:
                holds[member, chunk] = frozenset((member,))
    for messages in expansion.rounds:
        before = dict(holds)
        for message in messages:
            for chunk in message.chunks:
                sent, had = before.get((message.source, chunk), frozenset()), holds[message.to, chunk]
                assert sent, f"{message.source} sends {chunk}, of which it has nothing"
                assert not (sent & had) if message.add else sent >= had
                holds[message.to, chunk] = sent | had if message.add else sent
    return holds
