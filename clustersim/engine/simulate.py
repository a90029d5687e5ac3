"""The simulation: GPUs and their streams as SimPy processes, activities between them, one integer clock.

>>> import numpy as np
>>> from clustersim.program.program import Links, Program, Stream
>>> ints = lambda *values: np.array(values, dtype=np.int64)
>>> zero = ints(0, 0)
>>> program = Program(zero, zero, zero, zero, zero, zero, zero, ints(3, 4), zero, zero, zero - 1, zero - 1, ints(), ints(), ints(),
...                   (), (), (Stream(0, "compute", True, ints(0, 1)),), Links((), (), (), ()), ints(0))
>>> simulate(program).end_ps
array([3, 7])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from simpy import AllOf

from clustersim.engine.deadlock import explain
from clustersim.engine.events import Clock, Signal, Steps
from clustersim.engine.links import Network
from clustersim.engine.record import Segments
from clustersim.engine.runs import Runs, find_runs
from clustersim.engine.slowed import Slowed
from clustersim.errors import DeadlockError
from clustersim.program.kinds import KIND_CODE
from clustersim.program.program import Program

Progress = Callable[[int, int, int], None]
"""Called now and then with runs of ops done, runs in all, and the simulated time in ps."""

_EVENTS_BETWEEN_LOOKS = 20_000
_GATHER = KIND_CODE["gather"]
_COLLECTIVE = [KIND_CODE[kind] for kind in ("tensor", "context", "expert", "reduce", "gather")]
_PENDING = -1


@dataclass(frozen=True)
class Outcome:
    """When each op started and ended, and since when it had been ready while it waited for peers, in ps; the rates of transfers."""

    start_ps: np.ndarray
    end_ps: np.ndarray
    arrival_ps: np.ndarray
    segments: Segments
    events: int


def simulate(program: Program, progress: Progress | None = None) -> Outcome:
    """Run a program to its end. DeadlockError, with the cycle, when it can make no progress; OverflowError past the end of the clock."""
    return _Simulation(program).run(progress)


class _Simulation:
    """The state of a simulation, by run of ops (:mod:`clustersim.engine.runs`) and by activity."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs = runs = find_runs(program, joined=not program.slowdown_ppm)
        self.clock = Clock()
        self.slowed = Slowed(self.clock, program.slowdown_ppm) if program.slowdown_ppm else None
        self.rank, self.slows = runs.first_of(program.rank).tolist(), np.isin(runs.first_of(program.kind), _COLLECTIVE).tolist()
        self.network = Network(self.clock, program.links, program.phases, _carriers(program))
        activities = len(program.activity_transfer)
        self.duration = runs.duration_ps.tolist()
        self.activity = runs.activity.tolist()
        transfers = program.activity_transfer.tolist()
        self.phases = [program.transfers[transfer].phases for transfer in transfers]
        self.delay = [program.transfers[transfer].delay_ps for transfer in transfers]
        self.start = [_PENDING] * len(runs)
        self.end = [_PENDING] * len(runs)
        self.arrival = [_PENDING] * len(runs)  # of a member of an activity
        self.finished = 0
        self.unmet = np.bincount(runs.waits, minlength=len(runs)).tolist()
        self.dependents = _grouped(runs.on, runs.waits, len(runs))
        communicating = np.flatnonzero(runs.activity >= 0)
        self.members = _grouped(runs.activity[communicating], communicating, activities)
        self.absent = [len(members) for members in self.members]
        self.unready = self.absent.copy()
        self.done: list[Signal | None] = [None] * activities
        self.parked: dict[int, Signal] = {}  # runs at the head of their streams that wait for others, and what ends them
        self.possible: list[tuple[bool, int]] = []  # activities of readiness-ordered streams that all members are ready for
        self.queue_of: dict[int, _Queue] = {}  # run -> its readiness-ordered stream
        self.gathers = set(program.activity[program.kind == _GATHER].tolist())
        self._start_processes(runs)

    def _start_processes(self, runs: Runs) -> None:
        by_rank: dict[int, list[tuple[bool, range]]] = {}
        bounds = runs.bounds.tolist()
        for stream, first, last in zip(self.program.streams, bounds, bounds[1:], strict=False):
            by_rank.setdefault(stream.rank, []).append((stream.in_order, range(first, last)))
        for streams in by_rank.values():
            self.clock.process(self._gpu(streams))

    def _gpu(self, streams: list[tuple[bool, range]]) -> Steps:
        """A GPU: one process per stream, alive until all have run dry."""
        processes = []
        for in_order, runs in streams:
            if in_order:
                processes.append(self.clock.process(self._in_order(runs)))
            else:
                queue = _Queue()
                self.queue_of.update(dict.fromkeys(runs, queue))
                processes.append(self.clock.process(self._by_readiness(queue, runs)))
        yield AllOf(self.clock, processes)

    def run(self, progress: Progress | None) -> Outcome:
        events, runs, program = 0, self.runs, self.program
        while handled := self.clock.handle(_EVENTS_BETWEEN_LOOKS):
            events += handled
            if progress is not None:
                progress(self.finished, len(runs), self.clock.now)
        start, end, arrival = (np.array(column, dtype=np.int64) for column in (self.start, self.end, self.arrival))
        if self.finished < len(runs):
            raise DeadlockError(explain(program, end[runs.of_op] != _PENDING, arrival[runs.of_op] != _PENDING))
        starts, computes = runs.starts(start), program.activity < 0
        ends = np.where(computes & (self.slowed is None), starts + program.duration_ps, end[runs.of_op])
        return Outcome(starts, ends, np.where(computes, starts, arrival[runs.of_op]), self.network.segments(), events)

    # Streams

    def _in_order(self, runs: range) -> Steps:
        """Sleeps through each run, from before it can start until it has ended."""
        unmet, activity, done, parked = self.unmet, self.activity, self.done, self.parked
        for run in runs:
            number = activity[run]
            if number < 0:
                signal = Signal()
                if unmet[run]:
                    parked[run] = signal
                else:
                    self._compute(run, signal)
                yield signal
                self._finish(run)
            else:
                signal = done[number]
                if signal is None:
                    signal = done[number] = Signal()
                if unmet[run]:
                    parked[run] = signal
                else:
                    self._arrive(run, number)
                yield signal
                self._deliver(run, number)

    def _by_readiness(self, queue: _Queue, runs: range) -> Steps:
        for run in runs:
            if not self.unmet[run]:
                self._ready(run)
        free_since = 0
        for _ in runs:
            while not queue.waiting:
                queue.signal = Signal()
                yield queue.signal
            run = queue.waiting.popleft()
            number = self.activity[run]
            if self.done[number] is None:
                self.done[number] = Signal()
            ready = self.arrival[run]
            self._arrive(run, number)
            self.arrival[run] = max(ready, free_since)
            yield self.done[number]
            self._deliver(run, number)
            free_since = self.clock.now

    def _ready(self, run: int) -> None:
        """A run of a readiness-ordered stream has what it waits for; its activity enters the streams when all members have."""
        self.arrival[run] = self.clock.now
        number = self.activity[run]
        self.unready[number] -= 1
        if self.unready[number]:
            return
        if not self.possible:
            self.clock.at_end_of_instant(self._enqueue)
        self.possible.append((number not in self.gathers, number))

    def _enqueue(self) -> None:
        # One order for all streams, gathers first, so that no two ranks can enter two collectives in opposite orders.
        for _, number in sorted(self.possible):
            for member in self.members[number]:
                queue = self.queue_of[member]
                queue.waiting.append(member)
                if queue.signal is not None:
                    self.clock.set_off(queue.signal, 0)
                    queue.signal = None
        self.possible = []

    # Runs and activities

    def _finish(self, run: int) -> None:
        now = self.clock.now
        self.end[run] = now
        self.finished += 1
        unmet = self.unmet
        for dependent in self.dependents[run]:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                signal = self.parked.pop(dependent, None)
                if signal is None:
                    if dependent in self.queue_of:
                        self._ready(dependent)
                elif self.activity[dependent] < 0:
                    self._compute(dependent, signal)
                else:
                    self._arrive(dependent, self.activity[dependent])

    def _compute(self, run: int, signal: Signal) -> None:
        self.start[run] = self.clock.now
        if self.slowed is None:
            self.clock.set_off(signal, self.duration[run])
        else:
            self.slowed.compute(self.rank[run], self.duration[run], signal)

    def _arrive(self, run: int, number: int) -> None:
        """One more member of an activity is there."""
        self.arrival[run] = self.clock.now
        self.absent[number] -= 1
        if not self.absent[number]:
            self._begin(number)

    def _begin(self, number: int) -> None:
        now, start = self.clock.now, self.start
        for member in self.members[number]:
            start[member] = now
            if self.slowed is not None and self.slows[member]:
                self.slowed.communicates(self.rank[member], 1)
        phases, done = self.phases[number], self.done[number]
        assert done is not None  # the first member to come made it
        if len(phases) == 1:
            self.network.send(phases[0], done)
        elif phases:
            self._send_first(phases, done)
        else:
            self.clock.set_off(done, 0)

    def _send_first(self, phases: tuple[int, ...], done: Signal) -> None:
        """One phase after another; the end of the last is the end of the activity."""
        across = done
        if len(phases) > 1:
            across = Signal()
            across.callbacks.append(lambda _: self._send_first(phases[1:], done))
        self.network.send(phases[0], across)

    def _deliver(self, run: int, number: int) -> None:
        """The stream is free; what waits for the data waits for the delay as well."""
        if self.slowed is not None and self.slows[run]:
            self.slowed.communicates(self.rank[run], -1)
        if self.delay[number]:
            self.clock.call_after(self.delay[number], self._finish, run)
        else:
            self._finish(run)


class _Queue:
    """What a readiness-ordered stream has to do, and what it sleeps on when that is nothing."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.signal: Signal | None = None


def _carriers(program: Program) -> list[set[int]]:
    """By phase the streams of those of its activities' members that come first: each runs one phase at a time."""
    carriers: list[set[int]] = [set() for _ in program.phases]
    communicating = np.flatnonzero(program.activity >= 0)
    activities, first = np.unique(program.activity[communicating], return_index=True)
    pairs = np.unique(np.stack([program.activity_transfer[activities], program.stream[communicating[first]]]), axis=1)
    for transfer, stream in pairs.T.tolist():
        for phase in program.transfers[transfer].phases:
            carriers[phase].add(stream)
    return carriers


def _grouped(keys: np.ndarray, values: np.ndarray, groups: int) -> list[tuple[int, ...] | list[int]]:
    """``values`` by key 0..groups-1, each group in the order given."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=groups)).tolist()
    sorted_values = values[order].tolist()
    start, result = 0, []
    for end in ends:
        result.append(sorted_values[start:end] if end > start else ())
        start = end
    return result
