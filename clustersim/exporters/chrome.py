"""Chrome's trace format, for Perfetto: a process for each rank, a thread for each stream, arrows from sends to receives, counters.

Format: "Trace Event Format", Google, 2016. Times are microseconds with three decimals, from the beginning of the run. The picoseconds
that these do not hold are in ``rest_ps`` of an event, the other columns of an op in its ``args``, what the run folder says beside its
trace in ``clustersim`` at the head of the file: :mod:`clustersim.importers.exported` reads the same trace back. Viewers ignore what they
do not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd

from clustersim.exporters.columns import Needs, arguments, needs, rests
from clustersim.exporters.files import Export, Part, estimate, spans
from clustersim.exporters.json_text import about, document, lines, microseconds, nanoseconds, texts
from clustersim.exporters.selection import by_start, messages
from clustersim.exporters.threads import Thread, threads
from clustersim.trace.files import RunData

MEMORY = "memory: "
"""How the counters of memory are called, before what is held."""


def export(run: RunData, name: str = "trace.json.gz") -> Export:
    """One file, of a trace as :func:`~clustersim.exporters.selection.complete` gives it."""
    trace = run.trace
    ops, before = by_start(trace.ops), needs(trace.dependencies)
    tid, names = threads(ops)
    arrows, packed = _arrows(ops), name.endswith(".gz")
    memory, links = _levels(trace.memory), _rates(trace.links)
    links_process = int(ops["rank"].max()) + 1

    named = lines(_named(ops, tid, names, links_process if len(links) else None))

    def events() -> Iterator[bytes]:
        yield named
        yield from (_slices(ops, tid, before, rows) for rows in spans(len(ops)))
        yield from (_flows(ops, tid, arrows, rows) for rows in spans(len(arrows)))
        yield from (_memory(memory, rows) for rows in spans(len(memory)))
        yield from (_links(links, links_process, rows) for rows in spans(len(links)))

    sizes = (
        estimate(len(ops), lambda rows: _slices(ops, tid, before, rows), packed),
        estimate(len(arrows), lambda rows: _flows(ops, tid, arrows, rows), packed),
        estimate(len(memory), lambda rows: _memory(memory, rows), packed),
        estimate(len(links), lambda rows: _links(links, links_process, rows), packed),
    )
    head = f'{about(run, "ranks", "link_totals")}, "displayTimeUnit": "ms"'
    headed = estimate(1, lambda rows: head.encode() + named, packed)
    return Export((Part(name, lambda: document(head, events())),), sum(sizes, headed))


def _named(ops: pd.DataFrame, tid: np.ndarray, names: dict[int, Thread], links_process: int | None) -> Iterator[str]:
    """Names and order of processes and threads."""
    pairs = np.unique(np.stack([ops["rank"].to_numpy().astype(np.int64), tid], axis=1), axis=0).tolist()
    for rank in dict.fromkeys(rank for rank, _ in pairs):
        yield _meta("process_name", rank, 0, name=f"rank {rank}")
        yield _meta("process_sort_index", rank, 0, sort_index=rank)
    for rank, thread in pairs:
        yield _meta("thread_name", rank, thread, name=names[thread].name, stream=names[thread].stream)
        yield _meta("thread_sort_index", rank, thread, sort_index=thread)
    if links_process is not None:
        yield _meta("process_name", links_process, 0, name="links")
        yield _meta("process_sort_index", links_process, 0, sort_index=links_process)


def _meta(what: str, pid: int, tid: int, **args: object) -> str:
    return f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{json.dumps(args)}}}'


def _slices(ops: pd.DataFrame, tid: np.ndarray, before: Needs, rows: slice) -> bytes:
    table = ops.iloc[rows]
    begins, ends = table["start_ps"].to_numpy(), table["end_ps"].to_numpy()
    start, end = nanoseconds(begins), nanoseconds(ends)
    places = table["rank"].tolist(), tid[rows].tolist(), start.tolist(), (end - start).tolist(), rests(begins, ends)
    words = texts(table["name"]), texts(table["kind"]), arguments(table, before)
    return lines(
        f'{{"ph":"X","pid":{rank},"tid":{thread},"ts":{microseconds(begin)},"dur":{microseconds(span)}{rest},"name":{name},"cat":{kind},'
        f'"args":{{{more}}}}}'
        for rank, thread, begin, span, rest, name, kind, more in zip(*places, *words, strict=True)
    )


def _arrows(ops: pd.DataFrame) -> np.ndarray:
    """Rows of sends and of their receives, two columns: the n-th of each pair of ranks, where both are all here."""
    both = messages(ops)
    pair = ["source", "target"]
    sends, receives = both[both["kind"] == "send"], both[both["kind"] == "recv"]
    counts = pd.concat([sends.groupby(pair).size(), receives.groupby(pair).size()], axis=1, join="inner")
    whole = counts.index[counts[0] == counts[1]]
    sends = sends[pd.MultiIndex.from_frame(sends[pair]).isin(whole)]
    joined = sends.merge(receives, on=[*pair, "number"])
    return joined[["row_x", "row_y"]].to_numpy(dtype=np.int64).reshape(-1, 2)


def _flows(ops: pd.DataFrame, tid: np.ndarray, arrows: np.ndarray, rows: slice) -> bytes:
    rank, start = ops["rank"].to_numpy(), nanoseconds(ops["start_ps"].to_numpy())
    found = []
    for number, pair in enumerate(arrows[rows].tolist(), rows.start + 1):
        for row, phase in zip(pair, ('"s"', '"f","bp":"e"'), strict=True):
            place = f'"pid":{rank[row]},"tid":{tid[row]},"ts":{microseconds(int(start[row]))}'
            found.append(f'{{"ph":{phase},"id":{number},"name":"message","cat":"pipeline",{place}}}')
    return lines(found)


def _levels(memory: pd.DataFrame) -> pd.DataFrame:
    """The bytes held after each instant at which they change."""
    table = memory.sort_values(["rank", "time_ps"], kind="stable")
    table = table.assign(level=table.groupby(["rank", "what"], observed=True)["bytes"].cumsum())
    return table.drop_duplicates(["rank", "time_ps", "what"], keep="last").reset_index(drop=True)


def _memory(table: pd.DataFrame, rows: slice) -> bytes:
    part = table.iloc[rows]
    exact = part["time_ps"].to_numpy()
    times = zip(nanoseconds(exact).tolist(), rests(exact), strict=True)
    known = {str(name): json.dumps(f"{MEMORY}{name}") for name in part["what"].cat.categories}
    return lines(
        f'{{"ph":"C","pid":{rank},"ts":{microseconds(time)}{rest},"name":{known[str(what)]},"args":{{"bytes":{level}}}}}'
        for rank, (time, rest), what, level in zip(part["rank"].tolist(), times, part["what"], part["level"].tolist(), strict=True)
    )


def _rates(links: pd.DataFrame) -> pd.DataFrame:
    """Link, time_ps, rate: at the start of each use its rate, at its end 0 unless another begins then."""
    links = links[links["start_ps"] < links["end_ps"]]
    ends = links[["link", "end_ps"]].rename(columns={"end_ps": "time_ps"}).assign(rate=0.0)
    starts = links[["link", "start_ps", "rate_bytes_s"]].rename(columns={"start_ps": "time_ps", "rate_bytes_s": "rate"})
    table = pd.concat([ends, starts], ignore_index=True).sort_values(["link", "time_ps"], kind="stable")
    return table.drop_duplicates(["link", "time_ps"], keep="last").reset_index(drop=True)


def _links(table: pd.DataFrame, pid: int, rows: slice) -> bytes:
    part = table.iloc[rows]
    exact = part["time_ps"].to_numpy(dtype=np.int64)
    columns = texts(part["link"]), nanoseconds(exact).tolist(), rests(exact), part["rate"].tolist()
    return lines(
        f'{{"ph":"C","pid":{pid},"ts":{microseconds(time)}{rest},"name":{link},"args":{{"bytes_s":{rate!r}}}}}'
        for link, time, rest, rate in zip(*columns, strict=True)
    )
