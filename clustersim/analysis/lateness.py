"""Whose fault a wait is: each is handed on, from ranks that were late because they had waited themselves, to those that were not.

A rank waits for the last to arrive. Where what that one did before led back to a wait of its own, since the first had last waited, it is
late by all its waits since then through no fault of its own: so much of the wait is handed on to whoever it waited for; the rest is
charged to it (sync intervals and propagation as in Böhme et al. 2010, *Identifying the root causes of wait states in
large-scale parallel applications*). What led to what is the path of the critical path. All waits are handed on at once, over twice as
many in each round.

Rank 0 waits 8 for rank 1, which had waited 6 for rank 2: of the 14, 2 are charged to rank 1 and 12 to rank 2.

>>> import pandas as pd
>>> from clustersim.analysis.path_graph import build_graph
>>> from clustersim.analysis.streams import read_ops
>>> from clustersim.analysis.waits import find_activities
>>> from clustersim.trace.trace import Trace
>>> table = pd.DataFrame({
...     "rank": [2, 2, 1, 1, 1, 0, 0], "kind": ["forward", "send", "recv", "forward", "send", "recv", "forward"],
...     "stream": ["c", "s", "r", "c", "s", "r", "c"], "group": ["", "a", "a", "", "b", "b", ""],
...     "start_ps": [0, 7, 7, 7, 9, 9, 9], "end_ps": [7, 7, 7, 9, 9, 9, 10], "wait_ps": [0, 0, 6, 0, 0, 8, 0]})
>>> trace = Trace(table, pd.DataFrame({"op": [1, 3, 4, 6], "on": [0, 2, 3, 5]}), table[:0], table[:0])
>>> ops = read_ops(trace)
>>> joined = find_activities(ops)
>>> waits = Waits(np.array([2, 5]), np.array([1, 1]), np.array([7, 9]))
>>> charged_ps(ops, joined, build_graph(ops, joined, trace.dependencies), waits, np.ones(7)).tolist()
[0.0, 2.0, 12.0]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clustersim.analysis.overlap import Sweep
from clustersim.analysis.path_graph import NONE, Graph
from clustersim.analysis.streams import Ops
from clustersim.analysis.waits import Activities

_BEFORE_ALL = -(2**62)  # no time of a trace is earlier


class Waits(NamedTuple):
    """``op`` waited from ``start`` to ``end`` (ps), which is not after it began."""

    op: np.ndarray
    start: np.ndarray
    end: np.ndarray


def joined_waits(parts: list[Waits]) -> Waits:
    """One after another.

    >>> joined_waits([])
    Waits(op=array([], dtype=int64), start=array([], dtype=int64), end=array([], dtype=int64))
    """
    none = Waits(*[np.zeros(0, dtype=np.int64)] * 3)
    return Waits(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))


def waits_in_kernels(ops: Ops, joined: Activities, cut: Sweep) -> Waits:
    """Of a measured trace: when a rank waited inside a communication kernel and did not compute, each instant once."""
    line = cut.line
    rows = np.flatnonzero(ops.communicates & (ops.wait > 0) & np.isin(ops.rank, line.ranks))
    until = np.minimum(ops.start + ops.wait, joined.begin_of_op())[rows]
    start, end = line.place(ops.rank[rows], ops.start[rows]), line.place(ops.rank[rows], until)
    order = np.argsort(start, kind="stable")
    rows, start, end = rows[order], start[order], end[order]
    start[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    # Cut into the pieces of the sweep in which the rank communicates only.
    bare = cut.pieces(cut.communicates & ~cut.computes)
    first, last = np.searchsorted(bare.end, start, side="right"), np.searchsorted(bare.start, end)
    count = np.where(end > start, last - first, 0)
    wait = np.repeat(np.arange(len(rows)), count)
    piece = np.arange(len(wait)) - np.repeat(np.cumsum(count) - count, count) + first[wait]
    shift = line.offset(ops.rank[rows[wait]])
    return Waits(rows[wait], np.maximum(start[wait], bare.start[piece]) - shift, np.minimum(end[wait], bare.end[piece]) - shift)


def charged_ps(ops: Ops, joined: Activities, graph: Graph, waits: Waits, stands_for: np.ndarray) -> np.ndarray:
    """By rank, ascending, the waits that it is the root cause of, in whole ps; but for rounding, together as long as all.

    Each wait counts for as many ranks as that of its op ``stands_for`` (by op).
    """
    ranks, rank = np.unique(ops.rank, return_inverse=True)
    length = np.bincount(waits.op, weights=waits.end - waits.start, minlength=len(ops) + 1)
    waited = np.flatnonzero(length)
    if not len(waited):
        return np.zeros(len(ranks))
    cause = _wait_before(ops, joined, graph, length > 0)[waited]
    rank_of, until = np.append(rank, len(ranks)), np.append(joined.begin_of_op(), _BEFORE_ALL)
    since = _last_wait(rank[waited], until[waited])  # what came before it was waited for already
    sums = _waited(rank[waited], until[waited], length[waited], np.tile(rank_of[cause], 2), np.concatenate([until[cause], since]))
    by = np.append(rank[joined.last[joined.of_op]], len(ranks))  # whom each op waited for; none waits for itself through others
    late = np.where((until[cause] > since) & (by[cause] != rank[waited]), sums[: len(waited)] - sums[len(waited) :], 0)
    share = np.zeros(len(ops) + 1)
    share[waited] = np.minimum(late / length[waited], 1)
    to, handed, charge = np.full(len(ops) + 1, len(ops)), share.copy(), length * np.append(stands_for, 1)
    to[waited] = cause
    while handed.any():
        charge += np.bincount(to, weights=charge * handed, minlength=len(charge))
        handed *= handed[to]
        to = to[to]
    own = charge[waited] * (1 - share[waited])
    return np.rint(np.bincount(by[waited], weights=own, minlength=len(ranks)))


def _wait_before(ops: Ops, joined: Activities, graph: Graph, waited: np.ndarray) -> np.ndarray:
    """By op, the nearest that waited on the path that led to it; as many as there are ops where there is none."""
    begin, last = joined.begin_of_op(), joined.last[joined.of_op]
    last = np.where(ops.ready == ops.ready[last], np.arange(len(ops)), last)
    edge = graph.binding[last]
    before = np.append(graph.source, NONE)[edge]  # NONE reads what is appended
    # A measured kernel that still waits when the next one begins is not what that one came after.
    known = (before != NONE) & (begin[before] < begin if ops.profiled else True)
    found = np.append(np.where(known, before, len(ops)), len(ops))
    there = waited | (np.arange(len(found)) == len(ops))
    while not there[found].all():
        found = np.where(there[found], found, found[found])
    return found


def _last_wait(rank: np.ndarray, until: np.ndarray) -> np.ndarray:
    """When the wait of the rank before each ended; before all time where there was none.

    >>> _last_wait(np.array([0, 1, 0]), np.array([7, 5, 3])).tolist() == [3, _BEFORE_ALL, _BEFORE_ALL]
    True
    """
    order = np.lexsort((until, rank))
    follows = rank[order[1:]] == rank[order[:-1]]
    found = np.full(len(rank), _BEFORE_ALL)
    found[order[1:][follows]] = until[order[:-1][follows]]
    return found


def _waited(rank: np.ndarray, until: np.ndarray, length: np.ndarray, of: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How long the waits that ended by ``at`` were, of all ranks before rank ``of`` and of it.

    >>> _waited(np.array([0, 1, 0]), np.array([7, 5, 3]), np.array([4, 2, 1]), of=np.array([0, 0, 1]), at=np.array([6, 7, 7])).tolist()
    [1, 5, 7]
    """
    later = np.arange(len(rank) + len(of)) >= len(rank)  # at equal times a wait counts
    order = np.lexsort((later, np.concatenate([until, at]), np.concatenate([rank, of])))
    sums = np.empty(len(order), dtype=length.dtype)
    sums[order] = np.cumsum(np.concatenate([length, np.zeros(len(of), dtype=length.dtype)])[order])
    return sums[len(rank) :]
