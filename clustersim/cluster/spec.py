"""What a cluster is: identical nodes of GPUs and switches, joined by the switches of a network.

A cluster is devices plus directed links with ids, and ``route(a, b)`` gives the links on the way from GPU ``a`` to GPU
``b``. Only one node is stored: ids count the links between the switches of the network first, then those of each node, so
that a cluster of 100,000 GPUs costs no more than one of eight.

>>> from clustersim.cluster.load import check_cluster
>>> cluster = check_cluster("dgx-a100")
>>> [cluster.link(i).name for i, share in cluster.route(0, 1).links]
['node0/gpu0>node0/nvswitch', 'node0/nvswitch>node0/gpu1']
>>> [cluster.link(i).kind for i, share in cluster.route(0, 9).links], cluster.route(0, 9).latency_ps
(['pcie', 'pcie', 'network', 'network', 'pcie', 'pcie'], 2700000)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clustersim.cluster.fabrics import FLAT, NETWORK, Fabric
from clustersim.cluster.links import LINK_KINDS, Link
from clustersim.cluster.routes import NO_LINKS, ONE, Paths, Pick, Route, ecmp
from clustersim.collectives.algorithms import ALGORITHMS
from clustersim.collectives.protocols import Protocol
from clustersim.errors import InputError

if TYPE_CHECKING:
    import networkx

__all__ = ["LINK_KINDS", "NETWORK", "PRECISIONS", "Cluster", "Gpu", "Link", "Route"]

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
_MAX_CACHED = 200_000  # some hundred MB of routes


@dataclass(frozen=True)
class Gpu:
    """One GPU: ``peak_flop_s`` maps a precision to dense FLOP/s; of its memory a job can have ``usable_memory_bytes``.

    ``efficiency`` is the share of the peak that everything computed reaches; where it is None the calibrations of the GPU of
    this name say what a kernel reaches, under ``software`` where the experiment names no other.
    """

    name: str
    peak_flop_s: Mapping[str, float]
    memory_bytes: int
    memory_bandwidth_bytes_s: int
    usable_memory_bytes: int
    efficiency: float | None = None
    multiprocessors: int | None = None
    software: str | None = None


@dataclass(frozen=True)
class Cluster:
    """``nodes`` copies of one node. GPUs count from 0, node by node.

    ``devices`` holds (name, kind) of a node's other devices, kinds ``nvswitch``, ``pcie_switch``, ``host``, ``nic`` ...;
    ``node_links`` the links of one node, with the device names of the node (``gpu0``, ``nvswitch``) or ``network``;
    ``nic_of_gpu`` the NIC, by its place among the ``devices``, through which each GPU of a node leaves it; ``gpu_names`` the
    GPUs of a node where they are not ``gpu0`` ...; ``forwarding`` the GPUs and NICs that pass on what is not theirs.

    ``fabric`` joins the NICs, ``routing`` is ``spread`` or ``ecmp``. A ``whole`` cluster is one graph of devices: its
    ``devices``, ``node_links`` and ``gpu_names`` are those of all nodes, and there is no fabric. An ``ideal`` cluster has no
    links: every route is empty, and ``link_delay_ps`` is the one-way delay between ranks. Routes lead around ``failed`` links.
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
    gpu_names: tuple[str, ...] = ()
    forwarding: tuple[str, ...] = ()
    fabric: Fabric = FLAT
    routing: str = "spread"
    whole: bool = False
    protocols: tuple[Protocol, ...] = ()
    in_switch: Fraction | None = None
    algorithms: tuple[str, ...] = ALGORITHMS
    failed: frozenset[int] = frozenset()

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def link_count(self) -> int:
        return self._fabric_links + self.copies * len(self.node_links)

    @cached_property
    def has_network(self) -> bool:
        """Whether any NIC hangs on the fabric."""
        return any(NETWORK in (link.source, link.target) for link in self.node_links)

    @property
    def copies(self) -> int:
        """How often ``devices`` and ``node_links`` are there."""
        return 1 if self.whole else self.nodes

    def device_of(self, gpu: int) -> str:
        """``node3/gpu2`` for a global GPU index; in a whole cluster the name that the file gives."""
        copy, local = divmod(self._checked(gpu), self._gpus_per_copy)
        return self._in_copy(copy, self.gpu_names_of_copy[local])

    def link(self, link_id: int) -> Link:
        """The link with this id; IndexError when there is none."""
        copy, local = self._place_of(link_id)
        if copy < 0:
            wire = self.fabric.wire(local)
            return wire.rate.link(self.fabric.switch(wire.source)[0], self.fabric.switch(wire.target)[0])
        link = self.node_links[local]
        source, target = (self._end(copy, end, link) for end in (link.source, link.target))
        return Link(
            f"{source}>{target}", source, target, link.kind, link.bandwidth_bytes_s, link.latency_ps, link.efficiency
        )

    def link_figures(self, link_id: int) -> tuple[str, int, int]:
        """Kind, capacity in bytes/s and latency in ps of the link with this id, without its name; IndexError without it."""
        copy, local = self._place_of(link_id)
        if copy >= 0:
            return self._node_figures[local]
        rate = self.fabric.wire(local).rate
        return rate.kind, rate.capacity_bytes_s, rate.latency_ps

    def route(self, a: int, b: int, flow: int = 0) -> Route:
        """The links from GPU ``a`` to GPU ``b`` with their shares of the bytes; none for a GPU to itself and if ``ideal``.

        Within a node the shortest paths, NVLink before PCIe; between nodes through the NIC of each GPU's affinity. Equal
        paths share the flow evenly, hop by hop; with ``ecmp`` routing the network takes one of them by a hash of ``a``,
        ``b`` and ``flow``. What would cross a failed link takes the shortest paths that are left. InputError when there is no path.
        """
        found = self._usual_route(a, b, flow)
        if self.failed and any(link in self.failed for link, _ in found.links):
            around = self._paths_left.route(self.device_of(a), self.device_of(b))
            if around is None:
                raise InputError(f"cluster {self.name}: {self.device_of(a)} cannot reach {self.device_of(b)} without the links that failed")
            return Route(tuple((self._links_left[link], share) for link, share in around.links), around.latency_ps)
        return found

    def _usual_route(self, a: int, b: int, flow: int) -> Route:
        count, per_copy, stride, shift = self._sizes
        if not (0 <= a < count and 0 <= b < count):
            raise IndexError(f"GPUs {a}, {b} of {count}")
        if a == b or self.ideal:
            return NO_LINKS
        copy_a, local_a = divmod(a, per_copy)
        copy_b, local_b = divmod(b, per_copy)
        if copy_a == copy_b:
            if self.whole and self.routing == "ecmp":
                inside = self._find_inside(local_a, local_b, ecmp(a, b, flow))
            else:
                inside = _once(self._inside, (local_a, local_b), self._find_inside)
            if inside is not None:
                first = copy_a * stride + shift
                return Route(tuple([(first + link, share) for link, share in inside.links]), inside.latency_ps)
        leave, enter = self._leave[local_a], self._enter[local_b]
        if leave is None or enter is None:
            raise InputError(f"cluster {self.name}: {self.device_of(a)} cannot reach {self.device_of(b)} over any links")
        fabric, nics = self.fabric, self.nic_of_gpu
        ends = fabric.attach(copy_a, nics[local_a]), fabric.attach(copy_b, nics[local_b])
        if ends[0] == ends[1]:
            between = NO_LINKS
        elif self.routing == "ecmp":
            between = fabric.between(*ends, ecmp(a, b, flow))
        else:
            between = _once(self._between, ends, fabric.between)
        first_a, first_b = copy_a * stride + shift, copy_b * stride + shift
        links = [(first_a + link, share) for link, share in leave.links]
        links += between.links
        links += [(first_b + link, share) for link, share in enter.links]
        return Route(tuple(links), leave.latency_ps + between.latency_ps + enter.latency_ps)

    def host_route(self, gpu: int, out: bool) -> Route:
        """The links from a GPU to the nearest host's memory, or (not ``out``) back; none if ``ideal``. InputError where it has none."""
        if self.ideal:
            return NO_LINKS
        copy, local = divmod(self._checked(gpu), self._gpus_per_copy)
        name, hosts = self.gpu_names_of_copy[local], [device for device, kind in self.devices if kind == "host"]
        first = copy * len(self.node_links) + self._fabric_links
        found = [self._paths.route(name, host) if out else self._paths.route(host, name) for host in hosts]
        ways = [way for way in found if way is not None and self.failed.isdisjoint(first + link for link, _ in way.links)]
        if not ways:
            way = f"{self.device_of(gpu)} has no way {'to' if out else 'from'} a host"
            raise InputError(f"cluster {self.name}: {way}, to whose memory it would offload")
        near = min(ways, key=lambda way: len(way.links))
        return Route(tuple((first + link, share) for link, share in near.links), near.latency_ps)

    def graph(self) -> networkx.DiGraph:
        """All devices and links, built anew: nodes with ``kind``, edges with ``id, kind, bandwidth_bytes_s,
        capacity_bytes_s, latency_ps``."""
        import networkx

        graph = networkx.DiGraph(name=self.name)
        if self.has_network:
            for number in range(self.fabric.switch_count):
                name, kind = self.fabric.switch(number)
                graph.add_node(name, kind=kind)
        for copy in range(self.copies):
            for gpu in self.gpu_names_of_copy:
                graph.add_node(self._in_copy(copy, gpu), kind="gpu")
            for device, kind in self.devices:
                graph.add_node(self._in_copy(copy, device), kind=kind)
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
        names = self.gpu_names_of_copy
        local = range(self._gpus_per_copy)
        cannot_leave = [a for a in local if self._leave[a] is None]
        cannot_enter = [b for b in local if self._enter[b] is None]
        if self.copies > 1 and (cannot_leave or cannot_enter):
            a, b = (cannot_leave or [0])[0], (cannot_enter or [0])[0]
            return a, self._gpus_per_copy + b
        for a in local:
            reached = self._paths.reached(names[a])
            for b in local:
                by_network = a not in cannot_leave and b not in cannot_enter
                if names[b] not in reached and not by_network:
                    return a, b
        return None

    def __getstate__(self) -> dict[str, Any]:
        """The fields; routes are found again where they are needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def _gpus_per_copy(self) -> int:
        return self.gpus if self.whole else self.gpus_per_node

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int]:
        """GPUs in all, GPUs and links of a copy, links before the first copy: at hand, since a route is to cost little."""
        return self.gpus, self._gpus_per_copy, len(self.node_links), self._fabric_links

    @cached_property
    def gpu_names_of_copy(self) -> tuple[str, ...]:
        return self.gpu_names or tuple(f"gpu{gpu}" for gpu in range(self.gpus_per_node))

    @cached_property
    def _nic_names(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.devices if kind == "nic")

    @cached_property
    def _fabric_links(self) -> int:
        return self.fabric.link_count if self.has_network else 0

    @cached_property
    def _node_figures(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((link.kind, link.capacity_bytes_s, link.latency_ps) for link in self.node_links)

    @cached_property
    def _paths(self) -> Paths:
        ends = {*self.gpu_names_of_copy, *(() if self.whole else self._nic_names)} - set(self.forwarding)
        return Paths(self.node_links, {*ends, NETWORK})

    @cached_property
    def _links_left(self) -> list[int]:
        return [link for link in range(self.link_count) if link not in self.failed]

    @cached_property
    def _paths_left(self) -> Paths:
        gpus = {self.device_of(gpu) for gpu in range(self.gpus)}
        forwarding = {self._in_copy(copy, device) for copy in range(self.copies) for device in self.forwarding}
        return Paths([self.link(link) for link in self._links_left], gpus - forwarding)

    @cached_property
    def _inside(self) -> dict[tuple[int, int], Route | None]:
        return {}

    @cached_property
    def _between(self) -> dict[tuple[int, int], Route]:
        return {}

    @cached_property
    def _leave(self) -> tuple[Route | None, ...]:
        """From each GPU of a copy to the switch on which its NIC hangs, over the link numbers of the copy."""
        return tuple(self._by_nic(gpu, out=True) for gpu in range(self._gpus_per_copy))

    @cached_property
    def _enter(self) -> tuple[Route | None, ...]:
        return tuple(self._by_nic(gpu, out=False) for gpu in range(self._gpus_per_copy))

    def _by_nic(self, gpu: int, out: bool) -> Route | None:
        if not self.nic_of_gpu:
            return None
        name, nic = self.gpu_names_of_copy[gpu], self._nic_names[self.nic_of_gpu[gpu]]
        inner = self._paths.route(name, nic) if out else self._paths.route(nic, name)
        ends = (nic, NETWORK) if out else (NETWORK, nic)
        edge = next((i for i, link in enumerate(self.node_links) if (link.source, link.target) == ends), None)
        if inner is None or edge is None:
            return None
        last = ((edge, ONE),)
        latency = inner.latency_ps + self.node_links[edge].latency_ps
        return Route(inner.links + last if out else last + inner.links, latency)

    def _find_inside(self, a: int, b: int, pick: Pick | None) -> Route | None:
        return self._paths.route(self.gpu_names_of_copy[a], self.gpu_names_of_copy[b], pick)

    def _place_of(self, link_id: int) -> tuple[int, int]:
        """(copy of the node, link in it); (-1, link of the fabric)."""
        if not 0 <= link_id < self.link_count:
            raise IndexError(f"link {link_id} of {self.link_count}")
        if link_id < self._fabric_links:
            return -1, link_id
        return divmod(link_id - self._fabric_links, len(self.node_links))

    def _end(self, copy: int, device: str, link: Link) -> str:
        if device != NETWORK:
            return self._in_copy(copy, device)
        nic = link.source if link.target == NETWORK else link.target
        return self.fabric.switch(self.fabric.attach(copy, self._nic_names.index(nic)))[0]

    def _in_copy(self, copy: int, device: str) -> str:
        return device if self.whole else f"node{copy}/{device}"

    def _checked(self, gpu: int) -> int:
        if not 0 <= gpu < self.nodes * self.gpus_per_node:
            raise IndexError(f"GPU {gpu} of {self.gpus}")
        return gpu


def _once(cache: dict[tuple[int, int], Any], key: tuple[int, int], find: Callable[[int, int, Pick | None], Any]) -> Any:
    if key not in cache:
        if len(cache) >= _MAX_CACHED:
            cache.clear()
        cache[key] = find(*key, None)
    return cache[key]
