"""The simulation: GPUs and their streams as SimPy processes, activities between them, one integer clock.

>>> import numpy as np
>>> from clustersim.program.program import Links, Program, Stream
>>> ints = lambda *values: np.array(values, dtype=np.int64)
>>> zero = ints(0, 0)
>>> program = Program(zero, zero, zero, zero, zero, zero, zero, ints(3, 4), zero, zero, zero - 1, zero - 1, ints(), ints(), ints(),
...                   (), (), (Stream(0, "compute", True, (0, 1)),), Links((), (), (), ()), {0: 1})
>>> simulate(program).end_ps
array([3, 7])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from simpy import AllOf, Environment
from simpy.core import EmptySchedule

from clustersim.engine.deadlock import explain
from clustersim.engine.events import Signal, call_after
from clustersim.engine.links import Network, Segment
from clustersim.errors import DeadlockError, InputError
from clustersim.program.kinds import KIND_CODE
from clustersim.program.program import Program, Stream

Progress = Callable[[int, int, int], None]
"""Called now and then with ops done, ops in all, and the simulated time in ps."""

_EVENTS_BETWEEN_LOOKS = 20_000
_GATHER = KIND_CODE["gather"]
_PENDING = -1
_LONGEST_DAYS = 2**63 // 10**12 // 86_400


@dataclass(frozen=True)
class Outcome:
    """When each op started and ended, and since when it had been ready while it waited for peers, in ps; the rates of transfers."""

    start_ps: np.ndarray
    end_ps: np.ndarray
    arrival_ps: np.ndarray
    segments: list[Segment]
    events: int


def simulate(program: Program, progress: Progress | None = None) -> Outcome:
    """Run a program to its end. DeadlockError, with the cycle, when it can make no progress."""
    return _Simulation(program).run(progress)


class _Simulation:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.env = Environment(initial_time=0)
        self.network = Network(self.env, program.links, program.phases)
        ops, activities = program.ops, len(program.activity_transfer)
        self.duration = program.duration_ps.tolist()
        self.activity = program.activity.tolist()
        self.transfer = program.activity_transfer.tolist()
        self.start = [_PENDING] * ops
        self.end = [_PENDING] * ops
        self.arrival = [_PENDING] * ops
        self.finished = 0
        self.unmet = np.bincount(program.dependency_op, minlength=ops).tolist()
        self.dependents = _grouped(program.dependency_on, program.dependency_op, ops)
        communicates = program.activity >= 0
        self.members = _grouped(program.activity[communicates], np.flatnonzero(communicates), activities)
        self.absent = [len(members) for members in self.members]
        self.unready = self.absent.copy()
        self.done: list[Signal | None] = [None] * activities
        self.parked: dict[int, Signal] = {}  # op -> what its stream sleeps on until the op's dependencies are met
        self.possible: list[tuple[bool, int]] = []  # activities of readiness-ordered streams that all members are ready for
        self.queue_of: dict[int, _Queue] = {}  # op -> its readiness-ordered stream
        self._start_processes()

    def _start_processes(self) -> None:
        by_rank: dict[int, list[Stream]] = {}
        for stream in self.program.streams:
            by_rank.setdefault(stream.rank, []).append(stream)
        for streams in by_rank.values():
            self.env.process(self._gpu(streams))

    def _gpu(self, streams: list[Stream]):
        """A GPU: one process per stream, alive until all have run dry."""
        processes = []
        for stream in streams:
            if stream.in_order:
                processes.append(self.env.process(self._in_order(stream.ops)))
            else:
                queue = _Queue(self.env)
                self.queue_of.update(dict.fromkeys(stream.ops, queue))
                processes.append(self.env.process(self._by_readiness(queue, stream.ops)))
        yield AllOf(self.env, processes)

    def run(self, progress: Progress | None) -> Outcome:
        step, events = self.env.step, 0
        try:
            while True:
                for _ in range(_EVENTS_BETWEEN_LOOKS):
                    step()
                    events += 1
                if progress is not None:
                    progress(self.finished, self.program.ops, self.env.now)
        except EmptySchedule:
            pass
        if self.finished < self.program.ops:
            arrived = [arrival != _PENDING for arrival in self.arrival]
            raise DeadlockError(explain(self.program, [end != _PENDING for end in self.end], arrived))
        try:
            start, end, arrival = (np.array(column, dtype=np.int64) for column in (self.start, self.end, self.arrival))
        except OverflowError:
            raise InputError(
                f"the step takes longer than the clock counts ({_LONGEST_DAYS} days);"
                " use faster links, shorter times or less work"
            ) from None
        return Outcome(start, end, arrival, self.network.segments, events)

    # Streams

    def _in_order(self, ops: tuple[int, ...]):
        env, unmet, parked, activity, start, arrival = self.env, self.unmet, self.parked, self.activity, self.start, self.arrival
        for op in ops:
            if unmet[op]:
                parked[op] = signal = Signal(env)
                yield signal
            arrival[op] = env.now
            number = activity[op]
            if number < 0:
                start[op] = env.now
                if self.duration[op]:
                    yield env.timeout(self.duration[op])
                self._finish(op)
            else:
                yield self._arrive(number)
                self._deliver(op, number)

    def _by_readiness(self, queue: _Queue, ops: tuple[int, ...]):
        for op in ops:
            if not self.unmet[op]:
                self._ready(op)
        free_since = 0
        for _ in ops:
            while not queue.waiting:
                queue.signal = Signal(self.env)
                yield queue.signal
            op = queue.waiting.popleft()
            self.arrival[op] = max(self.arrival[op], free_since)
            yield self._arrive(self.activity[op])
            self._deliver(op, self.activity[op])
            free_since = self.env.now

    def _ready(self, op: int) -> None:
        """An op of a readiness-ordered stream has its dependencies; its activity enters the streams when all members have."""
        self.arrival[op] = self.env.now
        number = self.activity[op]
        self.unready[number] -= 1
        if self.unready[number]:
            return
        if not self.possible:
            signal = Signal(self.env)
            signal.callbacks.append(self._enqueue)
            signal.at_end_of_instant()
        self.possible.append((int(self.program.kind[op]) != _GATHER, number))

    def _enqueue(self, _: Signal) -> None:
        # One order for all streams, gathers first, so that no two ranks can enter two collectives in opposite orders.
        for _, number in sorted(self.possible):
            for member in self.members[number]:
                queue = self.queue_of[member]
                queue.waiting.append(member)
                if queue.signal is not None:
                    queue.signal.after(0)
                    queue.signal = None
        self.possible = []

    # Ops and activities

    def _finish(self, op: int) -> None:
        self.end[op] = self.env.now
        self.finished += 1
        unmet = self.unmet
        for dependent in self.dependents[op]:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                signal = self.parked.pop(dependent, None)
                if signal is not None:
                    signal.after(0)
                elif dependent in self.queue_of:
                    self._ready(dependent)

    def _arrive(self, number: int) -> Signal:
        """One more member of an activity is there; the signal of its end."""
        done = self.done[number]
        if done is None:
            done = self.done[number] = Signal(self.env)
        self.absent[number] -= 1
        if not self.absent[number]:
            self._begin(number, done)
        return done

    def _begin(self, number: int, done: Signal) -> None:
        now = self.env.now
        for member in self.members[number]:
            self.start[member] = now
        phases = self.program.transfers[self.transfer[number]].phases
        if phases:
            self._start_phase(phases, 0, done)
        else:
            done.after(0)

    def _start_phase(self, phases: tuple[int, ...], position: int, done: Signal) -> None:
        """Latency, then bytes; the end of the last phase is the end of the activity."""
        latency, loads = self.program.phases[phases[position]]
        across = done
        if position + 1 < len(phases):
            across = Signal(self.env)
            across.callbacks.append(lambda _: self._start_phase(phases, position + 1, done))
        if not loads:
            across.after(latency)
        elif latency:
            call_after(self.env, latency, self._join, (phases[position], across))
        else:
            self.network.join(phases[position], across)

    def _join(self, what: tuple[int, Signal]) -> None:
        self.network.join(*what)

    def _deliver(self, op: int, number: int) -> None:
        """The stream is free; what waits for the data waits for the delay as well."""
        delay = self.program.transfers[self.transfer[number]].delay_ps
        if delay:
            call_after(self.env, delay, self._finish, op)
        else:
            self._finish(op)


class _Queue:
    """What a readiness-ordered stream has to do, and what it sleeps on when that is nothing."""

    def __init__(self, env: Environment) -> None:
        self.waiting: deque[int] = deque()
        self.signal: Signal | None = None


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
