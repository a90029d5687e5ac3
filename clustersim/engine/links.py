"""Links: a SimPy process each, which carries the bytes of activities and tells when they are across.

The engine knows two things of the network: :meth:`Network.join`, called when an activity's latency is over, and the signal that
the network sets off when its bytes are across. Here every activity has its links to itself, which is exact when no two meet.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from simpy import Environment

from clustersim.engine.events import Signal, call_after
from clustersim.program.program import Links, Transfer
from clustersim.units import transfer_ps


class Link:
    """One directed link. Its process sleeps until the earliest completion among the activities it is the bottleneck of."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.completions: list[tuple[int, int, Signal]] = []
        self.generation = 0  # a wake-up of an older generation is outdated
        self.alarm = Signal(env)
        self.joined = 0
        env.process(self._serve())

    def carry(self, duration_ps: int, done: Signal) -> None:
        self.joined += 1
        completion = (self.env.now + duration_ps, self.joined, done)
        heapq.heappush(self.completions, completion)
        if self.completions[0] is completion:
            self._wake_at_next()

    def _wake_at_next(self) -> None:
        self.generation += 1
        call_after(self.env, self.completions[0][0] - self.env.now, self._ring, self.generation)

    def _ring(self, generation: int) -> None:
        if generation == self.generation:
            self.alarm.after(0)

    def _serve(self):
        while True:
            yield self.alarm
            self.alarm = Signal(self.env)
            while self.completions and self.completions[0][0] <= self.env.now:
                heapq.heappop(self.completions)[2].after(0)
            if self.completions:
                self._wake_at_next()


class Network:
    """The links of a program. A link's process starts when the first activity crosses it."""

    def __init__(self, env: Environment, links: Links, transfers: Sequence[Transfer]) -> None:
        self.env = env
        self._capacities = links.capacities_bytes_s
        self._transfers = transfers
        self._links: dict[int, Link] = {}
        self._bottleneck: dict[int, tuple[int, int]] = {}  # transfer -> (link, time on it)

    def join(self, transfer: int, done: Signal) -> None:
        """Begin to move the bytes of a transfer that loads links; set off ``done`` when they are across."""
        bottleneck = self._bottleneck.get(transfer)
        if bottleneck is None:
            bottleneck = self._bottleneck[transfer] = self._slowest(self._transfers[transfer])
        link = self._links.get(bottleneck[0])
        if link is None:
            link = self._links[bottleneck[0]] = Link(self.env)
        link.carry(bottleneck[1], done)

    def _slowest(self, transfer: Transfer) -> tuple[int, int]:
        times = [(transfer_ps(volume, self._capacities[link]), link) for link, volume in transfer.loads]
        duration, link = max(times, key=lambda time: time[0])
        return link, max(duration, transfer.least_ps)
