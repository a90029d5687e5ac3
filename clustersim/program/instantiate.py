"""Tie a template to ranks and links: one copy per simulated replica and tensor rank, collectives over their groups.

Where all replicas are plainly identical (every group of a kind has the same latency and the same slowest link), one copy is
simulated for all; each rank of it stands for ``data x tensor`` ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from clustersim.cluster.spec import Cluster
from clustersim.program import collectives
from clustersim.program.grid import Grid
from clustersim.program.program import Links, Program, Stream, Transfer
from clustersim.program.template import Exchange, Template

_READINESS_ORDERED = ("data",)


def instantiate(template: Template, grid: Grid, cluster: Cluster, fold: bool = True) -> Program:
    """The program of the whole job; one copy of the template when ``fold`` and the replicas are identical."""
    folded = fold and grid.data * grid.tensor > 1 and _identical(template, grid, cluster)
    copies = [(0, 0)] if folded else [(d, t) for d in range(grid.data) for t in range(grid.tensor)]
    ops = len(template.kind)
    pipeline = np.array(template.pipeline)
    rank_of = np.array([[grid.rank(p, d, t) for p in range(grid.pipeline)] for d, t in copies])
    activity, activity_transfer, transfers, links = _activities(template, grid, cluster, copies)
    streams, stream_of = _streams(template, grid, copies, rank_of)
    peer = np.array(template.peer)
    dependencies = np.array(template.dependencies, dtype=np.int64).reshape(-1, 2)
    shift = (np.arange(len(copies)) * ops)[:, None]

    def repeated(column: list, dtype: type) -> np.ndarray:
        return np.tile(np.array(column, dtype=dtype), len(copies))

    return Program(
        rank=rank_of[:, pipeline].ravel(),
        stream=stream_of,
        kind=repeated(template.kind, np.int16),
        part=repeated(template.part, np.int16),
        stage=repeated(template.stage, np.int32),
        layer=repeated(template.layer, np.int32),
        micro_batch=repeated(template.micro_batch, np.int32),
        duration_ps=repeated(template.duration_ps, np.int64),
        bytes=np.tile(_sent(template, grid), len(copies)),
        flops=repeated(template.flops, np.float64),
        peer=np.where(peer < 0, -1, rank_of[:, np.maximum(peer, 0)]).ravel(),
        activity=activity,
        dependency_op=(dependencies[:, 0] + shift).ravel(),
        dependency_on=(dependencies[:, 1] + shift).ravel(),
        activity_transfer=activity_transfer,
        transfers=transfers,
        streams=streams,
        links=links,
        multiplicity=grid.data * grid.tensor if folded else 1,
    )


def _members(exchange: Exchange, grid: Grid) -> int:
    return {"tensor": grid.tensor, "data": grid.data, "pipeline": 2}[exchange.dimension]


def _groups(exchange: Exchange, grid: Grid) -> Iterator[tuple[int, ...]]:
    """The groups that do this exchange, in the order of :func:`_group_index`."""
    if exchange.dimension == "tensor":
        yield from (grid.tensor_group(exchange.pipeline, d) for d in range(grid.data))
    elif exchange.dimension == "data":
        yield from (grid.data_group(exchange.pipeline, t) for t in range(grid.tensor))
    else:
        for d in range(grid.data):
            for t in range(grid.tensor):
                yield grid.rank(exchange.pipeline, d, t), grid.rank(exchange.to, d, t)


def _group_index(exchange: Exchange, grid: Grid, copy: tuple[int, int]) -> int:
    d, t = copy
    return {"tensor": d, "data": t, "pipeline": d * grid.tensor + t}[exchange.dimension]


def _identical(template: Template, grid: Grid, cluster: Cluster) -> bool:
    for place in {(e.dimension, e.pipeline, e.to): e for e in template.exchanges if e.fixed_ps is None}.values():
        ring = place.dimension != "pipeline"
        if len({collectives.path(cluster, group, ring).figures for group in _groups(place, grid)}) > 1:
            return False
    return True


def _activities(
    template: Template, grid: Grid, cluster: Cluster, copies: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, tuple[Transfer, ...], Links]:
    """The activity of each op, the transfer of each activity, the transfers, and the links they name.

    Copies that share a group share its activities.
    """
    exchanges = list(template.exchanges)
    used: dict[int, int] = {}  # link of the cluster -> position among those in use
    transfers: dict[Transfer, int] = {}
    group_of_copy = np.array([[_group_index(e, grid, copy) for e in exchanges] for copy in copies]).reshape(len(copies), -1)
    transfer_of = np.zeros_like(group_of_copy)  # copy, exchange -> transfer
    paths: dict[tuple[int, ...], collectives.Path] = {}
    for number, exchange in enumerate(exchanges):
        groups = list(_groups(exchange, grid))
        for index in np.unique(group_of_copy[:, number]):
            group = groups[index]
            ring = exchange.dimension != "pipeline"
            if (*group, ring) not in paths:
                paths[*group, ring] = collectives.path(cluster, group, ring)
            simulated = [grid_position(exchange, copy) for copy in copies if _group_index(exchange, grid, copy) == index]
            transfer = _transfer(exchange, group, paths[*group, ring], simulated, used, cluster.ideal)
            position = transfers.setdefault(transfer, len(transfers))
            transfer_of[group_of_copy[:, number] == index, number] = position
    by_activity = np.array(template.activity_exchange, dtype=np.int64)
    local = np.array(template.activity, dtype=np.int64)
    # Number the activities exchange group by exchange group: (activity of the template, group) pairs, in order of appearance.
    group_of_activity = group_of_copy[:, by_activity] if len(exchanges) else np.zeros((len(copies), 0), dtype=np.int64)
    most_groups = int(group_of_activity.max(initial=0)) + 1
    keys = np.arange(len(by_activity)) * most_groups + group_of_activity
    unique, first, number_of = np.unique(keys, return_index=True, return_inverse=True)
    number_of = number_of.reshape(keys.shape)
    activity_transfer = transfer_of[:, by_activity].ravel()[first] if len(unique) else np.zeros(0, dtype=np.int64)
    activity = np.full((len(copies), len(local)), -1, dtype=np.int64)
    communicates = local >= 0
    activity[:, communicates] = number_of[:, local[communicates]]
    return activity.ravel(), activity_transfer, tuple(transfers), _links(cluster, used)


def grid_position(exchange: Exchange, copy: tuple[int, int]) -> int:
    """Where a copy stands in the groups of an exchange: the hop that starts there is its own."""
    return {"tensor": copy[1], "data": copy[0], "pipeline": 0}[exchange.dimension]


def _transfer(
    exchange: Exchange, group: tuple[int, ...], path: collectives.Path, simulated: list[int], used: dict[int, int], ideal: bool
) -> Transfer:
    label = group_label(group)
    if exchange.fixed_ps is not None:
        return Transfer(label, 0, exchange.fixed_ps)
    volume = collectives.sent_bytes(exchange.collective, len(group), exchange.payload_bytes)
    uses = Counter(link for position in simulated for link in path.hops[position])
    loads = tuple((used.setdefault(link, len(used)), count * volume) for link, count in uses.items())
    latency = collectives.steps(exchange.collective, len(group)) * path.hop_latency_ps
    least = collectives.bytes_time_ps(volume, path.slowest)
    if ideal and exchange.dimension == "pipeline":
        return Transfer(label, 0, least, loads, delay_ps=latency)
    return Transfer(label, latency, least, loads)


def group_label(group: tuple[int, ...]) -> str:
    """``0-7``, ``0-120/8`` with a step, or a list.

    >>> group_label((0, 8, 16)), group_label((3, 4)), group_label((0, 1, 5))
    ('0-16/8', '3-4', '0,1,5')
    """
    step = group[1] - group[0] if len(group) > 1 else 1
    if step > 0 and group == tuple(range(group[0], group[-1] + 1, step)):
        return f"{group[0]}-{group[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, group))


def _links(cluster: Cluster, used: dict[int, int]) -> Links:
    links = [cluster.link(link) for link in used]
    return Links(
        tuple(link.name for link in links), tuple(link.kind for link in links), tuple(link.capacity_bytes_s for link in links)
    )


def _sent(template: Template, grid: Grid) -> np.ndarray:
    """Bytes each op's own rank sends; a receive sends nothing but carries the size of its message."""
    by_exchange = np.array(
        [round(collectives.sent_bytes(e.collective, _members(e, grid), e.payload_bytes)) for e in template.exchanges] or [0],
        dtype=np.int64,
    )
    activity = np.array(template.activity, dtype=np.int64)
    exchange = np.array([*template.activity_exchange, 0], dtype=np.int64)[activity]
    return np.where(activity >= 0, by_exchange[exchange], 0)


def _streams(
    template: Template, grid: Grid, copies: list[tuple[int, int]], rank_of: np.ndarray
) -> tuple[tuple[Stream, ...], np.ndarray]:
    ops = len(template.kind)
    streams = []
    stream_of = np.zeros(ops * len(copies), dtype=np.int64)
    for copy in range(len(copies)):
        for (pipeline, name, peer), members in template.streams.items():
            full_name = f"{name}:{rank_of[copy, peer]}" if peer >= 0 else name
            numbers = np.array(members, dtype=np.int64) + copy * ops
            streams.append(Stream(int(rank_of[copy, pipeline]), full_name, name not in _READINESS_ORDERED, tuple(numbers.tolist())))
    streams.sort(key=lambda stream: (stream.rank, stream.name))
    for position, stream in enumerate(streams):
        stream_of[list(stream.ops)] = position
    return tuple(streams), stream_of
