"""SimPy's clock and queue on integer picoseconds, with the few calls that make up most of a simulation kept short."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any

from simpy import Environment
from simpy.core import EmptySchedule

Steps = Generator[Any, None, None]
"""What a process yields: signals, or SimPy's own events."""

_NORMAL, _AFTER_THE_REST = 1, 2  # SimPy's own priorities are 0 and 1


class Signal:
    """What any number of processes wait for and that is set off once, by a :class:`Clock` or at once.

    It is all of SimPy's Event that a process and the queue look at, in a fourth of the memory.

    >>> clock, seen = Clock(), []
    >>> clock.call_after(5, seen.append, "later")
    >>> clock.run()
    >>> clock.now, seen
    (5, ['later'])
    """

    __slots__ = ("callbacks",)
    _ok, _value = True, None  # it cannot fail, and carries nothing

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []

    def now(self) -> None:
        """Set off within the event that is being handled, without one of its own."""
        callbacks, self.callbacks = self.callbacks, None  # type: ignore[assignment]  # SimPy's mark of what has happened
        for callback in callbacks:
            callback(self)


class Clock(Environment):
    """A SimPy environment that begins at 0 ps."""

    _queue: Any  # has signals beside SimPy's events
    now = 0
    """The simulated time in ps."""

    def set_off(self, signal: Signal, delay_ps: int) -> None:
        """Set off a signal, after a delay or at this time."""
        heappush(self._queue, (self.now + delay_ps, _NORMAL, next(self._eid), signal))

    def at_end_of_instant(self, function: Callable[[], None]) -> None:
        """Call a function at this time, once everything else that happens now has happened."""
        signal = Signal()
        signal.callbacks.append(lambda _: function())
        heappush(self._queue, (self.now, _AFTER_THE_REST, next(self._eid), signal))

    def call_after(self, delay_ps: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call ``function(argument)`` after a delay, without a process of its own."""
        signal = Signal()
        signal.callbacks.append(lambda _: function(argument))
        heappush(self._queue, (self.now + delay_ps, _NORMAL, next(self._eid), signal))

    def handle(self, most: int) -> int:
        """Handle so many events, or all there are if those are fewer; how many."""
        queue = self._queue
        for handled in range(most):
            if not queue:
                return handled
            at, _, _, event = heappop(queue)
            self.now = self._now = at
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok:
                raise event._value  # of a process, which nobody else waits for
        return most

    def step(self) -> None:
        """Handle one event; SimPy's EmptySchedule when there is none."""
        if not self.handle(1):
            raise EmptySchedule
