"""The paths within one node, as local link indices; a cluster of such nodes translates them.

GPUs and NICs begin and end a path and never forward, as in real machines, where only switches and hosts do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clustersim.cluster.spec import Link

# One hop of a slower kind outweighs any number of hops of a faster one, as in NCCL, whatever bandwidth a sweep gives them.
_HOP_COST = {"nvlink": 1.0, "pcie": 1e3, "network": 1e6}


@dataclass(frozen=True)
class NodeRoutes:
    """Link indices of one node: GPU to GPU, GPU to the network, the network to GPU; absent or None without a path."""

    inside: Mapping[tuple[int, int], tuple[int, ...]]
    leave: Sequence[tuple[int, ...] | None]
    enter: Sequence[tuple[int, ...] | None]


def node_routes(gpus: int, links: Sequence[Link], nic_of_gpu: Sequence[int]) -> NodeRoutes:
    """All shortest paths of a node with ``gpus`` GPUs, ``gpu0`` ..., and NICs ``nic0`` ..."""
    import networkx

    index = {(link.source, link.target): i for i, link in enumerate(links)}
    graph = networkx.DiGraph()
    for link in links:
        if "network" not in (link.source, link.target):
            graph.add_edge(link.source, link.target, cost=_HOP_COST[link.kind] + 1 / link.bandwidth_bytes_s)
    names = [f"gpu{gpu}" for gpu in range(gpus)]
    nics = [f"nic{nic}" for nic in sorted(set(nic_of_gpu))]
    ends = {*names, *nics}

    def paths_from(source: str) -> dict[str, tuple[int, ...]]:
        if source not in graph:
            return {}
        forwarding = networkx.subgraph_view(graph, filter_edge=lambda u, _: u == source or u not in ends)
        paths = networkx.single_source_dijkstra_path(forwarding, source, weight="cost")
        return {target: tuple(index[hop] for hop in zip(path, path[1:])) for target, path in paths.items()}

    from_gpu = [paths_from(name) for name in names]
    from_nic = {nic: paths_from(nic) for nic in nics}
    inside = {
        (a, b): paths[name]
        for a, paths in enumerate(from_gpu)
        for b, name in enumerate(names)
        if a != b and name in paths
    }
    leave: list[tuple[int, ...] | None] = []
    enter: list[tuple[int, ...] | None] = []
    for gpu, name in enumerate(names):
        nic = f"nic{nic_of_gpu[gpu]}" if nic_of_gpu else ""
        up, down = index.get((nic, "network")), index.get(("network", nic))
        there, back = from_gpu[gpu].get(nic), from_nic.get(nic, {}).get(name)
        leave.append(None if up is None or there is None else (*there, up))
        enter.append(None if down is None or back is None else (down, *back))
    return NodeRoutes(inside, leave, enter)
