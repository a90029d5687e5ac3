"""What the analyses read of a trace: its ops as arrays, what each counts as, all ranks on one line; utilization of streams.

Kinds of profiler traces count like those of simulated ones: ``kernel`` is compute, ``copy`` neither compute nor communication, and each
collective is a kind of communication of its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import Intervals, union
from clustersim.document import clipped
from clustersim.errors import InputError
from clustersim.program.kinds import COMMUNICATION, COMPUTE
from clustersim.trace.trace import Trace

PROFILED_COMMUNICATION = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "communication")
FAMILIES = ("tensor", "context", "expert", "pipeline", "data", "offload", *PROFILED_COMMUNICATION)
"""Kinds of communication, in the order in which time that several have in common is given to one of them."""

COMPUTES, COPIES, OTHER, ELSEWHERE = -1, -2, -3, -4
"""Compute; device copies; kinds that nobody knows; ops of another step than the one looked at."""

_FAMILY_OF = {**COMMUNICATION, **{name: name for name in PROFILED_COMMUNICATION}}
_MOST = 2**62
_SHOWN = 3


@dataclass(frozen=True)
class Ops:
    """Columns by op, in the order of the table, times in ps.

    ``start``: of compute, or of the transfer, which begins when the last participant has arrived; ``ready``: since when the op has
    waited for the others; ``wait``: how long it did; ``family``: a position in FAMILIES, or COMPUTES, COPIES, OTHER, ELSEWHERE;
    ``lane``: a number for each stream of each rank; ``number``: the names by which dependencies know the ops. ``profiled``: measured,
    where a kernel that communicates waits inside: its ``ready`` is its start, and the transfer begins a ``wait`` later.
    """

    number: np.ndarray
    rank: np.ndarray
    lane: np.ndarray
    family: np.ndarray
    kind: pd.Categorical
    stream: pd.Categorical
    group: np.ndarray
    size: np.ndarray
    start: np.ndarray
    end: np.ndarray
    ready: np.ndarray
    wait: np.ndarray
    profiled: bool

    def __len__(self) -> int:
        return len(self.start)

    @property
    def communicates(self) -> np.ndarray:
        return self.family >= 0

    def within(self, window: tuple[int, int]) -> np.ndarray:
        """Which ops of the step looked at have time in a window, or touch it where they have none at all."""
        begin, end = window
        lasting = (self.start < end) & (self.end > begin)
        return (self.family != ELSEWHERE) & (lasting | ((self.start == self.end) & (self.start >= begin) & (self.end <= end)))

    def is_kind(self, *names: str) -> np.ndarray:
        return np.isin([str(name) for name in self.kind.categories], names)[self.kind.codes]


def read_ops(trace: Trace, member: np.ndarray | None = None) -> Ops:
    """The columns of a trace. InputError where an op ends before it starts or waits for less than no time, or there is no op.

    Ops that are no ``member`` (by op; None: all are) belong to another step than the one looked at.
    """
    table = trace.ops
    if not len(table):
        raise InputError("the trace has no ops: nothing to analyse")
    kind, stream = pd.Categorical(table["kind"]), pd.Categorical(table["stream"])
    if (kind.codes < 0).any() or (stream.codes < 0).any():
        raise InputError("ops: an op without a kind or a stream")
    rank, start, end, wait = (_whole(table, name) for name in ("rank", "start_ps", "end_ps", "wait_ps"))
    for wrong, what in ((end < start, "ends before it starts"), (wait < 0, "waits for a negative time")):
        if wrong.any():
            raise InputError(f"ops: row {int(np.argmax(wrong))} {what}")
    names = [str(name) for name in kind.categories]
    family = np.array([_family(name) for name in names], dtype=np.int8)[kind.codes]
    profiled = is_profiled(names)
    group = pd.Categorical(table["group"]).codes.astype(np.int64) if "group" in table else np.full(len(table), -1)
    _, rank_code = np.unique(rank, return_inverse=True)
    return Ops(
        number=_whole(table, "op") if "op" in table else np.arange(len(table)),
        rank=rank,
        lane=rank_code * len(stream.categories) + stream.codes,
        family=family if member is None else np.where(member, family, ELSEWHERE),
        kind=kind,
        stream=stream,
        group=group,
        size=_whole(table, "bytes"),
        start=start,
        end=end,
        ready=start if profiled else start - wait,
        wait=wait,
        profiled=profiled,
    )


def _whole(table: pd.DataFrame, name: str) -> np.ndarray:
    """A column of whole numbers; zeros when there is none."""
    return whole_numbers(table[name], f"ops: {name}") if name in table else np.zeros(len(table), dtype=np.int64)


def whole_numbers(column: pd.Series, what: str) -> np.ndarray:
    """As int64; InputError, with the row, for what is no whole number or more than the clock counts.

    >>> whole_numbers(pd.Series([1.0, 2.0]), "times")
    array([1, 2])
    """
    if not pd.api.types.is_numeric_dtype(column):
        raise InputError(f"{what} are no numbers")
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "i":
        values = column.to_numpy().astype(np.int64, copy=False)
        wrong = (values > _MOST) | (values < -_MOST)
    else:
        given = column.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = ~(np.abs(given) <= _MOST) | (given != np.floor(given))
        values = column.to_numpy(dtype=np.int64) if not wrong.any() else np.zeros(0, dtype=np.int64)
    if wrong.any():
        raise InputError(f"{what}: row {int(np.argmax(wrong))} is missing, no whole number, or too large")
    return values


def _family(name: str) -> int:
    """
    >>> FAMILIES[_family("reduce")], _family("backward"), _family("copy")
    ('data', -1, -2)
    """
    if name in _FAMILY_OF:
        return FAMILIES.index(_FAMILY_OF[name])
    return COMPUTES if name in COMPUTE or name == "kernel" else COPIES if name == "copy" else OTHER


def is_profiled(kinds: Sequence[str]) -> bool:
    """Whether a trace with these kinds of op was measured."""
    return not set(kinds).isdisjoint(("kernel", "copy", *PROFILED_COMMUNICATION))


def oddities(ops: Ops) -> tuple[str, ...]:
    """What is strange about a trace, a line each: kinds that nobody knows; in a simulated one, ops that overlap on one stream.

    >>> table = pd.DataFrame({"rank": 0, "stream": "compute", "kind": ["forward", "froward"], "start_ps": [0, 3], "end_ps": [5, 9]})
    >>> oddities(read_ops(Trace(table, table[:0], table[:0], table[:0])))  # doctest: +NORMALIZE_WHITESPACE
    ('1 ops of unknown kinds (froward) count as neither compute nor communication',
     '1 ops begin before another of their stream ends: merged where time is counted')
    """
    found = []
    unknown = np.flatnonzero(ops.family == OTHER)
    if len(unknown):
        names = [clipped(str(ops.kind.categories[code])) for code in np.unique(ops.kind.codes[unknown])]
        listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        found.append(f"{len(unknown):,} ops of unknown kinds ({listed}) count as neither compute nor communication")
    rows = np.flatnonzero(~ops.is_kind("send", "recv"))  # on links that only delay, these leave their stream free while under way
    rows = rows[np.lexsort((ops.end[rows], ops.start[rows], ops.lane[rows]))]
    lane, latest = ops.lane[rows], pd.Series(ops.end[rows]).groupby(ops.lane[rows]).cummax().to_numpy()
    overlapping = int(((lane[1:] == lane[:-1]) & (ops.start[rows][1:] < latest[:-1])).sum())
    if overlapping and not ops.profiled:  # an import counts those of measured traces itself
        found.append(f"{overlapping:,} ops begin before another of their stream ends: merged where time is counted")
    return tuple(found)


def whole_window(ops: Ops) -> tuple[int, int]:
    """From the beginning, which is 0 in a simulated trace and the first op in a measured one, to the end of the last op of any rank."""
    return (int(ops.ready.min()) if ops.profiled else min(0, int(ops.ready.min()))), int(ops.end.max())


@dataclass(frozen=True)
class Line:
    """Ranks laid one after another on a single line, each as long as the window and one more, so that none touches the next."""

    ranks: np.ndarray
    begin: int
    end: int

    @property
    def span(self) -> int:
        return self.end - self.begin + 1

    def offset(self, rank: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.ranks, rank) * self.span - self.begin

    def place(self, rank: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Times of these ranks, clipped to the window, as positions on the line."""
        return np.clip(times, self.begin, self.end) + self.offset(rank)

    def union(self, rank: np.ndarray, start: np.ndarray, end: np.ndarray) -> Intervals:
        return union(self.place(rank, start), self.place(rank, end))

    def rank_of(self, position: np.ndarray) -> np.ndarray:
        """Positions in ``ranks``."""
        return position // self.span

    def by_rank(self, position: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Lengths added up by rank, exactly; ``position``: where each begins, ascending."""
        total = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return np.diff(total[np.searchsorted(position, np.arange(len(self.ranks) + 1) * self.span)])


def lines(ranks: np.ndarray, window: tuple[int, int]) -> list[Line]:
    """All ranks on one line, or on several where one would be longer than 64 bits can count."""
    distinct = np.unique(ranks)
    most = max(1, _MOST // (window[1] - window[0] + 1))
    return [Line(distinct[at : at + most], *window) for at in range(0, len(distinct), most)]


def on_line(ops: Ops, line: Line, chosen: np.ndarray) -> np.ndarray:
    """The chosen ops (a mask) of the ranks of the line, as rows."""
    if line.ranks[0] > ops.rank.min() or line.ranks[-1] < ops.rank.max():
        chosen = chosen & (ops.rank >= line.ranks[0]) & (ops.rank <= line.ranks[-1])
    return np.flatnonzero(chosen)


def covered(pieces: Intervals, points: np.ndarray) -> np.ndarray:
    """How much of a set lies before each point.

    >>> covered(union([0, 10], [4, 20]), np.array([2, 4, 12]))
    array([2, 4, 6])
    """
    if not len(pieces.start):
        return np.zeros(len(points), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(pieces.end - pieces.start)])
    at = np.searchsorted(pieces.start, points, side="right")
    last = np.maximum(at - 1, 0)
    return np.where(at > 0, before[last] + np.minimum(points, pieces.end[last]) - pieces.start[last], 0)


def stream_times(ops: Ops, window: tuple[int, int]) -> pd.DataFrame:
    """A row per stream of a rank: rank, stream, ops (how many have time in the window), busy_ps (their union there), utilization
    (None in an empty window). Ops of another step than the one looked at do not count.
    """
    lanes, first = np.unique(ops.lane, return_index=True)
    count = np.bincount(np.searchsorted(lanes, ops.lane[ops.within(window)]), minlength=len(lanes))
    mine = ops.family != ELSEWHERE
    busy = []
    for line in lines(lanes, window):
        here = mine & (ops.lane >= line.ranks[0]) & (ops.lane <= line.ranks[-1])
        pieces = line.union(ops.lane[here], ops.start[here], ops.end[here])
        busy.append(line.by_rank(pieces.start, pieces.end - pieces.start))
    length = window[1] - window[0]
    table = pd.DataFrame({"rank": ops.rank[first], "stream": ops.stream[first].astype(str), "ops": count})
    table["busy_ps"] = np.concatenate(busy)
    table["utilization"] = table["busy_ps"] / length if length else None
    return table
