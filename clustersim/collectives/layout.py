"""How a group lies on its cluster: rings that follow the topology, members by node."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import Layout, Ring

_LARGEST_SEARCHED = 16  # members of one node among which rings are searched; larger nodes have switches


def lay_out(cluster: Cluster, group: Sequence[int]) -> Layout:
    """The layout of a group of ranks (GPU numbers of the cluster); positions are those in ``group``.

    The ring visits node after node, and within a node goes round over the fastest links. The rings of ``multi-ring`` are one for
    each adapter that the members of a node have, so that all carry their share between nodes; within one node one for each
    disjoint way round through NVLinks that join GPUs directly, in proportion to what it carries.

    >>> from clustersim.cluster.load import check_cluster
    >>> lay_out(check_cluster("dgx-1-v100"), range(8)).ring
    (0, 3, 2, 1, 5, 6, 7, 4)
    """
    if cluster.ideal:
        nodes = (tuple(range(len(group))),)
        return Layout(nodes[0], ((nodes[0], Fraction(1)),), nodes)
    by_node: dict[int, list[int]] = {}
    for position, rank in enumerate(group):
        by_node.setdefault(rank // cluster.gpus_per_node, []).append(position)
    nodes = tuple(tuple(sorted(members, key=lambda position: group[position])) for members in by_node.values())
    if len(nodes) == 1:
        rings = _inside(cluster, group, nodes[0])
        return Layout(rings[0][0], rings, nodes, cluster.in_switch if len(group) > 2 else None)
    orders = [_inside(cluster, group, members)[0][0] for members in nodes]
    ring = tuple(position for order in orders for position in order)
    exits = [_one_per_adapter(cluster, group, order, nodes) for order in orders]
    count = min(map(len, exits))
    rings = tuple(
        (tuple(position for order, last in zip(orders, exits, strict=True) for position in _ending(order, last[k])), Fraction(1, count))
        for k in range(count)
    )
    return Layout(ring, rings, nodes, cluster.in_switch)


def _ending(order: Ring, last: int) -> Ring:
    cut = order.index(last) + 1
    return order[cut:] + order[:cut]


def _one_per_adapter(cluster: Cluster, group: Sequence[int], order: Ring, nodes: tuple[Ring, ...]) -> list[int]:
    """Members of a node that leave it over different adapters."""
    elsewhere = next(node[0] for node in nodes if node[0] not in order)
    found: dict[int, int] = {}
    for member in order:
        links = cluster.route(group[member], group[elsewhere]).links
        adapter = next(link for link, _ in links if cluster.link_figures(link)[0] == "network")
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
