"""The part of a trace that is exported: checked, with all its columns, cut down to some ranks and some of the time."""

from __future__ import annotations

import re
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.streams import read_ops, whole_numbers
from clustersim.errors import InputError
from clustersim.trace.files import OPTIONAL, RunData, cut_of
from clustersim.trace.trace import Trace
from clustersim.units import PS_PER_S

_ABSENT = {"name": "", "stage": -1, "layer": -1, "micro_batch": -1, "wait_ps": 0, "bytes": 0, "flops": 0.0, "group": "", "peer": -1}
ORDER = ("op", "rank", "stream", "kind", "name", "stage", "layer", "micro_batch", "start_ps", "end_ps", *list(_ABSENT)[4:])
_NEEDED = {
    "dependencies": ("op", "on"), "links": ("link", "start_ps", "end_ps", "rate_bytes_s"), "memory": ("rank", "time_ps", "bytes", "what"),
}  # fmt: skip
_WHOLE = {
    "ops": ("rank", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes", "peer"), "dependencies": ("op", "on"),
    "links": ("start_ps", "end_ps"), "memory": ("rank", "time_ps", "bytes"),
}  # fmt: skip
_SHOWN = 8
_OF_THE_JOB = ("ranks", "gpu_memory_bytes")  # what a summary says of the job, and not of the trace
_TEXTS = ("stream", "kind", "name", "group")


KNOWN = "wait_known"
"""A column that only tables of ops have of which some wait could not be measured: False for these."""


def complete(trace: Trace) -> Trace:
    """The trace with every column of :class:`Trace`, texts as categories; an op without a name has that of its kind.

    InputError where the tables contradict themselves.
    """
    read_ops(trace)
    for name, needed in _NEEDED.items():
        missing = set(needed) - set(getattr(trace, name).columns)
        if missing:
            raise InputError(f"{name}: columns missing: {', '.join(sorted(missing))}")
    _check_numbers(trace)
    given = dict(trace.ops.items())
    if "name" not in given:
        given["name"] = given["kind"]
    columns = {name: given.get(name, np.arange(len(trace.ops)) if name == "op" else _ABSENT.get(name)) for name in ORDER}
    if KNOWN in given:
        columns[KNOWN] = given[KNOWN].astype(bool)
    ops = pd.DataFrame(columns, index=trace.ops.index)
    if ops["op"].duplicated().any():
        raise InputError("ops: two ops have the same number")
    for name in _TEXTS:
        ops[name] = _texts(ops[name])
    _check_dependencies(ops, trace.dependencies)
    memory = trace.memory.assign(what=_texts(trace.memory["what"]))
    return Trace(ops, trace.dependencies, trace.links.assign(link=_texts(trace.links["link"])), memory)


def _check_numbers(trace: Trace) -> None:
    """InputError where a number is missing, or a time or a rank is negative."""
    for name, columns in _WHOLE.items():
        table = getattr(trace, name)
        for column in columns:
            if column in table:
                values = whole_numbers(table[column], f"{name}: {column}")
                if column.endswith(("_ps", "rank")) and len(values) and values.min() < 0:
                    raise InputError(f"{name}: {column}: row {int(np.argmin(values))} is negative")
    for name, column in (("links", "rate_bytes_s"), ("ops", "flops")):
        table = getattr(trace, name)
        if column in table and not pd.api.types.is_numeric_dtype(table[column]):
            raise InputError(f"{name}: {column} are no numbers")
        if column in table and not np.isfinite(table[column].to_numpy(dtype=np.float64, na_value=np.nan)).all():
            raise InputError(f"{name}: {column}: a row is missing or not finite")


def _check_dependencies(ops: pd.DataFrame, table: pd.DataFrame) -> None:
    """InputError where an op waits for one that is not there or has not ended by then, or ops without a duration wait in a circle."""
    at = pd.Series(np.arange(len(ops)), index=ops["op"])
    needs, on = (at.reindex(table[name]).to_numpy() for name in ("op", "on"))
    for name, rows in (("op", needs), ("on", on)):
        if np.isnan(rows).any():
            raise InputError(f"dependencies: op {table[name].iloc[int(np.argmax(np.isnan(rows)))]} is not in the table of ops")
    needs, on = needs.astype(np.int64), on.astype(np.int64)
    start, end, number = (ops[name].to_numpy() for name in ("start_ps", "end_ps", "op"))
    early = end[on] > start[needs] - ops["wait_ps"].to_numpy()[needs]
    # Where none is early, the ops of a circle are all at one instant.
    looked_at = slice(None) if early.any() else start[on] == start[needs]
    circle = _circle(number[needs[looked_at]], number[on[looked_at]])
    if circle:
        raise InputError(f"dependencies: ops wait for one another in a circle: op {' for '.join(map(str, circle))}")
    if early.any():
        op, other = (number[rows[np.argmax(early)]] for rows in (needs, on))
        raise InputError(f"dependencies: op {op} is ready before op {other}, which it waits for, has ended")


def _circle(op: np.ndarray, on: np.ndarray) -> list[int | str]:
    """The ops of a circle, each waiting for the next, the first again at the end; none where there is no circle.

    >>> _circle(np.array([1, 2, 4]), np.array([2, 1, 1])), _circle(np.array([1]), np.array([2]))
    ([1, 2, 1], [])
    """
    before: dict[int, list[int]] = {}
    for one, other in zip(op.tolist(), on.tolist(), strict=True):
        before.setdefault(one, []).append(other)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        found = error.args[1][::-1]
        return found if len(found) <= _SHOWN else [*found[:_SHOWN], "..."]
    return []


def _texts(column: pd.Series) -> pd.Series:
    """As categories that are texts, empty where missing; the table's own where they are that already."""
    found = column.astype("category")
    if found.isna().any() or not all(isinstance(name, str) for name in found.cat.categories):
        found = column.astype(object).where(column.notna(), "").astype(str).astype("category")
    return found


def select(trace: Trace, ranks: Collection[int] | None = None, start_ps: int | None = None, end_ps: int | None = None) -> Trace:
    """The ops of these ranks that have time between the two; whole, at their own times. Links belong to no rank: none with ``ranks``.

    Dependencies among ops that are left stay. What memory a rank holds when the time begins is one change then.
    InputError where nothing is left.
    """
    ops, links, memory = trace.ops, trace.links, trace.memory
    if ranks is not None:
        unknown = sorted(set(ranks) - set(ops["rank"].tolist()))
        if unknown:
            raise InputError(f"--ranks: rank {unknown[0]} is not in the trace; it has {rank_text(ops['rank'].unique().tolist())}")
        ops, memory, links = ops[ops["rank"].isin(ranks)], memory[memory["rank"].isin(ranks)], links[:0]
    if start_ps is not None or end_ps is not None:
        begin, end = start_ps or 0, np.iinfo(np.int64).max if end_ps is None else end_ps
        ops, links = ops[_touches(ops, begin, end)], links[_touches(links, begin, end)]
        memory = _held(memory[memory["time_ps"] <= end], begin)
        if begin >= end or not len(ops):
            raise InputError(f"--from, --until: no op has time between; the trace ends at {trace.makespan_ps / 1e12:.6g} s")
    left = trace.dependencies
    if len(ops) < len(trace.ops):
        left = left[left["op"].isin(ops["op"]) & left["on"].isin(ops["op"])]
    return Trace(*(table.reset_index(drop=True) for table in (ops, left, links, memory)))


def cut(run: RunData, ranks: Collection[int] | None = None, start_ps: int | None = None, end_ps: int | None = None) -> RunData:
    """A run folder's contents, cut as by :func:`select`. ``cut`` in the manifest says how; figures that no longer hold are left out."""
    times_ps = {"from_s": start_ps, "until_s": end_ps}
    new: dict[str, Any] = {} if ranks is None else {"ranks": sorted(ranks)}
    new |= {name: time_ps / PS_PER_S for name, time_ps in times_ps.items() if time_ps is not None}
    if not new:
        return run
    trace = select(run.trace, ranks, start_ps, end_ps)
    left, job = trace.ops["rank"].unique(), {name: run.summary[name] for name in _OF_THE_JOB if name in run.summary}
    totals = None if run.link_totals is None or ranks is not None else run.link_totals[list(OPTIONAL["link_totals"])]
    stand = None if run.ranks is None else run.ranks[run.ranks["simulated_as"].isin(left)].reset_index(drop=True)
    old = cut_of(run.manifest)
    for name, narrower in (("from_s", max), ("until_s", min)):  # a part of a part
        if name in new and isinstance(old.get(name), (int, float)):
            new[name] = narrower(old[name], new[name])
    return RunData(trace, totals, stand, job | {"simulated_ranks": len(left)}, run.manifest | {"cut": old | new})


def _touches(table: pd.DataFrame, begin: int, end: int) -> pd.Series:
    start, stop = table["start_ps"], table["end_ps"]
    return (start < end) & ((stop > begin) | ((start == stop) & (start >= begin)))


def _held(memory: pd.DataFrame, begin: int) -> pd.DataFrame:
    """Changes up to ``begin`` added up: the level later on stays what it is."""
    before = memory["time_ps"] <= begin
    if not before.any():
        return memory
    level = memory[before].groupby(["rank", "what"], as_index=False, observed=True)["bytes"].sum().assign(time_ps=begin)
    joined = pd.concat([level[level["bytes"] != 0][list(memory.columns)], memory[~before]], ignore_index=True)
    return joined.sort_values(["rank", "time_ps"], kind="stable", ignore_index=True)


def by_start(ops: pd.DataFrame) -> pd.DataFrame:
    """The ops of each rank in order of start."""
    return ops.iloc[np.lexsort((ops["op"], ops["start_ps"], ops["rank"]))].reset_index(drop=True)


def rank_text(ranks: Collection[int]) -> str:
    """
    >>> rank_text([0, 1, 2, 5])
    '0-2,5'
    """
    known = set(ranks)
    begins, ends = sorted(one for one in known if one - 1 not in known), sorted(one for one in known if one + 1 not in known)
    parts = [f"{a}-{b}" if a < b else str(a) for a, b in zip(begins, ends, strict=True)]
    return ",".join(parts[:8]) + (f" and {len(parts) - 8} more ranges" if len(parts) > 8 else "")


def group_ranks(label: str) -> tuple[int, ...]:
    """The ranks of a group by its label, in its order; empty for a label that lists none.

    >>> group_ranks("0-2"), group_ranks("0-16/8"), group_ranks("4,0"), group_ranks(""), group_ranks("all")
    ((0, 1, 2), (0, 8, 16), (4, 0), (), ())
    """
    span = re.fullmatch(r"([0-9]{1,7})-([0-9]{1,7})(?:/([0-9]{1,7}))?", label)
    if span:
        return tuple(range(int(span[1]), int(span[2]) + 1, max(1, int(span[3] or 1))))
    return tuple(map(int, label.split(","))) if re.fullmatch(r"[0-9]{1,7}(,[0-9]{1,7})*", label) else ()


def messages(ops: pd.DataFrame) -> pd.DataFrame:
    """Sends and receives: row (in ``ops``), kind, source, target, number (the n-th of its source, target and kind)."""
    kind, rank, peer = ops["kind"].astype(str).to_numpy(), ops["rank"].to_numpy(), ops["peer"].to_numpy()
    rows = np.flatnonzero(np.isin(kind, ("send", "recv")) & (peer >= 0))
    rows = rows[np.lexsort((ops["op"].to_numpy()[rows], ops["start_ps"].to_numpy()[rows]))]
    sends = kind[rows] == "send"
    source, target = np.where(sends, rank[rows], peer[rows]), np.where(sends, peer[rows], rank[rows])
    table = pd.DataFrame({"row": rows, "kind": kind[rows], "source": source, "target": target})
    return table.assign(number=table.groupby(["kind", "source", "target"]).cumcount())
