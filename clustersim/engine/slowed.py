"""Compute that is slower while a collective of its rank is under way.

A collective's kernels take multiprocessors and memory bandwidth from those that compute beside them. Work is counted in whole
parts of a picosecond, so that it is exact however often it is interrupted.

>>> clock, seen = Clock(), []
>>> ranks = Slowed(clock, 250_000)
>>> signal = Signal()
>>> signal.callbacks.append(lambda _: seen.append(clock.now))
>>> ranks.compute(0, 100, signal)
>>> clock.call_after(40, lambda _: ranks.communicates(0, 1), None)
>>> clock.call_after(65, lambda _: ranks.communicates(0, -1), None)
>>> clock.run()
>>> seen  # 40 ps alone, 20 of the 100 in 25, the rest alone
[105]
"""

from __future__ import annotations

from clustersim.engine.events import Clock, Signal

_MILLION = 1_000_000


class Slowed:
    """By rank: collectives under way, and what is left of the compute that runs. Compute beside them takes 1 + ``ppm``/10^6 as long."""

    def __init__(self, clock: Clock, ppm: int) -> None:
        self.clock, self.paces = clock, (_MILLION + ppm, _MILLION)
        self.beside: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.since: dict[int, int] = {}
        self.running: dict[int, Signal] = {}
        self.alarm: dict[int, Signal] = {}  # the one that counts; earlier ones are outdated

    def compute(self, rank: int, duration_ps: int, signal: Signal) -> None:
        """Begin to compute on a rank that does not, and set off ``signal`` at the end."""
        self.running[rank] = signal
        self.left[rank] = duration_ps * self.paces[0]
        self._time(rank)

    def communicates(self, rank: int, change: int) -> None:
        """One more collective of the rank is under way, or one fewer (-1)."""
        before = self.beside.get(rank, 0)
        if rank in self.running and bool(before) != bool(before + change):
            self.left[rank] -= (self.clock.now - self.since[rank]) * self.paces[bool(before)]
            self.beside[rank] = before + change
            self._time(rank)
        else:
            self.beside[rank] = before + change

    def _time(self, rank: int) -> None:
        self.since[rank] = self.clock.now
        alarm = self.alarm[rank] = Signal()
        alarm.callbacks.append(lambda _: self._end(rank, alarm))
        self.clock.set_off(alarm, max(0, -(-self.left[rank] // self.paces[bool(self.beside.get(rank))])))

    def _end(self, rank: int, alarm: Signal) -> None:
        if self.alarm.get(rank) is alarm:
            del self.alarm[rank]
            self.running.pop(rank).now()
