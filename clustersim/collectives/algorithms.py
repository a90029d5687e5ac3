"""Collective algorithms as plans: who sends what share of the payload to whom, in phases that follow one another.

Members are positions 0..n-1 in a group; S is the payload (of a reduce-scatter or all-gather the large side), a the latency of one
message, b the bytes/s of each member's link per direction. A phase lasts steps x a plus its bytes on the slowest link: inside a phase
messages are pipelined, so that bandwidth and latency add up. Times on links of one kind:

    ring                all-reduce 2(n-1)(a + S/(n b)); reduce-scatter, all-gather (n-1)(a + S/(n b)); broadcast (n-1) a + S/b
    multi-ring          the same over several rings, one per adapter of a node or per disjoint way through its NVLinks
    tree                two binary trees with half the payload each, no member inner in both (Sanders, Speck, Träff 2009):
                        all-reduce 2 d a + 2 S/b, d = floor(log2 n); S/b instead of 2 S/b for n = 2 and 3/2 S/b for n = 3 and 4,
                        where no member has both a parent and two children
    halving-doubling    all-reduce 2 a log2 n + 2 (n-1)/n S/b; reduce-scatter, all-gather half of it (Thakur, Rabenseifner, Gropp 2005)
    hierarchical        inside the nodes, between nodes, inside the nodes; each phase a ring (reduce-scatter and all-gather two of them)
    in-switch           the node's switch adds and copies (NVLS): a + S/b for all but all-to-all; between nodes rings, a phase of their own
    direct              to all others at once: reduce-scatter, all-gather a + (n-1)/n S/b, all-reduce twice that; broadcast a + (n-1) S/b;
                        all-to-all one after another, (n-1)(a + S/(n b))
    send                a + S/b

A broadcast starts at the group's lowest rank. Nothing depends on the order in which a group names its ranks, but the direction of a send.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

OPS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "send")
ALGORITHMS = ("multi-ring", "ring", "tree", "halving-doubling", "hierarchical", "direct", "in-switch")

Ring = tuple[int, ...]


class Send(NamedTuple):
    """A message to another member, as a share of the payload."""

    to: int
    share: Fraction


class Phase(NamedTuple):
    """What each member sends (by position), in ``steps`` messages that follow one another; ``turns``: round a ring, over every hop;
    ``in_switch``: messages inside a node go to its switch and back, and hold the links ``occupancy`` times as long as their bytes.
    """

    steps: int
    sends: tuple[tuple[Send, ...], ...]
    turns: bool = False
    in_switch: bool = False
    occupancy: Fraction = Fraction(1)


class Layout(NamedTuple):
    """How a group lies on its cluster: single ring, rings with the share of each, members by node.

    Nodes and the members of each stand in order of their numbers. Rings visit node after node. ``in_switch`` is the share of its
    links that the switch on which all members of a node hang reaches when it reduces itself, None when there is no such switch.
    """

    ring: Ring
    rings: tuple[tuple[Ring, Fraction], ...]
    nodes: tuple[tuple[int, ...], ...]
    in_switch: Fraction | None = None

    @property
    def order(self) -> Ring:
        """The members node by node."""
        return tuple(member for node in self.nodes for member in node)


def flat(n: int) -> Layout:
    """The layout of a group of which all members are alike."""
    ring = tuple(range(n))
    return Layout(ring, ((ring, Fraction(1)),), (ring,))


@lru_cache(maxsize=256)  # the groups of a job mostly have one layout
def plan(op: str, algorithm: str, layout: Layout) -> tuple[Phase, ...]:
    """The phases of a collective; none for a group of one.

    ValueError, with what is allowed, when the algorithm does not do the operation for such a group.

    >>> (phase,) = plan("all_reduce", "ring", flat(4))
    >>> phase.steps, phase.sends[3]
    (6, (Send(to=0, share=Fraction(3, 2)),))
    """
    n = len(layout.ring)
    if n == 1:
        return ()
    if op == "send":
        return (Phase(1, ((Send(1, Fraction(1)),), ())),)
    if algorithm not in algorithms_for(op, layout):
        allowed = ", ".join(algorithms_for(op, layout))
        raise ValueError(f"{algorithm} has no {op.replace('_', '-')} for {_shape(layout)}; allowed: {allowed}")
    if algorithm in ("ring", "multi-ring"):
        rings = ((layout.ring, Fraction(1)),) if algorithm == "ring" else layout.rings
        return (_rings(op, layout.order[0], rings),)
    if algorithm == "tree":
        return (_trees(layout.order),)
    if algorithm == "in-switch":
        return _in_switch(op, layout)
    if algorithm == "halving-doubling":
        return _halving_doubling(op, layout.order)
    if algorithm == "direct":
        return _direct(op, layout.order)
    return _hierarchical(op, layout)


def algorithms_for(op: str, layout: Layout) -> tuple[str, ...]:
    """The algorithms that do an operation for a group laid out like this."""
    n, sizes = len(layout.ring), {len(node) for node in layout.nodes}
    found = [] if op == "all_to_all" else ["ring", "multi-ring"]
    if op == "all_reduce":
        found.append("tree")
    scatters = op in ("all_reduce", "reduce_scatter", "all_gather")
    if scatters and n & (n - 1) == 0:
        found.append("halving-doubling")
    if scatters and len(layout.nodes) > 1 and len(sizes) == 1 and sizes != {1}:
        found.append("hierarchical")
    if layout.in_switch is not None and op != "all_to_all" and len(sizes) == 1 and sizes != {1}:
        found.append("in-switch")
    return (*found, "direct")


def able(op: str, algorithm: str, layout: Layout) -> str:
    """The algorithm, or ``multi-ring`` where it does not do the operation for such a group; an all-to-all is always direct.

    >>> able("all_gather", "tree", flat(4)), able("all_reduce", "tree", flat(4)), able("all_to_all", "tree", flat(4))
    ('multi-ring', 'tree', 'direct')
    """
    if op == "send":
        return algorithm
    known = algorithms_for(op, layout)
    return next(name for name in (algorithm, "multi-ring", "direct") if name in known)


def _shape(layout: Layout) -> str:
    sizes = sorted({len(node) for node in layout.nodes})
    return f"{len(layout.ring)} members on {len(layout.nodes)} nodes ({', '.join(map(str, sizes))} a node)"


def ring_share(op: str, n: int) -> Fraction:
    """What each member of a ring sends, as a share of the payload.

    >>> ring_share("all_reduce", 8), ring_share("all_gather", 8)
    (Fraction(7, 4), Fraction(7, 8))
    """
    if op in ("broadcast", "send"):
        return Fraction(1)
    return Fraction((2 if op == "all_reduce" else 1) * (n - 1), n)


def _rings(op: str, root: int, rings: Sequence[tuple[Ring, Fraction]]) -> Phase:
    """Round each ring its part of the payload; a broadcast starts at its root and stops before it."""
    n = len(rings[0][0])
    sends: list[list[Send]] = [[] for _ in range(n)]
    for ring, part in rings:
        share = part * ring_share(op, n)
        for member, following in zip(ring, ring[1:] + ring[:1], strict=True):
            if op != "broadcast" or following != root:
                sends[member].append(Send(following, share))
    return Phase(2 * (n - 1) if op == "all_reduce" else n - 1, tuple(map(tuple, sends)), turns=True)


def binary_tree(n: int) -> tuple[list[int], int]:
    """Parents (-1 for the root) of a balanced binary tree in order over n members, and its depth, floor(log2 n).

    Every other member, from the first, is a leaf.

    >>> binary_tree(5), binary_tree(6)
    (([1, -1, 3, 1, 3], 2), ([1, 3, 1, -1, 5, 3], 2))
    """
    parents = [-1] * n
    depth = 0

    def grow(low: int, high: int, parent: int, level: int) -> None:
        nonlocal depth
        if low >= high:
            return
        depth = max(depth, level)
        inner = (high - low) // 2
        middle = low + 2 * ((inner - 1) // 2) + 1 if inner else low
        parents[middle] = parent
        grow(low, middle, middle, level + 1)
        grow(middle + 1, high, middle, level + 1)

    grow(0, n, -1, 0)
    return parents, depth


def two_trees(n: int) -> tuple[tuple[list[int], list[int]], int]:
    """Parents in two binary trees over n members of which none is inner in both, and their depth.

    The second is the first, mirrored when n is even, and shifted by one when it is odd (Sanders, Speck, Träff, "Two-tree algorithms
    for full bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009, section 3).

    >>> two_trees(4), two_trees(3)
    ((([1, -1, 3, 1], [2, 0, -1, 2]), 2), (([1, -1, 1], [2, 2, -1]), 1))
    """
    first, depth = binary_tree(n)
    moved = [(member + 1) % n if n % 2 else n - 1 - member for member in range(n)]
    second = [-1] * n
    for member, parent in enumerate(first):
        second[moved[member]] = moved[parent] if parent >= 0 else -1
    return (first, second), depth


def _trees(order: Ring) -> Phase:
    """Up and down two trees, half the payload in each."""
    trees, depth = two_trees(len(order))
    sends: list[list[Send]] = [[] for _ in order]
    half = Fraction(1, 2)
    for parents in trees:
        for member, parent in enumerate(parents):
            if parent >= 0:
                sends[order[parent]].append(Send(order[member], half))
                sends[order[member]].append(Send(order[parent], half))
    return Phase(2 * depth, tuple(map(tuple, sends)))


def _halving_doubling(op: str, order: Ring) -> tuple[Phase, ...]:
    """Half the payload with the nearest member, a quarter with the next but one, ...; and back."""
    halving = []
    distance = 1
    while distance < len(order):
        sends: list[tuple[Send, ...]] = [()] * len(order)
        for place, member in enumerate(order):
            sends[member] = (Send(order[place ^ distance], Fraction(1, 2 * distance)),)
        halving.append(Phase(1, tuple(sends)))
        distance *= 2
    doubling = halving[::-1]
    return {"reduce_scatter": tuple(halving), "all_gather": tuple(doubling)}.get(op, (*halving, *doubling))


def _in_switch(op: str, layout: Layout) -> tuple[Phase, ...]:
    """Up to the switch and down from it, each way the whole payload; between nodes a ring of each member's part, in between.

    Messages to the switch are written as those of a ring, whose hops also go up one member's link and down the next one's.
    """
    whole = Fraction(1)
    sends: list[tuple[Send, ...]] = [()] * len(layout.ring)
    for node in layout.nodes:
        for member, following in zip(node, node[1:] + node[:1], strict=True):
            sends[member] = (Send(following, whole),)
    assert layout.in_switch is not None  # else the algorithm is not able
    inside = Phase(1, tuple(sends), in_switch=True, occupancy=1 / layout.in_switch)
    if len(layout.nodes) == 1:
        return (inside,)
    _, across = _two_levels(layout)
    if op == "broadcast":
        root = layout.order[0]
        between = _group_rings(op, [ring for ring in across if root in ring], whole, len(layout.ring), root)
    else:
        between = _group_rings(op, across, Fraction(1, len(layout.nodes[0])), len(layout.ring))
    return {"reduce_scatter": (inside, between), "all_reduce": (inside, between, inside)}.get(op, (between, inside))


def _two_levels(layout: Layout) -> tuple[tuple[Ring, ...], tuple[Ring, ...]]:
    """Rings inside the nodes, and those between members of the same place in each: as the single ring goes."""
    turn = {member: place for place, member in enumerate(layout.ring)}
    inside = tuple(tuple(sorted(node, key=turn.__getitem__)) for node in layout.nodes)
    visited = sorted(layout.nodes, key=lambda node: turn[node[0]])
    return inside, tuple(zip(*visited, strict=True))


def _group_rings(op: str, groups: Sequence[Ring], part: Fraction, members: int, root: int = -1) -> Phase:
    """Several groups at once, each round a ring of its own with its part of the payload; none to the root of a broadcast."""
    size = len(groups[0])
    share = part * ring_share(op, size)
    sends: list[tuple[Send, ...]] = [()] * members
    for group in groups:
        for member, following in zip(group, group[1:] + group[:1], strict=True):
            if following != root:
                sends[member] = (Send(following, share),)
    return Phase((2 if op == "all_reduce" else 1) * (size - 1), tuple(sends), turns=True)


def sent_share(op: str, algorithm: str, layout: Layout) -> Fraction:
    """What a member sends, as a share of the payload, mean over the members that send.

    >>> sent_share("all_reduce", "tree", flat(8))
    Fraction(7, 4)
    """
    phases = plan(op, algorithm, layout)
    total = sum((send.share for phase in phases for sends in phase.sends for send in sends), Fraction(0))
    return total if op == "send" else total / len(layout.ring)


def _direct(op: str, order: Ring) -> tuple[Phase, ...]:
    n = len(order)
    if op == "broadcast":
        sends: list[tuple[Send, ...]] = [()] * n
        sends[order[0]] = tuple(Send(other, Fraction(1)) for other in order[1:])
        return (Phase(1, tuple(sends)),)
    share = Fraction(1, n)
    everyone = tuple(tuple(Send((member + k) % n, share) for k in range(1, n)) for member in range(n))
    return (Phase(n - 1 if op == "all_to_all" else 1, everyone),) * (2 if op == "all_reduce" else 1)


def _hierarchical(op: str, layout: Layout) -> tuple[Phase, ...]:
    n = len(layout.ring)
    inside, across = _two_levels(layout)
    whole, part = Fraction(1), Fraction(1, len(layout.nodes[0]))
    scatter = _group_rings("reduce_scatter", inside, whole, n)
    gather = _group_rings("all_gather", inside, whole, n)
    if op == "reduce_scatter":
        return scatter, _group_rings("reduce_scatter", across, part, n)
    if op == "all_gather":
        return _group_rings("all_gather", across, part, n), gather
    return scatter, _group_rings("all_reduce", across, part, n), gather
