"""Links: a SimPy process each, sharing their capacity among the flows that cross them.

The simulation knows one thing of the network: :meth:`Network.join`, called when the latency of a phase is over, with the signal that
the network sets off when its bytes are across.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from simpy import Environment

from clustersim.engine.events import Signal, call_after
from clustersim.engine.sharing import RATE_PER_BYTE_S, Demand, alone, demand, shares
from clustersim.program.program import Links, Phase


class Segment(NamedTuple):
    """A phase at one rate, on its busiest link, for a time."""

    phase: int
    start_ps: int
    end_ps: int
    rate_bytes_s: float


class Flow:
    """Bytes under way. ``work`` is what was left at ``since``, when ``rate`` began."""

    __slots__ = ("crossings", "done", "generation", "number", "on", "phase", "rate", "since", "slowest", "work")

    def __init__(self, number: int, phase: int, wanted: Demand, done: Signal, now: int) -> None:
        self.number, self.phase, self.done, self.since = number, phase, done, now
        self.work, self.crossings, self.on = wanted
        self.rate = 0
        self.slowest = -1  # the link that sets the rate
        self.generation = 0  # of its completion; one of an older generation is outdated


class Link:
    """One directed link. Its process sleeps until the earliest completion among the flows whose pace it sets."""

    def __init__(self, network: Network) -> None:
        self.network, self.env = network, network.env
        self.flows: dict[Flow, None] = {}
        self.completions: list[tuple[int, int, int, Flow]] = []
        self.alarm = Signal(self.env)
        self.alarm_at: int | None = None
        self.env.process(self._serve())

    def expect(self, flow: Flow, at: int) -> None:
        """``flow`` will be across at this time, unless its rate changes before."""
        heapq.heappush(self.completions, (at, flow.number, flow.generation, flow))
        if self.alarm_at is None or at < self.alarm_at:
            self._set_alarm(at)

    def _set_alarm(self, at: int) -> None:
        self.alarm_at = at
        call_after(self.env, at - self.env.now, self._ring, at)

    def _ring(self, at: int) -> None:
        if at == self.alarm_at:
            self.alarm_at = None
            self.alarm.after(0)

    def _serve(self):
        while True:
            yield self.alarm
            self.alarm = Signal(self.env)
            completions, now = self.completions, self.env.now
            while completions:
                at, _, generation, flow = completions[0]
                if generation == flow.generation and at > now:
                    break
                heapq.heappop(completions)
                if generation == flow.generation:
                    self.network.leave(flow)
            if completions and (self.alarm_at is None or completions[0][0] < self.alarm_at):
                self._set_alarm(completions[0][0])


class Network:
    """The links of a program, and the flows on them.

    A flow that meets no other starts at once; where flows meet, all that joined or left at one instant is settled once, at its end.
    ``segments`` is the record of all rates.
    """

    def __init__(self, env: Environment, links: Links, phases: Sequence[Phase]) -> None:
        self.env = env
        self.segments: list[Segment] = []
        self._capacities = [capacity * RATE_PER_BYTE_S for capacity in links.capacities_bytes_s]
        self._phases = phases
        self._demands: dict[int, tuple[Demand, int, int]] = {}  # by phase; with the rate and the link when it is alone
        self._links: dict[int, Link] = {}
        self._joined = 0
        self._unsettled: dict[Flow, None] = {}  # flows whose links have gained or lost a flow at this instant

    def join(self, phase: int, done: Signal) -> None:
        """Begin to move the bytes of a phase; set off ``done`` when they are across."""
        known = self._demands.get(phase)
        if known is None:
            wanted = demand(self._phases[phase].loads)
            known = self._demands[phase] = wanted, *alone(wanted.crossings, self._capacities)
        wanted, rate, slowest = known
        self._joined += 1
        flow = Flow(self._joined, phase, wanted, done, self.env.now)
        meets = False
        for crossing in wanted.crossings:
            link = self._links.get(crossing.link)
            if link is None:
                link = self._links[crossing.link] = Link(self)
            meets = meets or bool(link.flows)
            link.flows[flow] = None
        if meets:
            self._settle_later(flow)
        else:
            self._pace(flow, rate, slowest)

    def leave(self, flow: Flow) -> None:
        """The flow is across."""
        flow.generation += 1
        self._record(flow)
        for crossing in flow.crossings:
            flows = self._links[crossing.link].flows
            del flows[flow]
            for other in flows:
                if other.slowest == crossing.link:
                    self._settle_later(other)
        self._unsettled.pop(flow, None)
        flow.done.after(0)

    def _settle_later(self, flow: Flow) -> None:
        if not self._unsettled:
            signal = Signal(self.env)
            signal.callbacks.append(self._settle)
            signal.at_end_of_instant()
        self._unsettled[flow] = None

    def _settle(self, _: Signal) -> None:
        """Share anew among the unsettled flows and all that are reached from them through full links."""
        flows = self._unsettled
        self._unsettled = {}
        while True:
            ordered = sorted(flows, key=_number)
            rates = shares([flow.crossings for flow in ordered], self._left_by_others(ordered, flows))
            found = dict(zip(ordered, rates, strict=True))
            reached = self._no_longer_fair(found)
            if not reached:
                break
            flows.update(reached)
        for flow, (rate, slowest) in found.items():
            flow.slowest = slowest
            if rate != flow.rate:
                self._pace(flow, rate, slowest)

    def _left_by_others(self, ordered: list[Flow], flows: dict[Flow, None]) -> dict[int, int]:
        left: dict[int, int] = {}
        for flow in ordered:
            for crossing in flow.crossings:
                link = crossing.link
                if link not in left:
                    others = sum(_use(other, link, other.rate) for other in self._links[link].flows if other not in flows)
                    left[link] = max(0, self._capacities[link] - others)
        return left

    def _no_longer_fair(self, found: dict[Flow, tuple[int, int]]) -> dict[Flow, None]:
        """Flows not in ``found`` that have more on a link than one that it limits, or whose own link is no longer full."""
        reached: dict[Flow, None] = {}
        least: dict[int, int] = {}  # on each link, the least share of a flow that it limits
        for flow, (rate, slowest) in found.items():
            share = _share(flow, slowest, rate)
            least[slowest] = min(share, least.get(slowest, share))
        for link in dict.fromkeys(crossing.link for flow in found for crossing in flow.crossings):
            on_link = self._links[link].flows
            if all(flow in found for flow in on_link):
                continue
            used = sum(_use(flow, link, found[flow][0] if flow in found else flow.rate) for flow in on_link)
            full = self._capacities[link] - used <= _ROUNDING * len(on_link)
            for flow in on_link:
                if flow not in found and (
                    (link in least and _share(flow, link, flow.rate) > least[link] + _ROUNDING) or (not full and flow.slowest == link)
                ):
                    reached[flow] = None
        return reached

    def _pace(self, flow: Flow, rate: int, slowest: int) -> None:
        now = self.env.now
        if flow.rate:
            self._record(flow)
            flow.work = max(0, flow.work - flow.rate * (now - flow.since))
        flow.rate, flow.slowest, flow.since = rate, slowest, now
        flow.generation += 1
        self._links[slowest].expect(flow, now + (2 * flow.work + rate) // (2 * rate))

    def _record(self, flow: Flow) -> None:
        now = self.env.now
        if now > flow.since:
            self.segments.append(Segment(flow.phase, flow.since, now, flow.rate / RATE_PER_BYTE_S))


# Rates are whole numbers, so that equal shares may leave a few units of a full link unused.
_ROUNDING = 4


def _number(flow: Flow) -> int:
    return flow.number


def _share(flow: Flow, link: int, rate: int) -> int:
    """What one connection of the flow takes of a link, at a rate of the flow."""
    crossing = flow.on[link]
    return -(-rate * crossing.weight_numerator // crossing.weight_denominator)


def _use(flow: Flow, link: int, rate: int) -> int:
    """What all its connections take."""
    return flow.on[link].connections * _share(flow, link, rate)
