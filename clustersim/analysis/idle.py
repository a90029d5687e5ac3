"""Idle time by cause. The causes of a rank add up to its idle, to the picosecond.

``copies``: a device copy runs (measured traces). ``warm_up``, ``drain``: before the rank's first compute, after its last. In between,
what the next compute op needed is followed back through what made it ready: ``data`` is the wait of a receive for its sender, ``peer``
that of a collective (or of a send) for the last to arrive, ``contention`` the part of either in which the rank waited for was itself
held up, without compute, in a transfer longer than the shortest of its like; ``dependency``: an op of another rank. ``nothing``: no op
of the trace was the reason (in measured traces: nothing had been launched), or the rank computes nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import Intervals
from clustersim.analysis.overlap import COPY_BIT, Sweep, in_both
from clustersim.analysis.path_graph import NONE, Graph
from clustersim.analysis.streams import COMPUTES, Line, Ops, covered, on_line
from clustersim.analysis.waits import Activities, contention

CAUSES = ("warm_up", "drain", "data", "peer", "contention", "dependency", "copies", "nothing")


@dataclass(frozen=True)
class Idle:
    """``causes``: a row per rank, ``rank`` and a column in ps per cause; ``waited_for_ps``: by rank, idle of others that waited for it;

    ``contended_ps``: by rank, exposed communication longer than the shortest of its like.
    """

    causes: pd.DataFrame
    waited_for_ps: np.ndarray
    contended_ps: np.ndarray


def idle_causes(ops: Ops, joined: Activities, graph: Graph, cut: Sweep) -> Idle:
    """The idle of the ranks of a sweep."""
    return _Attribution(ops, joined, graph, cut).run()


class _Attribution:
    """Idle pieces, a share of each given to a cause at a time; what is left of a piece is always its beginning."""

    def __init__(self, ops: Ops, joined: Activities, graph: Graph, cut: Sweep) -> None:
        self.ops, self.joined, self.graph, self.cut, self.line = ops, joined, graph, cut, cut.line
        self.begin = joined.begin_of_op()
        self.start, self.end = cut.start[cut.idle], cut.end[cut.idle]
        self.rank = self.line.rank_of(self.start)
        self.time = {cause: np.zeros(len(self.line.ranks), dtype=np.int64) for cause in CAUSES}
        self.waited_for = np.zeros(len(self.line.ranks), dtype=np.int64)
        self.contended = _contended(ops, joined, cut)
        self.receives = ops.is_kind("recv")

    def run(self) -> Idle:
        at, op = self._outside_of_compute()
        while len(at):
            at, op = self._step(at, op)
        contended = self.contended
        held = self.line.by_rank(contended.start, contended.end - contended.start)
        return Idle(pd.DataFrame({"rank": self.line.ranks, **self.time}), self.waited_for, held)

    def _give(self, cause: str, at: np.ndarray, start: np.ndarray) -> None:
        """The pieces from ``start`` on to a cause; before it they remain."""
        start = np.clip(start, self.start[at], self.end[at])
        np.add.at(self.time[cause], self.rank[at], self.end[at] - start)
        self.end[at] = start

    def _outside_of_compute(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies, warm-up and drain; the other pieces, each with the compute op that ends it."""
        computing = self.cut.pieces(self.cut.computes)
        edges = np.arange(len(self.line.ranks) + 1) * self.line.span
        first, last = np.searchsorted(computing.start, edges[:-1]), np.searchsorted(computing.start, edges[1:]) - 1
        busy = first <= last
        begins, ends = edges[:-1] + self.line.span, edges[:-1].copy()
        begins[busy], ends[busy] = computing.start[first[busy]], computing.end[last[busy]]
        copies = (self.cut.bits[self.cut.idle] & COPY_BIT) > 0
        cause = np.select(
            [copies, ~busy[self.rank], self.start < begins[self.rank], self.start >= ends[self.rank]],
            ["copies", "nothing", "warm_up", "drain"],
            "",
        )
        for name in ("copies", "nothing", "warm_up", "drain"):
            at = np.flatnonzero(cause == name)
            self._give(name, at, self.start[at])
        at = np.flatnonzero(cause == "")
        inside = (self.ops.start >= self.line.begin) & (self.ops.start <= self.line.end)
        lasting = self.ops.end > self.ops.start  # one without a duration ends no idle
        rows = on_line(self.ops, self.line, (self.ops.family == COMPUTES) & inside & lasting)
        start = self.ops.start[rows] + self.line.offset(self.ops.rank[rows])
        order = np.argsort(start, kind="stable")
        return at, rows[order][np.searchsorted(start[order], self.end[at])]

    def _step(self, at: np.ndarray, op: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One op back: give what lies in its wait, and what its need does not explain; go on with what it needed."""
        self._waits(at, op)
        left = self.end[at] > self.start[at]
        at, op = at[left], op[left]
        edge = self.graph.binding[op]
        known = edge != NONE
        self._give("nothing", at[~known], self.start[at[~known]])
        at, edge = at[known], edge[known]
        needed, at_start = self.graph.source[edge], self.graph.at_start[edge]
        shift = self.line.offset(self.ops.rank[op[known]])
        until = np.where(at_start, self.begin[needed], self.ops.end[needed])
        self._give("nothing", at, until + shift)
        elsewhere = self.ops.rank[needed] != self.ops.rank[op[known]]
        self._give("dependency", at[elsewhere], self.start[at[elsewhere]])
        # An op of the rank that is neither compute nor communication may have run meanwhile.
        runs = np.where(at_start, until, self.begin[needed])
        self._give("dependency", at, runs + shift)
        left = self.end[at] > self.start[at]
        return at[left], needed[left]

    def _waits(self, at: np.ndarray, op: np.ndarray) -> None:
        waiting = self.ops.communicates[op] & (not self.ops.profiled)
        at, op = at[waiting], op[waiting]
        last = self.joined.last[self.joined.of_op[op]]
        own, other = self.line.offset(self.ops.rank[op]), self.line.offset(self.ops.rank[last])
        start = np.clip(self.ops.ready[op] + own, self.start[at], self.end[at])
        length = self.end[at] - start
        here = self._on_line(self.ops.rank[last])  # who is on another line (4 million rank-seconds on) is not looked at
        held = covered(self.contended, self.end[at] - own + other) - covered(self.contended, start - own + other)
        held = np.where(here, held, 0)
        at_rank = self.rank[at]
        np.add.at(self.time["contention"], at_rank, held)
        for cause, mine in (("data", self.receives[op]), ("peer", ~self.receives[op])):
            np.add.at(self.time[cause], at_rank[mine], (length - held)[mine])
        np.add.at(self.waited_for, np.searchsorted(self.line.ranks, self.ops.rank[last[here]]), length[here])
        self.end[at] = start

    def _on_line(self, rank: np.ndarray) -> np.ndarray:
        return (rank >= self.line.ranks[0]) & (rank <= self.line.ranks[-1])


def _contended(ops: Ops, joined: Activities, cut: Sweep) -> Intervals:
    """When a rank, without compute, is in a transfer longer than the shortest of its like: the end of it, on the line."""
    line: Line = cut.line
    excess = contention(ops, joined)
    rows = on_line(ops, line, excess > 0)
    pieces = line.union(ops.rank[rows], ops.end[rows] - excess[rows], ops.end[rows])
    return in_both(pieces, cut.pieces(cut.communicates & ~cut.computes)) if len(rows) else pieces
