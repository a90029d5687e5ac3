"""Bisection bandwidth: what the first half of the GPUs, in order, can send to the other half at once.

>>> from clustersim.cluster.load import check_cluster
>>> bisection(check_cluster("dgx-a100"))  # 8 NICs of 24 GB/s
Bisection(bytes_s=192000000000, method='maximum flow')
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from clustersim.cluster.fabrics import NETWORK, Tiers
from clustersim.cluster.spec import Cluster

MAX_FLOW_LINKS = 3000  # some seconds of networkx
MAX_CUT_LINKS = 1_000_000


class Bisection(NamedTuple):
    """``bytes_s`` in one direction (None where it has no value), and how it was found."""

    bytes_s: int | None
    method: str


def bisection(cluster: Cluster) -> Bisection:
    """The least capacity that separates the two halves of the GPUs, of an odd number the first half being smaller.

    In a cluster of up to ``MAX_FLOW_LINKS`` a maximum flow over the links that routes between the halves use. In larger ones
    halves are whole nodes: in a network of levels flows meet as far down as they can, which is the maximum flow of a tree; else
    the capacity of the links between the halves, or what the nodes can send when that is less.
    """
    if cluster.ideal:
        return Bisection(None, "no links")
    if cluster.gpus < 2:
        return Bisection(None, "one GPU")
    if cluster.link_count <= MAX_FLOW_LINKS:
        return Bisection(_maximum_flow(cluster), "maximum flow")
    if cluster.copies < 2:
        return Bisection(None, f"more than {MAX_FLOW_LINKS} links in one graph")
    if isinstance(cluster.fabric, Tiers):
        return Bisection(_tree_flow(cluster, cluster.fabric), "flow up and down the levels, halves of whole nodes")
    if cluster.fabric.link_count > MAX_CUT_LINKS:
        return Bisection(None, f"more than {MAX_CUT_LINKS} links between switches")
    return Bisection(_cut(cluster), "links between the halves, of whole nodes")


def _maximum_flow(cluster: Cluster) -> int:
    import networkx

    cluster = replace(cluster, routing="spread")  # all of the equal paths
    half = cluster.gpus // 2
    first, second = range(half), range(half, cluster.gpus)
    used = {link for a in first for b in second for link, _ in cluster.route(a, b).links}
    graph = networkx.DiGraph()
    for link in map(cluster.link, sorted(used)):
        graph.add_edge(link.source, link.target, capacity=link.capacity_bytes_s)
    # An edge without a capacity takes any amount.
    graph.add_edges_from(("from", cluster.device_of(gpu)) for gpu in first)
    graph.add_edges_from((cluster.device_of(gpu), "to") for gpu in second)
    return networkx.maximum_flow_value(graph, "from", "to")


def _nic_capacities(cluster: Cluster) -> list[float]:
    """What each NIC of a node carries when all of its GPUs send."""
    nics = [name for name, kind in cluster.devices if kind == "nic"]
    capacity = {link.source: link.capacity_bytes_s for link in cluster.node_links if link.target == NETWORK}
    total = sum(capacity.values())
    reached = min(1.0, _node_flow(cluster) / total)
    return [capacity[nic] * reached for nic in nics]


def _node_flow(cluster: Cluster) -> int:
    """From the GPUs of one node into the network."""
    import networkx

    graph = networkx.DiGraph()
    for link in cluster.node_links:
        if link.source != NETWORK:
            graph.add_edge(link.source, link.target, capacity=link.capacity_bytes_s)
    for gpu in range(cluster.gpus_per_node):
        graph.add_edge("from", cluster.device_of(gpu).partition("/")[2])
    return networkx.maximum_flow_value(graph, "from", NETWORK)


def _tree_flow(cluster: Cluster, fabric: Tiers) -> int:
    nics = _nic_capacities(cluster)
    out: Counter[int] = Counter()  # by group: what its first half has to send, its second half can take
    into: Counter[int] = Counter()
    for node in range(cluster.nodes):
        side = out if node < cluster.nodes // 2 else into
        for nic, capacity in enumerate(nics):
            side[fabric.attach(node, nic)] += capacity
    flow = 0.0
    for level, groups in enumerate(fabric.groups):
        above_out: Counter[int] = Counter()
        above_into: Counter[int] = Counter()
        for group in range(groups):
            met = min(out[group], into[group])
            flow += met
            if level + 1 < len(fabric.groups):
                tier, above = fabric.tiers[level], fabric.tiers[level + 1]
                capacity = tier.uplink.capacity_bytes_s * tier.switches * above.switches
                parent = group // above.children if above.children else 0
                above_out[parent] += min(out[group] - met, capacity)
                above_into[parent] += min(into[group] - met, capacity)
        out, into = above_out, above_into
    return round(flow)


def _cut(cluster: Cluster) -> int:
    fabric, half = cluster.fabric, cluster.nodes // 2
    nodes = round(sum(_nic_capacities(cluster)) * half)
    if not fabric.link_count:
        return nodes
    first = fabric.attach(half, 0)  # switches are numbered along with the nodes
    wires = map(fabric.wire, range(fabric.link_count))
    crossing = sum(wire.rate.capacity_bytes_s for wire in wires if wire.source < first <= wire.target)
    return min(nodes, crossing)
