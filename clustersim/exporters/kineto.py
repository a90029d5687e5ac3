"""The PyTorch profiler's format, a file a rank, that HolisticTraceAnalysis and :func:`~clustersim.importers.kineto.load_kineto` read.

Every op is an event of the GPU. What communicates is a kernel that is named as NCCL's are and has their arguments; a transfer to or
from the host too, since it counts as communication here. Times are microseconds with three decimals; HolisticTraceAnalysis rounds them to
whole ones unless HTA_DISABLE_NS_ROUNDING=1. A kernel lasts as long as its transfer: the wait before is in ``wait_ps``, with the other
columns of the op, from which :mod:`clustersim.importers.exported` reads the ops back. Several steps are a ProfilerStep each, as
:func:`~clustersim.analysis.answer_window.run_window` divides them, with the launch of every op when it starts: readers know by it
whose step an op is. A single step has no host events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from clustersim.analysis.answer_window import run_window
from clustersim.exporters.columns import Needs, arguments, needs, rests
from clustersim.exporters.files import Export, Part, Size, estimate, spans
from clustersim.exporters.json_text import about, document, lines, microseconds, nanoseconds
from clustersim.exporters.selection import by_start, group_ranks
from clustersim.exporters.threads import Thread, threads
from clustersim.exporters.transfers import COPY, HOST, POINT_TO_POINT, collectives
from clustersim.trace.files import RunData, job_ranks_of, steps_of

_BEFORE = 6  # PyTorch's compute stream is 7
_KERNEL = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast",
    "all_to_all": "SendRecv", "communication": "Communication",
}  # fmt: skip
_CALLED = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_to_all": "all_to_all"}


_HOST_THREAD, _SOME_RANKS = 1, 4


@dataclass(frozen=True)
class _Facts:
    """What all files share: the head, ranks of the job where known, by kind the collective that it is, the threads, what ops wait for,
    begin and end of each of several steps.
    """

    head: str
    world: int | None
    known: dict[str, str]
    names: dict[int, Thread]
    before: Needs
    steps_ns: tuple[tuple[int, int], ...]


def export(run: RunData) -> Export:
    """``rankN.json.gz`` for each rank. The ranks of the job, where known, let readers tell which are not here."""
    ops = by_start(run.trace.ops)
    tid, names = threads(ops)
    rank = ops["rank"].to_numpy()
    ops["tid"] = tid + _BEFORE
    steps_ns = _steps_ns(ops, steps_of(run.manifest))
    facts = _Facts(about(run, "ranks"), job_ranks_of(run.summary), collectives(ops), names, needs(run.trace.dependencies), steps_ns)
    parts = []
    for one in np.unique(rank).tolist():
        begin, end = np.searchsorted(rank, [one, one + 1]).tolist()
        parts.append(Part(f"rank{one}.json.gz", partial(_file, one, ops[begin:end], facts)))
    return Export(tuple(parts), _size(ops, facts))


def _size(ops: pd.DataFrame, facts: _Facts) -> Size:
    """From the files of some ranks, since each is packed by itself."""
    of_rank = ops.groupby("rank")
    some = list(of_rank.groups)[:: max(1, len(of_rank.groups) // _SOME_RANKS)]
    known, rows = Size(), 0
    for rank in some:
        mine = of_rank.get_group(rank)
        rows += len(mine)
        known += _size_of(rank, mine, facts)
    return Size(known.text_bytes * len(ops) // rows, known.written_bytes * len(ops) // rows)


def _size_of(rank: int, ops: pd.DataFrame, facts: _Facts) -> Size:
    head = estimate(1, lambda _: b"".join(_file(rank, ops[:0], facts)), packed=True)
    return head + estimate(len(ops), lambda part: _events(ops[part], facts), packed=True)


def _steps_ns(ops: pd.DataFrame, steps: int) -> tuple[tuple[int, int], ...]:
    """Begin and end of each of several steps, none of a single one."""
    windows = [run_window(ops, steps, step=step)[0] for step in range(steps)] if steps > 1 else []
    edges_ps = np.array([window for window in windows if window is not None], dtype=np.int64).reshape(-1, 2)
    return tuple((begin, end) for begin, end in nanoseconds(edges_ps).tolist())


def _file(rank: int, ops: pd.DataFrame, facts: _Facts) -> Iterator[bytes]:
    group = {"backend": "nccl", "rank": rank} | ({} if facts.world is None else {"world_size": facts.world})
    whole = f'{facts.head}, "schemaVersion": 1, "distributedInfo": {json.dumps(group)}, "displayTimeUnit": "ms"'
    return document(whole, _pieces(rank, ops, facts))


def _pieces(rank: int, ops: pd.DataFrame, facts: _Facts) -> Iterator[bytes]:
    used = {tid: facts.names[tid - _BEFORE] for tid in sorted(set(ops["tid"].tolist()))}
    labels = {tid: json.dumps({"name": f"stream {thread.name}", "stream": thread.stream}) for tid, thread in used.items()}
    yield lines(f'{{"ph": "M", "name": "thread_name", "pid": {rank}, "tid": {tid}, "args": {label}}}' for tid, label in labels.items())
    yield lines(
        f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": {rank}, "tid": {_HOST_THREAD},'
        f' "ts": {microseconds(begin)}, "dur": {microseconds(end - begin)}}}'
        for step, (begin, end) in enumerate(facts.steps_ns)
    )
    yield from (_events(ops.iloc[rows], facts) for rows in spans(len(ops)))


def _events(ops: pd.DataFrame, facts: _Facts) -> bytes:
    begins, ends = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy()
    start, end = nanoseconds(begins), nanoseconds(ends)
    names: dict[tuple[str, str], tuple[str, str]] = {}
    groups = {str(label): _group(str(label)) for label in ops["group"].cat.categories}
    columns = (ops[name].tolist() for name in ("tid", "rank", "op", "kind", "name", "bytes", "group", "peer"))
    texts = rests(begins, ends), arguments(ops, facts.before)
    found = []
    for begin, span, rest, own, tid, rank, op, kind, name, size, group, peer in zip(
        start.tolist(), (end - start).tolist(), *texts, *columns, strict=True
    ):
        if (kind, name) not in names:
            called = _name(kind, name, facts.known)
            names[kind, name] = json.dumps(called), "" if called == name else f', "name": {json.dumps(name)}'
        (shown, original), nccl = names[kind, name], _arguments(kind, facts.known, rank, int(size), peer, groups[group])
        category = "gpu_memcpy" if kind == COPY else "kernel"
        if facts.steps_ns:
            found.append(
                f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {rank}, "tid": {_HOST_THREAD},'
                f' "ts": {microseconds(begin)}, "dur": 0, "args": {{"correlation": {op}}}}}'
            )
        found.append(
            f'{{"ph": "X", "cat": "{category}", "name": {shown}, "pid": {rank}, "tid": {tid}, "ts": {microseconds(begin)},'
            f' "dur": {microseconds(span)}{rest},'
                f' "args": {{"device": {rank}, "stream": {tid}, "correlation": {op}{nccl}, {own}{original}}}}}'
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
