"""Figures of a profiler trace in the words of HolisticTraceAnalysis (HTA): exact, or as its version 0.6.1 defines and rounds them.

:func:`exact_times` is ours, with HTA's names for the parts: interval unions over all streams of a rank, in integer picoseconds.
:func:`hta_times` gives HTA's numbers. They differ in five ways:

* HTA takes every event with an integer ``args.stream`` other than -1 for GPU work, whatever its category: ``cuda_sync`` and Triton's
  ``cpu_op`` become compute. Ours: categories ``kernel``, ``gpu_memcpy``, ``gpu_memset``, and nothing else.
* HTA calls a kernel communication when its name begins with ``nccl``, ``hip`` or ``hccl`` or contains ``ncclKernel``. Ours goes by the
  NCCL arguments first, then by names that contain a communication library's (DeepEP, NVSHMEM, ... which are compute to HTA).
* Where times have fractions, HTA rounds starts up and ends down to whole microseconds: work is lost at every kernel's ends, and a
  kernel inside one microsecond counts less than nothing. Ours keeps nanoseconds.
* With two or more ProfilerStep names HTA keeps only what was launched, by correlation, before the last of them began; what has no
  launch in the file vanishes. ``last_step=True`` keeps what was launched before the last ended. Ours has the window as a choice.
* HTA's percentages are rounded to two decimals, and not a number where there is nothing to divide by. Ours are None there.

Both count a rank's idle time from its first device event to the end of its last, as HTA does: what a rank waits at the ends of a
step is not in it. :func:`clustersim.analysis.ranks.rank_times` has one window for all ranks.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import intersection, length, union
from clustersim.analysis.profiled_steps import launched
from clustersim.importers.kineto import Imported
from clustersim.importers.kineto_events import NEVER, FileEvents
from clustersim.importers.kineto_kinds import COPY, KERNEL

_COMMUNICATION = re.compile(r"^nccl|^hip|^hccl|ncclKernel")
_MEMORY = re.compile(r"^Memcpy|^Memset|^dma")


def exact_times(imported: Imported, window: str = "file") -> pd.DataFrame:
    """A row per rank (and step): n, span_ps, busy_ps, idle_ps, compute_ps, communication_ps, memory_ps, overlap_ps, exposed_ps,
    non_compute_ps, and in percent idle_pct, compute_pct, non_compute_pct, overlap_pct_of_comm, overlap_pct_of_compute.

    The window is the whole ``file``; or ``hta``, what HTA keeps by default; or ``steps``, for each ProfilerStep of the host what was
    launched in it (column ``step``). Busy is any device event, memory the copies, non-compute what is busy without compute.
    """
    ops = imported.trace.ops
    rank = ops["rank"].to_numpy()
    columns = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy(), _parts(ops["kind"])
    rows = []
    for number, one in imported.files.items():
        mine = slice(*np.searchsorted(rank, [number, number + 1]))  # ops are sorted by rank
        if window == "steps":
            steps = imported.steps[imported.steps["rank"] == number]
            for name, begin, end in zip(steps["name"], steps["start_ps"], steps["end_ps"], strict=True):
                inside = launched(imported, number, begin, end)
                rows.append({"rank": number, "step": name} | _times(*(column[inside] for column in columns)))
            continue
        kept = _exact_window(imported, number, one, imported.launches.iloc[mine]) if window == "hta" else slice(None)
        rows.append({"rank": number} | _times(*(column[mine][kept] for column in columns)))
    return _table(rows)


def hta_times(imported: Imported, last_step: bool = False) -> pd.DataFrame:
    """A row per rank with HTA 0.6.1's columns: idle, compute, non-compute and kernel time in us, their percentages, and
    ``comp_comm_overlap_pctg``. ``last_step`` is HTA's ``include_last_profiler_step``. Ranks without a device event are left out.
    """
    names = {name for one in imported.files.values() for name, *_ in one.steps}
    rows = []
    for rank, one in imported.files.items():
        start, end, label = _hta_events(one, last_step, filtered=len(names) > 1)
        if len(start):
            rows.append({"rank": rank} | _hta_row(start, end, label))
    return _table(rows)


def _exact_window(imported: Imported, rank: int, one: FileEvents, launches: pd.DataFrame) -> np.ndarray:
    """What was launched before the last ProfilerStep, of the host's or the GPU's side, began; an op without correlation counts as
    launched with the first host event that has none.
    """
    if len({name for name, *_ in one.steps}) < 2:
        return np.ones(len(launches), dtype=bool)
    last_ns = max(start for _, _, start, _ in one.steps)
    kept = launches["launch_ps"].to_numpy() < (last_ns + imported.shift_ns[rank]) * 1000
    return kept | (launches["correlation"].to_numpy() == -1) if one.first_host_ns < last_ns else kept


def _parts(kind: pd.Series) -> np.ndarray:
    """0 for compute, 1 for communication, 2 for copies."""
    of_kind = [0 if name == KERNEL else 2 if name == COPY else 1 for name in kind.cat.categories]
    return np.array(of_kind, dtype=np.int8)[kind.cat.codes]


def _times(start: np.ndarray, end: np.ndarray, part: np.ndarray) -> dict[str, Any]:
    computes, talks, copies = (part == number for number in range(3))
    busy = union(start, end)
    compute, communication, memory = (union(start[of], end[of]) for of in (computes, talks, copies))
    overlap = length(intersection(communication, compute))
    span = int(end.max() - start.min()) if len(start) else 0
    parts = {
        "n": len(start), "n_comm": int(talks.sum()), "n_comp": int(computes.sum()), "n_mem": int(copies.sum()), "span_ps": span,
        "busy_ps": length(busy), "idle_ps": span - length(busy), "compute_ps": length(compute), "communication_ps": length(communication),
        "memory_ps": length(memory), "overlap_ps": overlap, "exposed_ps": length(communication) - overlap,
        "non_compute_ps": length(busy) - length(compute),
    }  # fmt: skip
    shares = {f"{name}_pct": _percent(parts[f"{name}_ps"], span) for name in ("idle", "compute", "non_compute")}
    hidden = {f"overlap_pct_of_{name}": _percent(overlap, length(of)) for name, of in (("comm", communication), ("compute", compute))}
    return parts | shares | hidden


def _hta_events(one: FileEvents, last_step: bool, filtered: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends in whole microseconds, in the file's order, and whether communication (1), memory (2) or compute (0)."""
    device = one.device
    known = np.array([name not in ("", "Trace") for name in one.categories], dtype=bool)
    given = np.array([integer for *_, integer in one.streams], dtype=bool)
    kept = given[device["stream"]] & known[device["category"]]
    start, end = _whole_us(device["start_ns"], device["end_ns"], one.fractional)
    if filtered and one.steps:
        launch_ns = np.where(device["correlation"] == -1, one.first_host_ns, device["launch_ns"])
        begins, ends = (np.array([step[side] for step in one.steps], dtype=np.int64) for side in (2, 3))
        launch, _ = _whole_us(launch_ns, launch_ns, one.fractional)
        step_begins, step_ends = _whole_us(begins, ends, one.fractional)
        inside = launch <= step_ends.max() if last_step else launch < step_begins.max()
        kept &= (launch_ns != NEVER) & inside
    label = np.array([1 if _COMMUNICATION.search(name) else 2 if _MEMORY.search(name) else 0 for name in one.names], dtype=np.int64)
    start, end = start[kept], end[kept]
    zero = start.min(initial=np.inf)  # sums of small numbers are exact
    return start - zero, end - zero, label[device["name"][kept]]


def _whole_us(start_ns: np.ndarray, end_ns: np.ndarray, fractional: bool) -> tuple[np.ndarray, np.ndarray]:
    """Starts up and ends down, in float64 as HTA adds them: a start plus its length may miss a whole number by a hair.

    >>> _whole_us(np.array([1100, 2000]), np.array([4900, 2500]), True), _whole_us(np.array([2000]), np.array([5000]), False)
    ((array([2., 2.]), array([4., 2.])), (array([2.]), array([5.])))
    """
    start = (start_ns / np.longdouble(1000)).astype(np.float64)
    end = start + ((end_ns - start_ns) / np.longdouble(1000)).astype(np.float64)
    return (np.ceil(start), np.floor(end)) if fractional else (start, end)


def _hta_row(start: np.ndarray, end: np.ndarray, label: np.ndarray) -> dict[str, Any]:
    begins, ends = _merged(start, end)
    total = ends[-1] - begins[0]
    idle = total - (ends.sum() - begins.sum())
    compute = _merged(start[label == 0], end[label == 0])
    talks = _merged(start[label == 1], end[label == 1])
    computing, talking = (float(pieces[1].sum() - pieces[0].sum()) for pieces in (compute, talks))
    parts = {"idle_time": idle, "compute_time": computing, "non_compute_time": total - computing - idle}
    return {
        **{f"{name}(us)": float(value) for name, value in parts.items()},
        "kernel_time(us)": float(total),
        **{f"{name}_pctg": _rounded(value, total) for name, value in parts.items()},
        "comp_comm_overlap_pctg": _rounded(_both(talks, compute), talking),
    }


def _merged(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pieces as HTA merges them: one whose end was rounded below its start stays, with a negative length."""
    order = np.argsort(start)
    start, end = start[order], end[order]
    if not len(start):
        return start, end
    opens = np.flatnonzero(np.concatenate([[True], start[1:] > np.maximum.accumulate(end)[:-1]]))
    return start[opens], np.maximum.reduceat(end, opens)


def _both(talks: tuple[np.ndarray, np.ndarray], compute: tuple[np.ndarray, np.ndarray]) -> float:
    """Time in which the running sum of 1 for communication and 2 for compute is 3."""
    times = np.concatenate([*talks, *compute])
    change = np.repeat([1, -1, 2, -2], [len(talks[0])] * 2 + [len(compute[0])] * 2)
    order = np.argsort(times)
    running = np.cumsum(change[order])
    return float(np.diff(times[order])[running[:-1] == 3].sum())


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """None stays None: a column of numbers would make it NaN."""
    table = pd.DataFrame(rows)
    for name in table.columns:
        values = [row[name] for row in rows]
        if None in values:
            table[name] = pd.Series(values, dtype=object)
    return table


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def _rounded(part: float, whole: float) -> float | None:
    return round(float(100 * (part / whole)), 2) if whole else None
