"""What a cluster is: identical nodes of GPUs and switches, joined by one flat, non-blocking network switch.

A cluster is devices plus directed links with ids, and ``route(a, b)`` gives the ids on the way from GPU ``a`` to GPU
``b``. Only one node is stored: link ``i`` of node ``n`` has the id ``n * len(node_links) + i``, so that a cluster of
100,000 GPUs costs no more than one of eight.

>>> from clustersim.cluster.load import check_cluster
>>> cluster = check_cluster("dgx-a100")
>>> [cluster.link(i).name for i in cluster.route(0, 1)]
['node0/gpu0>node0/nvswitch', 'node0/nvswitch>node0/gpu1']
>>> [cluster.link(i).kind for i in cluster.route(0, 9)]
['pcie', 'pcie', 'network', 'network', 'pcie', 'pcie']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clustersim.cluster.routes import NodeRoutes, node_routes
from clustersim.errors import InputError

if TYPE_CHECKING:
    import networkx

LINK_KINDS = ("nvlink", "pcie", "network")
PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
NETWORK = "network"  # the one device outside the nodes


@dataclass(frozen=True)
class Gpu:
    """One GPU: ``peak_flop_s`` maps a precision to dense FLOP/s; ``efficiency`` is the share of it that a transformer
    layer's matrix products reach."""

    name: str
    peak_flop_s: Mapping[str, float]
    memory_bytes: int
    memory_bandwidth_bytes_s: int
    efficiency: float


@dataclass(frozen=True)
class Link:
    """One direction of a link: payload bytes/s, nominal; ``capacity_bytes_s`` is what large messages reach.

    >>> Link("nic0>network", "nic0", "network", "network", 25_000_000_000, 350_000, 0.96).capacity_bytes_s
    24000000000
    """

    name: str
    source: str
    target: str
    kind: str
    bandwidth_bytes_s: int
    latency_ps: int
    efficiency: float = 1.0

    @property
    def capacity_bytes_s(self) -> int:
        return max(1, round(self.bandwidth_bytes_s * self.efficiency))


@dataclass(frozen=True)
class Cluster:
    """``nodes`` copies of one node. GPUs count from 0, node by node.

    ``devices`` holds (name, kind) of a node's other devices, kinds ``nvswitch``, ``pcie_switch``, ``host``, ``nic``;
    ``node_links`` the links of one node, with the device names of the node (``gpu0``, ``nvswitch``) or ``network``;
    ``nic_of_gpu`` the NIC through which each GPU of a node leaves it. An ``ideal`` cluster has no links: every route is
    empty, and ``link_delay_ps`` is the one-way delay between ranks.
    """

    name: str
    description: str
    gpu: Gpu
    gpus_per_node: int
    nodes: int
    devices: tuple[tuple[str, str], ...] = ()
    node_links: tuple[Link, ...] = ()
    nic_of_gpu: tuple[int, ...] = ()
    ideal: bool = False
    link_delay_ps: int = 0

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def link_count(self) -> int:
        return self.nodes * len(self.node_links)

    def device_of(self, gpu: int) -> str:
        """``node3/gpu2`` for a global GPU index."""
        node, local = divmod(self._checked(gpu), self.gpus_per_node)
        return f"node{node}/gpu{local}"

    def link(self, link_id: int) -> Link:
        """The link with this id; IndexError when there is none."""
        if not 0 <= link_id < self.link_count:
            raise IndexError(f"link {link_id} of {self.link_count}")
        node, local = divmod(link_id, len(self.node_links))
        link = self.node_links[local]
        source, target = _in_node(node, link.source), _in_node(node, link.target)
        return Link(
            f"{source}>{target}", source, target, link.kind, link.bandwidth_bytes_s, link.latency_ps, link.efficiency
        )

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """The ids of the links from GPU ``a`` to GPU ``b``, in order; empty for a GPU to itself and on an ideal cluster.

        Within a node the shortest path, NVLink before PCIe; between nodes through the NIC of each GPU's affinity.
        InputError when there is no path.
        """
        node_a, local_a = divmod(self._checked(a), self.gpus_per_node)
        node_b, local_b = divmod(self._checked(b), self.gpus_per_node)
        if a == b or self.ideal:
            return ()
        routes, stride = self._routes, len(self.node_links)
        if node_a == node_b:
            inside = routes.inside.get((local_a, local_b))
            if inside is not None:
                first = node_a * stride
                return tuple([first + link for link in inside])
        leave, enter = routes.leave[local_a], routes.enter[local_b]
        if leave is None or enter is None:
            raise InputError(f"cluster {self.name}: {self.device_of(a)} cannot reach {self.device_of(b)} over any links")
        first_a, first_b = node_a * stride, node_b * stride
        return tuple([first_a + link for link in leave] + [first_b + link for link in enter])

    def graph(self) -> networkx.DiGraph:
        """All devices and links, built anew: nodes with ``kind``, edges with ``id, kind, bandwidth_bytes_s,
        capacity_bytes_s, latency_ps``."""
        import networkx

        graph = networkx.DiGraph(name=self.name)
        if any(NETWORK in (link.source, link.target) for link in self.node_links):
            graph.add_node(NETWORK, kind="network_switch")
        for node in range(self.nodes):
            for gpu in range(self.gpus_per_node):
                graph.add_node(f"node{node}/gpu{gpu}", kind="gpu")
            for device, kind in self.devices:
                graph.add_node(f"node{node}/{device}", kind=kind)
        for link_id in range(self.link_count):
            link = self.link(link_id)
            graph.add_edge(
                link.source,
                link.target,
                id=link_id,
                kind=link.kind,
                bandwidth_bytes_s=link.bandwidth_bytes_s,
                capacity_bytes_s=link.capacity_bytes_s,
                latency_ps=link.latency_ps,
            )
        return graph

    def unreachable(self) -> tuple[int, int] | None:
        """Two GPUs, by global index, of which the first cannot reach the second; None when all can."""
        if self.ideal:
            return None
        routes, local = self._routes, range(self.gpus_per_node)
        cannot_leave = [a for a in local if routes.leave[a] is None]
        cannot_enter = [b for b in local if routes.enter[b] is None]
        if self.nodes > 1 and (cannot_leave or cannot_enter):
            a, b = (cannot_leave or [0])[0], (cannot_enter or [0])[0]
            return a, self.gpus_per_node + b
        for a in local:
            for b in local:
                by_network = routes.leave[a] is not None and routes.enter[b] is not None
                if a != b and (a, b) not in routes.inside and not by_network:
                    return a, b
        return None

    @cached_property
    def _routes(self) -> NodeRoutes:
        return node_routes(self.gpus_per_node, self.node_links, self.nic_of_gpu)

    def _checked(self, gpu: int) -> int:
        if not 0 <= gpu < self.nodes * self.gpus_per_node:
            raise IndexError(f"GPU {gpu} of {self.gpus}")
        return gpu


def _in_node(node: int, device: str) -> str:
    return device if device == NETWORK else f"node{node}/{device}"
