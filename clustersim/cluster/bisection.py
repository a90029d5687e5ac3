"""Bisection bandwidth: what the first half of the nodes, in order, can send to the other half at once.

>>> from clustersim.cluster.load import check_cluster
>>> bisection(check_cluster("dgx-a100"))  # 8 NICs of 24 GB/s
Bisection(bytes_s=192000000000, method='maximum flow over all links, from the first 1 of 2 nodes to the other 1')
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from clustersim.cluster.fabrics import NETWORK, Fabric, Tiers
from clustersim.cluster.meshes import Torus
from clustersim.cluster.spec import Cluster

MAX_LINKS = 100_000  # of the graph in which the flow is found: a few seconds of networkx
MAX_NODE_LINKS = 3000  # of a single node, whose routes are gone through pair by pair

Graph = Counter[tuple[str | int, str | int]]
"""The capacity from one vertex to another; the GPUs of the first half are ``FROM``, those of the second ``TO``."""

FROM, TO = "from", "to"


class Bisection(NamedTuple):
    """``bytes_s`` in one direction (None where it has no value), and how it was found."""

    bytes_s: int | None
    method: str


def bisection(cluster: Cluster) -> Bisection:
    """The least capacity of links that separates the first half of the nodes from the others: the maximum flow between them.

    Halves are whole nodes in the order of the ranks, and of an odd number the first half has one less, so that one more node
    never adds the NVLink of a node cut in two. The flow takes any way, not only those of the routing. A single node is halved
    by its GPUs, over the links that routes between them use: NVLink, where there is one.
    """
    if cluster.ideal:
        return Bisection(None, "no links")
    if cluster.gpus < 2:
        return Bisection(None, "one GPU")
    if cluster.nodes == 1:
        return _of_one_node(cluster)
    half = cluster.nodes // 2
    graph = _listed(cluster, half) if cluster.whole else _repeated(cluster, half)
    if graph is None or len(graph) > MAX_LINKS:
        return Bisection(None, f"not sought: over {MAX_LINKS:,} links that differ")
    ends = f"from the first {half:,} of {cluster.nodes:,} nodes to the other {cluster.nodes - half:,}"
    return Bisection(_flow(graph), f"maximum flow over all links, {ends}")


def _flow(graph: Graph) -> int:
    import networkx

    links = networkx.DiGraph()
    links.add_nodes_from((FROM, TO))
    links.add_edges_from((a, b, {"capacity": capacity}) for (a, b), capacity in graph.items())
    return networkx.maximum_flow_value(links, FROM, TO)


def _of_one_node(cluster: Cluster) -> Bisection:
    if cluster.link_count > MAX_NODE_LINKS:
        return Bisection(None, f"not sought: over {MAX_NODE_LINKS:,} links in one node")
    half = cluster.gpus // 2
    pairs = ((a, b) for a in range(half) for b in range(half, cluster.gpus))
    used = {link for a, b in pairs for link, _ in cluster.route(a, b).links}
    ends = f"from the first {half} of {cluster.gpus} GPUs to the other {cluster.gpus - half}"
    return Bisection(_flow(_joined(cluster, half, used)), f"maximum flow over the links of their routes, {ends}")


def _listed(cluster: Cluster, half: int) -> Graph | None:
    """Of a cluster that is one graph of devices."""
    links = range(cluster.link_count)
    return _joined(cluster, half * cluster.gpus_per_node, links) if len(links) <= MAX_LINKS else None


def _joined(cluster: Cluster, first_gpus: int, links: range | set[int]) -> Graph:
    end = {cluster.device_of(gpu): FROM if gpu < first_gpus else TO for gpu in range(cluster.gpus)}
    graph: Graph = Counter()
    for link in map(cluster.link, links):
        _add(graph, end.get(link.source, link.source), end.get(link.target, link.target), link.capacity_bytes_s)
    return graph


def _add(graph: Graph, source: str | int, target: str | int, capacity: int) -> None:
    if source != TO and target != FROM and source != target:  # no flow gains by the way back
        graph[source, target] += capacity


def _repeated(cluster: Cluster, half: int) -> Graph | None:
    """Of nodes on a fabric. What is alike by symmetry is one vertex with the sum of the links: the maximum flow stays the same."""
    vertex, links = _merged(cluster.fabric, cluster.nodes)
    graph: Graph = Counter()
    for a, b, capacity in islice(links, MAX_LINKS + 1):
        _add(graph, a, b, capacity)
    nics = [name for name, kind in cluster.devices if kind == "nic"]
    node_links = _node_links(cluster)
    for first, count in _alike(lambda node: [vertex(cluster.fabric.attach(node, nic)) for nic in range(len(nics))], cluster.nodes, half):
        if len(graph) > MAX_LINKS:
            return None
        switch_of = {nic: vertex(cluster.fabric.attach(first, number)) for number, nic in enumerate(nics)}
        gpus = FROM if first < half else TO
        for source, target, nic, capacity in node_links:
            at: dict[str, str | int] = {NETWORK: switch_of.get(nic, ""), "gpu": gpus}
            start, end = (at.get(name, f"{first}/{name}") for name in (source, target))
            _add(graph, start, end, count * capacity)
    return graph


def _merged(fabric: Fabric, nodes: int) -> tuple[Callable[[int], int], Iterator[tuple[int, int, int]]]:
    """The vertex of a switch, and (vertex, vertex, capacity) of the links between vertices."""
    if isinstance(fabric, Tiers):
        return lambda leaf: leaf, fabric.trunks()
    if isinstance(fabric, Torus) and nodes == fabric.switch_count and fabric.dimensions[0] % 2 == 0:
        # Whole layers of the first dimension are in one half: the routers of a layer are alike.
        ring, layer = Torus(fabric.dimensions[:1], fabric.rate, nodes=1), nodes // fabric.dimensions[0]
        return lambda router: router // layer, _wires(ring, layer)
    return lambda switch: switch, _wires(fabric, 1)


def _wires(fabric: Fabric, times: int) -> Iterator[tuple[int, int, int]]:
    wires = map(fabric.wire, range(fabric.link_count))
    return ((wire.source, wire.target, times * wire.rate.capacity_bytes_s) for wire in wires)


def _alike(ends: Callable[[int], list[int]], nodes: int, half: int) -> Iterator[tuple[int, int]]:
    """(first, number) of nodes of one half that hang on the same vertices; those follow each other in every fabric."""
    first = 0
    while first < nodes:
        here, limit = ends(first), half if first < half else nodes
        after = bisect_left(range(limit), True, first, key=lambda node: ends(node) != here)
        yield first, after - first
        first = after


def _node_links(cluster: Cluster) -> list[tuple[str, str, str, int]]:
    """(source, target, the NIC at a link of the network, capacity) of a node's links, all of its GPUs being ``gpu``.

    Where the GPUs can fill all NICs at once, both ways, they might as well hang on the network: what is inside never limits.
    """
    gpus = set(cluster.gpu_names_of_copy)
    links = []
    for link in cluster.node_links:
        source, target = ("gpu" if end in gpus else end for end in (link.source, link.target))
        nic = source if target == NETWORK else target if source == NETWORK else ""
        links.append((source, target, nic, link.capacity_bytes_s))
    outer = [link for link in links if link[2]]
    for gpu, network in ((FROM, TO), (TO, FROM)):
        name = {"gpu": gpu, NETWORK: network}
        graph: Graph = Counter()
        for source, target, _, capacity in links:
            _add(graph, name.get(source, source), name.get(target, target), capacity)
        if _flow(graph) < sum(link[3] for link in outer if network == (TO if link[1] == NETWORK else FROM)):
            return links
    return [
        ("gpu" if source == nic else source, "gpu" if target == nic else target, nic, capacity) for source, target, nic, capacity in outer
    ]
