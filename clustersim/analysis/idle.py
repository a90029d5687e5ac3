"""Idle time by cause. The causes of a rank add up to its idle, to the picosecond.

``copies``: a device copy runs (measured traces); ``other_step``: an op of another step than the one looked at does. ``warm_up``,
``drain``: before the rank's first compute of a step, after its last (of the last step, and the last communication that it waited for),
whatever the window; between two steps of a rank it is drain until the earlier one has ended everywhere. Inside a step, what the next
such op needed is followed back through what made it ready: ``data`` is the wait of a receive for its sender, ``peer``
that of a collective (or of a send) for the last to arrive, ``contention`` the part of either in which the rank waited for was itself
held up, without compute, in a transfer longer than the shortest of its like; ``dependency``: an op of another rank. ``nothing``: no op
of the trace was the reason (in measured traces: nothing had been launched), or the rank computes nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.facts import WHOLE, TraceFacts
from clustersim.analysis.intervals import Intervals
from clustersim.analysis.lateness import Waits, joined_waits
from clustersim.analysis.overlap import COPY_BIT, ELSEWHERE_BIT, Sweep, in_both
from clustersim.analysis.path_graph import NONE, Graph
from clustersim.analysis.streams import COMPUTES, Line, Ops, covered, on_line, whole_window
from clustersim.analysis.waits import Activities, contention

CAUSES = ("warm_up", "drain", "data", "peer", "contention", "dependency", "copies", "other_step", "nothing")


@dataclass(frozen=True)
class Idle:
    """``causes``: a row per rank, ``rank`` and a column in ps per cause; ``waits``: the idle that was a wait for other ranks, op by op;
    ``contended_ps``: by rank, exposed communication longer than the shortest of its like; ``pieces``: by cause, the time in ps of each
    idle piece of the sweep, in their order.
    """

    causes: pd.DataFrame
    waits: Waits
    contended_ps: np.ndarray
    pieces: dict[str, np.ndarray]


def idle_causes(ops: Ops, joined: Activities, graph: Graph, cut: Sweep, facts: TraceFacts = WHOLE) -> Idle:
    """The idle of the ranks of a sweep; ``facts`` say where steps end."""
    return _Attribution(ops, joined, graph, cut, facts).run()


class _Attribution:
    """Idle pieces, a share of each given to a cause at a time; what is left of a piece is always its beginning."""

    def __init__(self, ops: Ops, joined: Activities, graph: Graph, cut: Sweep, facts: TraceFacts) -> None:
        self.ops, self.joined, self.graph, self.cut, self.line, self.facts = ops, joined, graph, cut, cut.line, facts
        self.begin = joined.begin_of_op()
        self.start, self.end = cut.start[cut.idle], cut.end[cut.idle]
        self.rank = self.line.rank_of(self.start)
        self.time = {cause: np.zeros(len(self.start), dtype=np.int64) for cause in CAUSES}  # by piece
        self.waited: list[Waits] = []
        self.contended = _contended(ops, joined, cut)
        self.receives = ops.is_kind("recv")

    def run(self) -> Idle:
        at, op = self._outside_of_steps()
        while len(at):
            at, op = self._step(at, op)
        contended = self.contended
        held = self.line.by_rank(contended.start, contended.end - contended.start)
        causes = {cause: self.line.by_rank(self.start, time) for cause, time in self.time.items()}
        return Idle(pd.DataFrame({"rank": self.line.ranks, **causes}), joined_waits(self.waited), held, self.time)

    def _give(self, cause: str, at: np.ndarray, start: np.ndarray) -> None:
        """The pieces from ``start`` on to a cause; before it they remain."""
        start = np.clip(start, self.start[at], self.end[at])
        self.time[cause][at] += self.end[at] - start
        self.end[at] = start

    def _outside_of_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies, other steps, warm-up and drain; the other pieces, each with the op that ends it, be it behind the window."""
        computes, since, until = self._gaps()
        rows, place = self._that_end_idle(since[:, -1], computes)
        np.maximum.at(since[:, -1], np.searchsorted(self.line.ranks, self.ops.rank[rows]), self.ops.start[rows])
        last = self.line.place(self.line.ranks, since[:, -1])
        begin, end = whole_window(self.ops)
        ends = np.tile([begin, *self.facts.step_ends_ps, end], len(since))
        rank = np.repeat(self.line.ranks, since.shape[1])
        since, until, ends = (self.line.place(rank, times.ravel()) for times in (since, until, ends))
        gap = np.searchsorted(since, self.start, side="right") - 1
        bits = self.cut.bits[self.cut.idle]
        cause = np.select(
            [(bits & COPY_BIT) > 0, (bits & ELSEWHERE_BIT) > 0, ~computes[self.rank], self.end <= until[gap]],
            ["copies", "other_step", "nothing", "drain"],
            "",
        )
        at = np.flatnonzero(cause == "drain")
        self._give("warm_up", at, ends[gap[at]])
        for name in ("copies", "other_step", "nothing", "drain"):
            at = np.flatnonzero(cause == name)
            self._give(name, at, self.start[at])
        at = np.flatnonzero(cause == "")
        self._give("drain", at, last[self.rank[at]])  # a transfer without a duration cuts no piece
        return at, rows[np.searchsorted(place, self.end[at])]

    def _gaps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By rank: whether it computes at all; since when and until when it does not, in ps, before each step and after the last."""
        ops, ranks = self.ops, self.line.ranks
        begin, end = whole_window(ops)
        rows = on_line(ops, self.line, self._computes())
        at = np.searchsorted(ranks, ops.rank[rows]), np.zeros_like(rows) if self.facts.step_of is None else self.facts.step_of[rows]
        first, last = (np.full((len(ranks), len(self.facts.step_ends_ps) + 1), edge) for edge in (end, begin))
        np.minimum.at(first, at, ops.start[rows])
        np.maximum.at(last, at, ops.end[rows])
        since = np.maximum.accumulate(np.pad(last, ((0, 0), (1, 0)), constant_values=begin), axis=1)
        until = np.minimum.accumulate(np.pad(first, ((0, 0), (0, 1)), constant_values=end)[:, ::-1], axis=1)[:, ::-1]
        return np.bincount(at[0], minlength=len(ranks)) > 0, since, until

    def _computes(self) -> np.ndarray:
        return (self.ops.family == COMPUTES) & (self.ops.end > self.ops.start)  # one without a duration ends no idle

    def _that_end_idle(self, last: np.ndarray, busy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute, and what a rank waited for after the last of it (``last``, where ``busy``), in order, and their places on the line."""
        computes = self._computes()
        waited = self.ops.communicates & (self.ops.ready < self.begin) & (not self.ops.profiled)
        rows = on_line(self.ops, self.line, computes | waited)
        rank = np.searchsorted(self.line.ranks, self.ops.rank[rows])
        rows = rows[computes[rows] | (busy[rank] & (self.ops.start[rows] >= last[rank]))]
        place = self.line.place(self.ops.rank[rows], self.ops.start[rows])
        order = np.lexsort((self.ops.start[rows], place))
        return rows[order], place[order]

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
        self._wait(at[elsewhere], op[known][elsewhere], self.start[at[elsewhere]])
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
        self.time["contention"][at] += held
        for cause, mine in (("data", self.receives[op]), ("peer", ~self.receives[op])):
            self.time[cause][at[mine]] += (length - held)[mine]
        self._wait(at, op, start)
        self.end[at] = start

    def _wait(self, at: np.ndarray, op: np.ndarray, start: np.ndarray) -> None:
        """Note that the pieces, from ``start`` on, are a wait of these ops."""
        waits = start < self.end[at]
        shift = self.line.offset(self.ops.rank[op])[waits]
        self.waited.append(Waits(op[waits], start[waits] - shift, self.end[at][waits] - shift))

    def _on_line(self, rank: np.ndarray) -> np.ndarray:
        return (rank >= self.line.ranks[0]) & (rank <= self.line.ranks[-1])


def _contended(ops: Ops, joined: Activities, cut: Sweep) -> Intervals:
    """When a rank, without compute, is in a transfer longer than the shortest of its like: the end of it, on the line."""
    line: Line = cut.line
    excess = contention(ops, joined)
    rows = on_line(ops, line, excess > 0)
    pieces = line.union(ops.rank[rows], ops.end[rows] - excess[rows], ops.end[rows])
    return in_both(pieces, cut.pieces(cut.communicates & ~cut.computes)) if len(rows) else pieces
