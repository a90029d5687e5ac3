"""Compute, communication hidden and exposed, and idle, for each rank and each kind of communication, in one sweep over all ranks.

>>> from clustersim.analysis.streams import read_ops, whole_window
>>> from clustersim.trace.trace import Trace
>>> table = pd.DataFrame({"rank": 0, "stream": ["data", "compute"], "kind": ["reduce", "forward"], "start_ps": [0, 5], "end_ps": [10, 15]})
>>> ops = read_ops(Trace(table, table[:0], table[:0], table[:0]))
>>> [cut] = sweeps(ops, whole_window(ops))
>>> rank_split(cut).to_dict("records")
[{'rank': 0, 'compute_ps': 10, 'communication_ps': 10, 'hidden_ps': 5, 'exposed_ps': 5, 'idle_ps': 0}]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import Intervals
from clustersim.analysis.streams import COMPUTES, COPIES, ELSEWHERE, FAMILIES, Line, Ops, lines, on_line

COMPUTE_BIT, COPY_BIT, ELSEWHERE_BIT = 1, 2, 4
_FIRST_FAMILY = 3
_BITS = {
    COMPUTES: COMPUTE_BIT, COPIES: COPY_BIT, ELSEWHERE: ELSEWHERE_BIT,
    **{family: 1 << (_FIRST_FAMILY + family) for family in range(len(FAMILIES))},
}  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """The line cut wherever something begins or ends: pieces [start, end), and what goes on in each as bits.

    Bit 0 is compute, bit 1 a device copy, bit 2 an op of another step, bit 3 + f communication of family f.
    """

    line: Line
    start: np.ndarray
    end: np.ndarray
    bits: np.ndarray

    @property
    def computes(self) -> np.ndarray:
        return (self.bits & COMPUTE_BIT) > 0

    @property
    def communicates(self) -> np.ndarray:
        return self.bits >= 1 << _FIRST_FAMILY

    @property
    def idle(self) -> np.ndarray:
        return (self.bits & ~(COPY_BIT | ELSEWHERE_BIT)) == 0

    def of(self, family: int) -> np.ndarray:
        return (self.bits >> (_FIRST_FAMILY + family) & 1) > 0

    def by_rank(self, chosen: np.ndarray) -> np.ndarray:
        """Time in the chosen pieces by rank, in ps."""
        return self.line.by_rank(self.start[chosen], (self.end - self.start)[chosen])

    def pieces(self, chosen: np.ndarray) -> Intervals:
        return Intervals(self.start[chosen], self.end[chosen])


def sweep(ops: Ops, line: Line) -> Sweep:
    """Cut the line; the gaps between ranks are no pieces."""
    begins = np.arange(len(line.ranks)) * line.span
    times, changes = [begins, begins + line.span - 1], [np.zeros(2 * len(line.ranks), dtype=np.int32)]
    for family, bit in _BITS.items():
        if (ops.family == family).any():
            rows = on_line(ops, line, ops.family == family)
            pieces = line.union(ops.rank[rows], ops.start[rows], ops.end[rows])
            times += [pieces.start, pieces.end]
            changes += [np.full(len(pieces.start), bit, dtype=np.int32), np.full(len(pieces.start), -bit, dtype=np.int32)]
    time, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(time, kind="stable")
    time, bits = time[order], np.cumsum(change[order], dtype=np.int32)
    start, end = time[:-1], time[1:]
    keep = (end > start) & (start % line.span != line.span - 1)
    return Sweep(line, start[keep], end[keep], bits[:-1][keep])


def in_both(a: Intervals, b: Intervals) -> Intervals:
    """What lies in two sets of disjoint pieces; where one begins anew, so does the result.

    >>> ints = lambda *values: np.array(values)
    >>> in_both(Intervals(ints(0, 10), ints(8, 20)), Intervals(ints(5, 8), ints(8, 12)))
    Intervals(start=array([ 5, 10]), end=array([ 8, 12]))
    """
    time = np.concatenate([*a, *b])
    change = np.concatenate([np.full(len(ends), step, dtype=np.int8) for one in (a, b) for ends, step in zip(one, (1, -1), strict=True)])
    order = np.argsort(time, kind="stable")
    time, inside = time[order], np.cumsum(change[order], dtype=np.int8) == 2
    chosen = inside[:-1] & (time[1:] > time[:-1])
    return Intervals(time[:-1][chosen], time[1:][chosen])


def sweeps(ops: Ops, window: tuple[int, int]) -> list[Sweep]:
    """All ranks; one sweep, or several where a line would be longer than 64 bits can count."""
    return [sweep(ops, line) for line in lines(ops.rank, window)]


def rank_waits(ops: Ops, cut: Sweep) -> np.ndarray:
    """By rank, in ps: of its idle time the part in which it was ready to communicate and a peer was not.

    In a measured trace that is a part of its communication instead: a kernel that communicates waits inside.
    """
    rows = on_line(ops, cut.line, ops.communicates)
    begin = ops.ready[rows]
    pieces = cut.line.union(ops.rank[rows], begin, begin + ops.wait[rows])
    if not ops.profiled:
        pieces = in_both(pieces, cut.pieces(cut.idle))
    return cut.line.by_rank(pieces.start, pieces.end - pieces.start)


def rank_split(cut: Sweep) -> pd.DataFrame:
    """A row per rank, in ps: compute, communication, hidden, exposed, idle.

    Compute + exposed + idle is the window, exactly; hidden + exposed is communication.
    """
    communication, hidden = cut.by_rank(cut.communicates), cut.by_rank(cut.computes & cut.communicates)
    return pd.DataFrame(
        {
            "rank": cut.line.ranks,
            "compute_ps": cut.by_rank(cut.computes),
            "communication_ps": communication,
            "hidden_ps": hidden,
            "exposed_ps": communication - hidden,
            "idle_ps": cut.by_rank(cut.idle),
        }
    )


def family_split(cut: Sweep) -> pd.DataFrame:
    """A row per rank and family of communication that the trace has, in ps: communication, hidden, and exposed.

    Communication and hidden are of the family alone. ``exposed_ps`` adds up to that of the rank: time in which several families are
    exposed counts for the first of them in the order of FAMILIES.
    """
    bare, tables = ~cut.computes, [pd.DataFrame({name: [] for name in ("rank", "family", *_FAMILY_TIMES)})]
    for family, name in enumerate(FAMILIES):
        mine = cut.of(family)
        if mine.any():
            times = [cut.by_rank(chosen) for chosen in (mine, mine & cut.computes, mine & bare)]
            tables.append(pd.DataFrame({"rank": cut.line.ranks, "family": name, **dict(zip(_FAMILY_TIMES, times, strict=True))}))
            bare &= ~mine
    return pd.concat(tables[1:] or tables, ignore_index=True)


_FAMILY_TIMES = ("communication_ps", "hidden_ps", "exposed_ps")
