"""Tie a template to ranks and links: one copy per colour of the fold, collectives over their groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import Layout, able, flat, sent_share
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import HOST_OPS, Pace, fastest_algorithm, slowest_link, time_ps
from clustersim.collectives.protocols import Protocol, fastest
from clustersim.errors import InputError
from clustersim.program.fold import NO_LINKS, Fold, PhaseUse, fold
from clustersim.program.grid import Grid
from clustersim.program.places import Place, Shape, Site
from clustersim.program.program import Links, Load, Memory, Phase, Program, Stream, Transfer
from clustersim.program.template import Exchange, Template
from clustersim.variability import NONE, Variability, noise

MAX_OPS = 20_000_000
_READINESS_ORDERED = ("data", "offload", "fetch")


def instantiate(
    template: Template, grid: Grid, cluster: Cluster, algorithm: str = "multi-ring", folded: bool = True,
    variability: Variability = NONE, slow_links: Mapping[int, float] = NO_LINKS,
) -> Program:  # fmt: skip
    """The program of the whole job; copies that are alike are in it once when ``folded``.

    Collectives are done by ``algorithm`` where it does the operation for the group, else by ``multi-ring``; ``auto`` takes for each
    the algorithm that is fastest when it meets no other traffic. InputError when there are more than ``MAX_OPS`` ops.
    """
    exchanges = list(template.exchanges)
    site = Site(cluster, grid)
    place_of = [_place(exchange, site, algorithm) for exchange in exchanges]
    unlike, reasons = _unlike(grid, variability)
    folding = fold(site, list(dict.fromkeys(place_of)), folded, unlike, slow_links)
    copies, ops = len(folding.copies), len(template.kind)
    if copies * ops > MAX_OPS:
        raise InputError(
            f"{copies * ops:,} ops to simulate ({copies} replicas or tensor ranks that differ); allowed: at most {MAX_OPS:,};"
            " use fewer micro-batches or layers, or degrees that fill whole nodes so that replicas are alike"
        )
    of_copy = (divmod(copy, grid.tensor) for copy in folding.copies)
    rank_of = np.array([[grid.rank(p, d, t) for p in range(grid.pipeline)] for d, t in of_copy])
    activity, activity_transfer, transfers, phases = _activities(template, exchanges, place_of, folding, cluster)
    streams, stream_of = _streams(template, rank_of)
    peer = np.array(template.peer)
    dependencies = np.array(template.dependencies, dtype=np.int64).reshape(-1, 2)
    shift = (np.arange(copies) * ops)[:, None]

    def repeated(column: list[Any], dtype: type) -> np.ndarray:
        return np.tile(np.array(column, dtype=dtype), copies)

    program = Program(
        rank=rank_of[:, np.array(template.pipeline)].ravel().astype(np.int32),
        stream=stream_of,
        kind=repeated(template.kind, np.int16),
        part=repeated(template.part, np.int16),
        stage=repeated(template.stage, np.int32),
        layer=repeated(template.layer, np.int32),
        micro_batch=repeated(template.micro_batch, np.int32),
        duration_ps=repeated(template.duration_ps, np.int64),
        bytes=np.tile(_sent(template, exchanges, place_of, site), copies),
        flops=repeated(template.flops, np.float64),
        peer=np.where(peer < 0, -1, rank_of[:, np.maximum(peer, 0)]).ravel().astype(np.int32),
        activity=activity,
        dependency_op=(dependencies[:, 0] + shift).ravel(),
        dependency_on=(dependencies[:, 1] + shift).ravel(),
        activity_transfer=activity_transfer,
        transfers=transfers,
        phases=phases,
        streams=streams,
        links=_links(cluster, folding, slow_links),
        simulated_as=_simulated_as(grid, folding, rank_of),
        memory=_memory(template, rank_of, shift),
        apart=(*reasons, *_slow(cluster, slow_links), *folding.apart) if copies > 1 and folded else (),
    )
    return _varied(program, variability)


def _unlike(grid: Grid, variability: Variability) -> tuple[np.ndarray, list[str]]:
    """A number for copies whose GPUs are as fast, and why there is more than one."""
    copies = np.arange(grid.copies * grid.tensor)
    if variability.jitter:
        return copies, ["every GPU has a noise of its own (variability.jitter)"]
    times = np.ones((len(copies), grid.pipeline))
    slow = {rank: factor for rank, factor in variability.slow_gpus if factor != 1}
    copy, tensor = np.divmod(copies, grid.tensor)
    for pipeline in range(grid.pipeline):
        ranks = grid.rank(pipeline, copy, tensor)
        for rank, factor in slow.items():
            times[ranks == rank, pipeline] = factor
    _, number = np.unique(times, axis=0, return_inverse=True)
    return number.reshape(-1), [f"{len(slow)} slow {'GPU' if len(slow) == 1 else 'GPUs'} (variability.slow_gpus)"] if slow else []


def _slow(cluster: Cluster, slow_links: Mapping[int, float]) -> list[str]:
    return [f"the link {cluster.link(link).name} is slow (variability.slow_links)" for link in slow_links]


def _varied(program: Program, variability: Variability) -> Program:
    """With the times of compute ops as the noise and slow GPUs make them."""
    if not variability.jitter and not variability.slow_gpus:
        return program
    factor = np.ones(program.ops)
    for rank, times in variability.slow_gpus:
        factor[program.rank == rank] *= times
    if variability.jitter:
        key = [program.rank, program.kind, program.part, program.layer, program.micro_batch]
        again = pd.DataFrame(dict(enumerate(key))).groupby(list(range(len(key))), sort=False).cumcount()  # what is recomputed twice
        factor *= noise(variability.seed, variability.jitter, *key, again.to_numpy())
    varied = np.where(program.activity < 0, np.rint(program.duration_ps * factor).astype(np.int64), program.duration_ps)
    return replace(program, duration_ps=varied)


def _simulated_as(grid: Grid, folding: Fold, rank_of: np.ndarray) -> np.ndarray:
    """By rank of the job; ``rank_of[copy, pipeline]`` are those that are simulated."""
    found = np.empty(grid.ranks, dtype=np.int64)
    copy, tensor = np.divmod(np.arange(grid.copies * grid.tensor), grid.tensor)
    for pipeline in range(grid.pipeline):
        found[grid.rank(pipeline, copy, tensor)] = rank_of[folding.stands_for, pipeline]
    return found


def _memory(template: Template, rank_of: np.ndarray, shift: np.ndarray) -> Memory:
    """What each copy holds; ``shift`` leads from ops of the template to those of a copy."""
    pipeline, begin, end, what, size = np.array(template.held, dtype=np.int64).reshape(-1, 5).T
    copies = len(rank_of)
    begin, end = (np.where(op < 0, -1, op + shift).ravel() for op in (begin, end))
    return Memory(rank_of[:, pipeline].ravel(), begin, end, np.tile(what, copies), np.tile(size, copies))


def _activities(
    template: Template, exchanges: list[Exchange], place_of: list[Place], folding: Fold, cluster: Cluster
) -> tuple[np.ndarray, np.ndarray, tuple[Transfer, ...], tuple[Phase, ...]]:
    """The activity of each op, the transfer of each activity, transfers and phases. Copies that share a group share its activities."""
    copies = range(len(folding.copies))
    moves = _Moves(folding, cluster)
    group_of = np.zeros((len(copies), len(exchanges)), dtype=np.int64)
    transfer_of = np.zeros_like(group_of)
    for number, (exchange, place) in enumerate(zip(exchanges, place_of, strict=True)):
        for copy in copies:
            group_of[copy, number] = group = folding.group[place, copy]
            transfer_of[copy, number] = moves.transfer(exchange, group)
    of_activity = np.array(template.activity_exchange, dtype=np.int64)
    # An activity of the job is one of the template in one group; they are numbered in that order.
    keys = np.arange(len(of_activity)) * (int(group_of.max(initial=0)) + 1) + group_of[:, of_activity]
    _, first, number_of = np.unique(keys, return_index=True, return_inverse=True)
    local = np.array(template.activity, dtype=np.int64)
    activity = np.full((len(copies), len(local)), -1, dtype=np.int32)
    activity[:, local >= 0] = number_of.reshape(keys.shape)[:, local[local >= 0]]
    return activity.ravel(), transfer_of[:, of_activity].ravel()[first], tuple(moves.transfers), tuple(moves.phases)


class _Moves:
    """Transfers and phases, each made once: groups by the number that the fold gives them."""

    def __init__(self, folding: Fold, cluster: Cluster) -> None:
        self.folding, self.cluster = folding, cluster
        self.transfers: list[Transfer] = []
        self.phases: list[Phase] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._fixed: dict[int, int] = {}  # phases of a fixed time
        self._alone: dict[int, list[tuple[Pace, Fraction]]] = {}  # by group
        self._volumes: dict[tuple[int, int], Fraction] = {}  # by the share's identity and the payload
        self._capacities = [cluster.link_figures(link)[1] for link in folding.links]

    def transfer(self, exchange: Exchange, group: int) -> int:
        """The number of the transfer of an exchange in a group."""
        # A message over an ideal cluster blocks nobody: it is another transfer than a collective of one.
        key = group, exchange.payload_bytes, exchange.fixed_ps, exchange.collective == "send"
        if key not in self._numbers:
            self._numbers[key] = len(self.transfers)
            self.transfers.append(self._make(exchange, group))
        return self._numbers[key]

    def _make(self, exchange: Exchange, group: int) -> Transfer:
        label = group_label(self.folding.members[group])
        if exchange.fixed_ps is not None:
            if exchange.fixed_ps not in self._fixed:
                self._fixed[exchange.fixed_ps] = self._add(Phase(exchange.fixed_ps))
            return Transfer(label, (self._fixed[exchange.fixed_ps],))
        laid = self.folding.phases[group]
        if group not in self._alone:
            loads = [[(use.share, self._capacities[use.link]) for use in one.uses] for one in laid]
            self._alone[group] = [(one.pace, one.occupancy * slowest_link(mine)) for one, mine in zip(laid, loads, strict=True)]
        protocol = fastest(self.cluster.protocols, time_ps(self._alone[group], exchange.payload_bytes))
        latencies = [one.pace.latency_ps(protocol) + (0 if position else protocol.base_ps) for position, one in enumerate(laid)]
        if self.cluster.ideal and exchange.collective == "send":
            return Transfer(label, (), delay_ps=sum(latencies))
        return Transfer(label, tuple(self._phase(one, latency, protocol, exchange) for one, latency in zip(laid, latencies, strict=True)))

    def _phase(self, one: PhaseUse, latency_ps: int, protocol: Protocol, exchange: Exchange) -> int:
        held = one.occupancy * protocol.wire  # what a protocol sends beside the payload only holds the link
        volumes = [self._volume(use.share, exchange.payload_bytes) for use in one.uses]
        loads = (Load(use.link, volume, use.groups, held, use.part) for use, volume in zip(one.uses, volumes, strict=True))
        return self._add(Phase(latency_ps, tuple(loads)))

    def _add(self, phase: Phase) -> int:
        self.phases.append(phase)
        return len(self.phases) - 1

    def _volume(self, share: Fraction, payload_bytes: int) -> Fraction:
        key = id(share), payload_bytes
        if key not in self._volumes:
            self._volumes[key] = share * payload_bytes
        return self._volumes[key]


def group_label(group: tuple[int, ...]) -> str:
    """``0-7``, ``0-120/8`` with a step, or a list.

    >>> group_label((0, 8, 16)), group_label((3, 4)), group_label((0, 1, 5))
    ('0-16/8', '3-4', '0,1,5')
    """
    step = group[1] - group[0] if len(group) > 1 else 1
    if step > 0 and group == tuple(range(group[0], group[-1] + 1, step)):
        return f"{group[0]}-{group[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, group))


def _links(cluster: Cluster, folding: Fold, slow_links: Mapping[int, float]) -> Links:
    links = [cluster.link(link) for link in folding.links]
    return Links(
        names=tuple(link.name for link in links),
        kinds=tuple(link.kind for link in links),
        capacities_bytes_s=tuple(
            max(1, round(link.capacity_bytes_s * slow_links.get(number, 1))) for number, link in zip(folding.links, links, strict=True)
        ),
        multiplicity=folding.link_multiplicity,
    )


def _place(exchange: Exchange, site: Site, algorithm: str) -> Place:
    place = Place(exchange.dimension, exchange.pipeline, exchange.to, exchange.collective, algorithm)
    if algorithm != "auto" or exchange.collective in ("send", *HOST_OPS):
        return place
    chosen = {
        shape: fastest_algorithm(site.cluster, group, exchange.collective, exchange.payload_bytes)
        for shape, (group, _) in site.shapes(place).items()
    }
    return place._replace(chosen=tuple(chosen.items()))


def _sent(template: Template, exchanges: list[Exchange], place_of: list[Place], site: Site) -> np.ndarray:
    """Bytes each op's own rank sends, mean over the ranks of all its groups; a receive carries the size of its message."""
    sizes: list[Fraction] = []
    for exchange, place in zip(exchanges, place_of, strict=True):
        if place.op in HOST_OPS:
            sizes.append(Fraction(exchange.payload_bytes))
        elif place.op == "send":
            sizes.append(sent_share("send", place.algorithm, flat(2)) * exchange.payload_bytes)
        else:
            shares = [
                (_sent_share(place, shape, lay_out(site.cluster, group)), count)
                for shape, (group, count) in site.shapes(place).items()
            ]
            mean = Fraction(sum(share * count for share, count in shares)) / sum(count for _, count in shares)
            sizes.append(mean * exchange.payload_bytes)
    by_exchange = np.array([*map(round, sizes), 0], dtype=np.int64)
    activity = np.array(template.activity, dtype=np.int64)
    return by_exchange[np.array([*template.activity_exchange, len(exchanges)], dtype=np.int64)[activity]]


def _sent_share(place: Place, shape: Shape, layout: Layout) -> Fraction:
    return sent_share(place.op, able(place.op, place.algorithm_for(shape), layout), layout)


def _streams(template: Template, rank_of: np.ndarray) -> tuple[tuple[Stream, ...], np.ndarray]:
    """The streams by rank and name, and the stream of each op."""
    ops = len(template.kind)
    streams = []
    for copy, ranks in enumerate(rank_of.tolist()):
        for (pipeline, name, peer), members in template.streams.items():
            full_name = f"{name}:{ranks[peer]}" if peer >= 0 else name
            numbers = np.array(members, dtype=np.int64) + copy * ops
            streams.append(Stream(ranks[pipeline], full_name, name not in _READINESS_ORDERED, numbers))
    streams.sort(key=lambda stream: (stream.rank, stream.name))
    stream_of = np.zeros(ops * len(rank_of), dtype=np.int32)
    for position, stream in enumerate(streams):
        stream_of[stream.ops] = position
    return tuple(streams), stream_of
