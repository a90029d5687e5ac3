"""The PyTorch profiler's format, a file a rank, that HolisticTraceAnalysis and :func:`~clustersim.importers.kineto.load_kineto` read.

Every op is an event of the GPU. What communicates is a kernel that is named as NCCL's are and has their arguments; a transfer to or
from the host too, since it counts as communication here. Times are microseconds with three decimals; HolisticTraceAnalysis rounds them to
whole ones unless HTA_DISABLE_NS_ROUNDING=1. There are no host events and no ProfilerStep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd

from clustersim.exporters.files import Export, Part, estimate, spans
from clustersim.exporters.json_text import document, lines, microseconds, nanoseconds
from clustersim.exporters.selection import by_start, group_ranks
from clustersim.exporters.threads import threads
from clustersim.exporters.transfers import COPY, HOST, POINT_TO_POINT, collectives
from clustersim.trace.trace import Trace

_BEFORE = 6  # PyTorch's compute stream is 7
_KERNEL = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast",
    "all_to_all": "SendRecv", "communication": "Communication",
}  # fmt: skip
_CALLED = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_to_all": "all_to_all"}


def export(trace: Trace, world: int | None = None) -> Export:
    """``rankN.json.gz`` for each rank. ``world``: ranks of the job, where known, so that readers can tell which are not here."""
    ops = by_start(trace.ops)
    known = collectives(ops)
    (tid, names), rank = threads(ops), ops["rank"].to_numpy()
    ops["tid"] = tid + _BEFORE
    parts = []
    for one in np.unique(rank).tolist():
        begin, end = np.searchsorted(rank, [one, one + 1]).tolist()
        parts.append(Part(f"rank{one}.json.gz", lambda one=one, mine=ops[begin:end]: _file(one, mine, names, known, world)))
    return Export(tuple(parts), estimate(len(ops), lambda rows: _events(ops.iloc[rows], known), packed=True))


def _file(rank: int, ops: pd.DataFrame, names: dict[int, str], known: dict[str, str], world: int | None) -> Iterator[bytes]:
    about = {"backend": "nccl", "rank": rank} | ({} if world is None else {"world_size": world})
    head = f'"schemaVersion": 1, "distributedInfo": {json.dumps(about)}, "displayTimeUnit": "ms"'
    return document(head, _pieces(rank, ops, names, known))


def _pieces(rank: int, ops: pd.DataFrame, names: dict[int, str], known: dict[str, str]) -> Iterator[bytes]:
    labels = {tid: json.dumps(f"stream {names[tid - _BEFORE]}") for tid in sorted(set(ops["tid"].tolist()))}
    yield lines(
        f'{{"ph": "M", "name": "thread_name", "pid": {rank}, "tid": {tid}, "args": {{"name": {label}}}}}' for tid, label in labels.items()
    )
    yield from (_events(ops.iloc[rows], known) for rows in spans(len(ops)))


def _events(ops: pd.DataFrame, known: dict[str, str]) -> bytes:
    start, end = nanoseconds(ops["start_ps"].to_numpy()), nanoseconds(ops["end_ps"].to_numpy())
    names: dict[tuple[str, str], str] = {}
    groups = {str(label): _group(str(label)) for label in ops["group"].cat.categories}
    columns = (ops[name].tolist() for name in ("tid", "rank", "op", "kind", "name", "bytes", "group", "peer"))
    found = []
    for begin, span, tid, rank, op, kind, name, size, group, peer in zip(start.tolist(), (end - start).tolist(), *columns, strict=True):
        if (kind, name) not in names:
            names[kind, name] = json.dumps(_name(kind, name, known))
        category = "gpu_memcpy" if kind == COPY else "kernel"
        more = _arguments(kind, known, rank, int(size), peer, groups[group])
        found.append(
            f'{{"ph": "X", "cat": "{category}", "name": {names[kind, name]}, "pid": {rank}, "tid": {tid}, "ts": {microseconds(begin)},'
            f' "dur": {microseconds(span)}, "args": {{"device": {rank}, "stream": {tid}, "correlation": {op}{more}}}}}'
        )
    return lines(found)


def _name(kind: str, name: str, known: dict[str, str]) -> str:
    """
    >>> _name("reduce", "reduce layer 7", {"reduce": "all_reduce"}), _name("forward", "0F1", {}), _name("send", "send stage 0", {})
    ('ncclDevKernel_AllReduce(reduce layer 7)', '0F1', 'ncclDevKernel_SendRecv(send stage 0)')
    """
    if kind in known:
        return f"ncclDevKernel_{_KERNEL[known[kind]]}({name})"
    return f"ncclDevKernel_SendRecv({name})" if kind in (*POINT_TO_POINT, *HOST) else name


def _group(label: str) -> tuple[int, str]:
    """Ranks in the group, and its arguments, each beginning with a comma."""
    ranks = group_ranks(label)
    text = f', "Process Group Name": {json.dumps(label)}' if label else ""
    return len(ranks), text + (f', "Group size": {len(ranks)}, "Process Group Ranks": "{list(ranks)}"' if ranks else "")


def _arguments(kind: str, known: dict[str, str], rank: int, size: int, peer: int, group: tuple[int, str]) -> str:
    """NCCL's arguments as PyTorch writes them: bytes go in and out, of an all-gather a share in, of a reduce-scatter a share out."""
    if kind == COPY:
        return f', "bytes": {size}'
    if kind in HOST:  # nobody else takes part
        called, group = kind, (1, f', "Process Group Name": "host of {rank}", "Group size": 1, "Process Group Ranks": "[{rank}]"')
    elif kind in POINT_TO_POINT:
        source, target = (rank, peer) if kind == "send" else (peer, rank)
        called, group = kind, (group[0], group[1] + (f', "Src Rank": {source}, "Dst Rank": {target}' if peer >= 0 else ""))
    elif kind in known:
        called = _CALLED.get(known[kind], known[kind])
    else:
        return ""
    share = size // max(group[0], 1)
    sent, received = share if called == "_allgather_base" else size, share if called == "_reduce_scatter_base" else size
    return f', "Collective name": "{called}", "In msg nelems": {sent}, "Out msg nelems": {received}, "dtype": "Byte"{group[1]}'
