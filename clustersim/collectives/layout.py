"""How a group lies on its cluster: rings that follow the topology, members by node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from clustersim.cluster.meshes import Torus
from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import Layout, Ring

_LARGEST_SEARCHED = 16  # members of one node among which rings are searched; larger nodes have switches


def lay_out(cluster: Cluster, group: Sequence[int]) -> Layout:
    """The layout of a group of ranks (GPU numbers of the cluster); positions are those in ``group``, in whatever order it has them.

    The ring visits node after node as they are numbered, along a torus as a snake, and within a node goes round over the fastest
    links. The rings of ``multi-ring`` are one for
    each adapter that the members of a node have, so that all carry their share between nodes; within one node one for each
    disjoint way round through NVLinks that join GPUs directly, in proportion to what it carries.

    >>> from clustersim.cluster.load import check_cluster
    >>> lay_out(check_cluster("dgx-1-v100"), range(8)).ring
    (0, 3, 2, 1, 5, 6, 7, 4)
    """
    nodes: tuple[tuple[int, ...], ...]
    if cluster.ideal:
        nodes = (tuple(range(len(group))),)
        return Layout(nodes[0], ((nodes[0], Fraction(1)),), nodes)
    by_node: dict[int, list[int]] = {}
    for position in sorted(range(len(group)), key=group.__getitem__):
        by_node.setdefault(group[position] // cluster.gpus_per_node, []).append(position)
    nodes = tuple(map(tuple, by_node.values()))
    if len(nodes) == 1:
        rings = _inside(cluster, group, nodes[0])
        return Layout(rings[0][0], rings, nodes, _in_switch(cluster, group, nodes) if len(group) > 2 else None)
    orders = [_inside(cluster, group, tuple(by_node[node]))[0][0] for node in _visited(cluster, list(by_node))]
    ring = tuple(position for order in orders for position in order)
    exits = [_one_per_adapter(cluster, group, order, nodes) for order in orders]
    count = min(map(len, exits))
    rings = tuple(
        (tuple(position for order, last in zip(orders, exits, strict=True) for position in _ending(order, last[k])), Fraction(1, count))
        for k in range(count)
    )
    return Layout(ring, rings, nodes, _in_switch(cluster, group, nodes))


def _visited(cluster: Cluster, nodes: list[int]) -> list[int]:
    """Nodes, given in order, as a ring visits them: neighbours after one another where the network is a torus."""
    if not isinstance(cluster.fabric, Torus):
        return nodes
    return snake(cluster.fabric.dimensions, nodes)


def snake(dimensions: Sequence[int], numbers: Sequence[int]) -> list[int]:
    """Numbers of a grid (the last dimension fastest) along a line that turns back at its edges; of part of a grid within that part.

    >>> snake((2, 3), range(6)), snake((4, 4), (1, 3, 9, 11))
    ([0, 1, 2, 5, 4, 3], [1, 3, 11, 9])
    """
    strides = [math.prod(dimensions[place + 1 :]) for place in range(len(dimensions))]
    present = [sorted({number // stride % size for number in numbers}) for stride, size in zip(strides, dimensions, strict=True)]
    # A line over an even number of rows ends beside its start.
    places = sorted(range(len(dimensions)), key=lambda place: len(present[place]) % 2)

    def along(number: int) -> int:
        passed = 0
        for place in places:
            here = present[place].index(number // strides[place] % dimensions[place])
            size = len(present[place])
            passed = passed * size + (size - 1 - here if passed % 2 else here)
        return passed

    return sorted(numbers, key=along)


def _in_switch(cluster: Cluster, group: Sequence[int], nodes: tuple[Ring, ...]) -> Fraction | None:
    """What the switches reach that reduce: None unless all members of each node hang on one."""
    if cluster.in_switch is None:
        return None
    size = cluster.gpus if cluster.whole else cluster.gpus_per_node  # nodes are alike, unless each is listed
    alike = {tuple(group[member] % size for member in node) for node in nodes}
    return cluster.in_switch if all(_one_switch(cluster, ranks) for ranks in alike) else None


def _one_switch(cluster: Cluster, ranks: Ring) -> bool:
    """Whether each reaches the next over the same NVSwitch and nothing else; switches that share every GPU's links are one."""
    kinds = dict(cluster.devices)
    between: set[frozenset[str]] = set()
    for a, b in zip(ranks, ranks[1:] + ranks[:1], strict=True):
        links = [cluster.link(link) for link, _ in cluster.route(a, b).links]
        source, target = cluster.device_of(a), cluster.device_of(b)
        up = frozenset(link.target for link in links if link.source == source)
        down = frozenset(link.source for link in links if link.target == target)
        if up != down or len(links) != 2 * len(up):
            return False
        between.add(up)
    names = (name if cluster.whole else name.partition("/")[2] for name in next(iter(between)))
    return len(between) == 1 and all(kinds.get(name) == "nvswitch" for name in names)


def _ending(order: Ring, last: int) -> Ring:
    cut = order.index(last) + 1
    return order[cut:] + order[:cut]


def _one_per_adapter(cluster: Cluster, group: Sequence[int], order: Ring, nodes: tuple[Ring, ...]) -> list[int]:
    """Members of a node that leave it over different adapters."""
    elsewhere = next(node[0] for node in nodes if node[0] not in order)
    found: dict[int, int] = {}
    for member in order:
        links = cluster.route(group[member], group[elsewhere]).links
        adapter = next((link for link, _ in links if cluster.link_figures(link)[0] == "network"), links[0][0])
        found.setdefault(adapter, member)
    return list(found.values())


def _inside(cluster: Cluster, group: Sequence[int], members: Ring) -> tuple[tuple[Ring, Fraction], ...]:
    """Rings through the members of one node with their shares, the fastest first."""
    plain = ((members, Fraction(1)),)
    if not 2 < len(members) <= _LARGEST_SEARCHED:
        return plain
    if not any(_direct_capacity(cluster, group[members[0]], group[other]) for other in members[1:]):
        return plain  # a switch: every order is as good
    left = {(a, b): _direct_capacity(cluster, group[a], group[b]) for a in members for b in members if a != b}
    rings: list[tuple[Ring, int]] = []
    while True:
        ring = _fastest_ring(members, left)
        if ring is None:
            break
        hops = list(zip(ring, ring[1:] + ring[:1], strict=True))
        carries = min(left[hop] for hop in hops)
        rings.append((ring, carries))
        for hop in hops:
            left[hop] -= carries
    total = sum(carries for _, carries in rings)
    return tuple((ring, Fraction(carries, total)) for ring, carries in rings) or plain


def _direct_capacity(cluster: Cluster, a: int, b: int) -> int:
    """Bytes/s of the link that joins two GPUs, 0 when none does."""
    links = cluster.route(a, b).links
    return cluster.link_figures(links[0][0])[1] if len(links) == 1 else 0


def _fastest_ring(members: Ring, left: dict[tuple[int, int], int]) -> Ring | None:
    """The ring through all members whose slowest hop is fastest; None when no ring of direct links is left."""
    for threshold in sorted({capacity for capacity in left.values() if capacity}, reverse=True):
        found = _ring_over(members, {hop for hop, capacity in left.items() if capacity >= threshold})
        if found is not None:
            return found
    return None


def _ring_over(members: Ring, hops: set[tuple[int, int]]) -> Ring | None:
    """Depth first, lowest numbers first."""
    first, path, tried = members[0], [members[0]], [iter(members)]
    while path:
        for following in tried[-1]:
            if following not in path and (path[-1], following) in hops:
                path.append(following)
                tried.append(iter(members))
                break
        else:
            path.pop()
            tried.pop()
        if len(path) == len(members) and (path[-1], first) in hops:
            return tuple(path)
    return None
