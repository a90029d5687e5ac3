"""Links: a SimPy process each, sharing their capacity among the flows that cross them.

The simulation knows one thing of the network: :meth:`Network.join`, called when the latency of a phase is over, with the signal that
the network sets off when its bytes are across.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simpy import Environment

from clustersim.engine.events import Signal
from clustersim.engine.sharing import BITS, RATE_PER_BYTE_S, UNIT, Crossing, alone, demand, shares
from clustersim.program.program import Links, Phase
from clustersim.units import PS_PER_S


class Segment(NamedTuple):
    """A phase at one pace, so much of it a second, for a time."""

    phase: int
    start_ps: int
    end_ps: int
    pace_per_s: float


class Way(NamedTuple):
    """What all flows of a phase have in common: work, links, and the rate of a flow that meets no other with the link that sets it.

    ``most`` is what such a flow takes of each of its links, in the order of ``crossings``; ``on`` is by link.
    """

    work: int
    crossings: tuple[Crossing, ...]
    links: tuple[Link, ...]
    on: dict[int, Crossing]
    alone: tuple[int, int]
    most: tuple[int, ...]


class Flow:
    """Bytes under way. ``work`` is what was left at ``since``, when ``rate`` began."""

    __slots__ = ("crossings", "done", "generation", "number", "phase", "rate", "since", "slowest", "way", "work")

    def __init__(self, number: int, phase: int, way: Way, done: Signal, now: int) -> None:
        self.number, self.phase, self.way, self.done, self.since = number, phase, way, done, now
        self.work, self.crossings = way.work, way.crossings
        self.rate = 0
        self.slowest = -1  # the link that sets the rate
        self.generation = 0  # of its completion; one of an older generation is outdated

    def level(self, link: int) -> int:
        """The share of a whole connection on a link at this rate."""
        crossing = self.way.on[link]
        return (crossing.share(self.rate) << BITS) // crossing.part


class Link:
    """One directed link. Its process sleeps until the earliest completion among the flows whose pace it sets.

    ``used`` is what the flows take of it at their rates, ``wanted`` what they would take if each were alone, ``limited`` the flows
    whose pace it sets. All are kept up to date, so that an event costs nothing for flows that it does not change.
    """

    def __init__(self, network: Network, number: int, capacity: int) -> None:
        self.network, self.env, self.number, self.capacity = network, network.env, number, capacity
        self.flows: dict[Flow, None] = {}
        self.limited: dict[Flow, None] = {}
        self.used = self.wanted = self.connections = 0
        self.completions: list[tuple[int, int, int, Flow]] = []
        self.alarm = Signal(self.env)
        self.alarm_at: int | None = None
        self.env.process(self._serve())

    @property
    def rounding(self) -> int:
        """Rates are whole numbers, so that fair shares may leave a few units of a full link unused."""
        return _ROUNDING * self.connections

    def expect(self, flow: Flow, at: int) -> None:
        """``flow`` will be across at this time, unless its rate changes before."""
        if len(self.completions) > 2 * len(self.limited) + _FEW:  # most are outdated
            self.completions = [each for each in self.completions if each[2] == each[3].generation]
            heapq.heapify(self.completions)
        heapq.heappush(self.completions, (at, flow.number, flow.generation, flow))
        if self.alarm_at is None or at < self.alarm_at:
            self._set_alarm(at)

    def _set_alarm(self, at: int) -> None:
        if self.alarm_at is not None:
            # The process sleeps on an alarm that would come too late: it gets another, and nobody listens to the old one.
            sleeper = self.alarm.callbacks
            self.alarm.callbacks = []
            self.alarm = Signal(self.env)
            self.alarm.callbacks = sleeper
        self.alarm_at = at
        self.alarm.after(at - self.env.now)

    def _serve(self):
        while True:
            yield self.alarm
            self.alarm, self.alarm_at = Signal(self.env), None
            completions, now = self.completions, self.env.now
            while completions:
                at, _, generation, flow = completions[0]
                if generation == flow.generation and at > now:
                    break
                heapq.heappop(completions)
                if generation == flow.generation:
                    self.network.leave(flow)
            if completions:
                self._set_alarm(completions[0][0])


class Network:
    """The links of a program, and the flows on them.

    A flow whose links can bear it and all others at their best starts at once; where flows meet on a link that cannot, all that joined
    or left at one instant is settled once, at its end. ``segments`` is the record of all rates, ``retimed`` the number of changes of
    a rate.
    """

    def __init__(self, env: Environment, links: Links, phases: Sequence[Phase]) -> None:
        self.env = env
        self.segments: list[Segment] = []
        self.retimed = 0
        self._capacities = [capacity * RATE_PER_BYTE_S for capacity in links.capacities_bytes_s]
        self._phases = phases
        self._ways: dict[int, Way] = {}  # by phase
        self._links: dict[int, Link] = {}
        self._joined = 0
        self._unsettled: dict[Flow, None] = {}  # flows whose links have gained or lost a flow at this instant

    def join(self, phase: int, done: Signal) -> None:
        """Begin to move the bytes of a phase; set off ``done`` when they are across."""
        way = self._ways.get(phase)
        if way is None:
            way = self._ways[phase] = self._find_way(phase)
        self._joined += 1
        flow = Flow(self._joined, phase, way, done, self.env.now)
        contested = False
        for link, crossing, most in zip(way.links, way.crossings, way.most):
            link.flows[flow] = None
            link.connections += crossing.connections
            link.wanted += most
            contested = contested or link.wanted > link.capacity
        if contested:
            self._settle_later((flow,))
        else:
            self._pace(flow, *way.alone)

    def leave(self, flow: Flow) -> None:
        """The flow is across."""
        self._record(flow)
        self._take(flow, 0)
        flow.generation += 1
        way = flow.way
        for link, crossing, most in zip(way.links, way.crossings, way.most):
            del link.flows[flow]
            link.limited.pop(flow, None)
            if link.limited:
                self._settle_later(link.limited)
            link.connections -= crossing.connections
            link.wanted -= most
        self._unsettled.pop(flow, None)
        flow.done.after(0)

    def _find_way(self, phase: int) -> Way:
        work, crossings = demand(self._phases[phase].loads)
        for crossing in crossings:
            if crossing.link not in self._links:
                self._links[crossing.link] = Link(self, crossing.link, self._capacities[crossing.link])
        links = tuple(self._links[crossing.link] for crossing in crossings)
        rate, slowest = alone(crossings, self._capacities)
        most = tuple(crossing.connections * crossing.share(rate) for crossing in crossings)
        on = {crossing.link: crossing for crossing in crossings}
        return Way(work, crossings, links, on, (rate, slowest), most)

    def _settle_later(self, flows: Iterable[Flow]) -> None:
        if not self._unsettled:
            signal = Signal(self.env)
            signal.callbacks.append(self._settle)
            signal.at_end_of_instant()
        self._unsettled.update(dict.fromkeys(flows))

    def _settle(self, _: Signal) -> None:
        """Share anew among the unsettled flows and all that are reached from them through full links."""
        flows: dict[Flow, tuple[int, int]] = {}  # with their new rates, and the links that set them
        contested: list[list[Crossing]] = []
        left: dict[int, int] = {}  # by link, what the others leave
        new, self._unsettled = self._unsettled, {}
        while new:
            contested += [self._contested(flow, left) for flow in new]
            flows.update(dict.fromkeys(new, (0, -1)))
            rates = shares(contested, left, [flow.way.alone for flow in flows])
            flows = dict(zip(flows, rates, strict=True))
            new = self._no_longer_fair(flows, contested, left)
        for flow in sorted(flows, key=_number):
            rate, slowest = flows[flow]
            if rate != flow.rate:
                self._pace(flow, rate, slowest)
            elif slowest != flow.slowest:
                self._limit(flow, slowest)

    def _contested(self, flow: Flow, left: dict[int, int]) -> list[Crossing]:
        """The uses of links that can hold up the flow, which gives back what it takes of them."""
        contested = []
        for link, crossing in zip(flow.way.links, flow.crossings):
            if link.wanted > link.capacity:
                contested.append(crossing)
                number = crossing.link
                if number not in left:
                    left[number] = link.capacity - link.used
                left[number] += crossing.connections * crossing.share(flow.rate)
        return contested

    def _no_longer_fair(
        self, found: dict[Flow, tuple[int, int]], contested: list[list[Crossing]], left: dict[int, int]
    ) -> dict[Flow, None]:
        """Flows not in ``found`` that have more on a link than one that it limits, or that their own link could give more.

        What is compared are the shares of whole connections.
        """
        inside = dict.fromkeys(left, 0)  # by link: how many of its flows are in ``found``,
        rest = dict(left)  # what they leave,
        most = dict.fromkeys(left, 0)  # the greatest share that one of them has,
        least: dict[int, int] = {}  # and the least of one that the link limits
        for crossings, (rate, slowest) in zip(contested, found.values(), strict=True):
            for link, weight, part, connections in crossings:
                level = share = rate if weight == UNIT else rate * weight >> BITS
                if part != UNIT:
                    level = (share << BITS) // part
                inside[link] += 1
                rest[link] -= connections * share
                if level > most[link]:
                    most[link] = level
                if link == slowest and level < least.get(link, level + 1):
                    least[link] = level
        reached: dict[Flow, None] = {}
        for number, count in inside.items():
            link = self._links[number]
            if count == len(link.flows):
                continue
            rounding = link.rounding
            full = rest[number] <= rounding
            for flow in link.limited:
                if flow not in found and (not full or flow.level(number) + rounding < most[number]):
                    reached[flow] = None
            if number in least:
                fair = least[number] + rounding
                for flow in link.flows:
                    if flow not in found and flow.level(number) > fair:
                        reached[flow] = None
        return reached

    def _pace(self, flow: Flow, rate: int, slowest: int) -> None:
        now = self.env.now
        if flow.rate:
            self._record(flow)
            flow.work = max(0, flow.work - flow.rate * (now - flow.since))
        self._take(flow, rate)
        self._limit(flow, slowest)
        self.retimed += 1
        flow.rate, flow.since = rate, now
        flow.generation += 1
        self._links[slowest].expect(flow, now + (2 * flow.work + rate) // (2 * rate))

    def _take(self, flow: Flow, rate: int) -> None:
        """The flow takes of its links what this rate needs."""
        before = flow.rate
        for link, (_, weight, _, connections) in zip(flow.way.links, flow.crossings):
            if weight == UNIT:
                link.used += connections * (rate - before)
            else:
                link.used += connections * ((rate * weight >> BITS) - (before * weight >> BITS))

    def _limit(self, flow: Flow, slowest: int) -> None:
        if slowest != flow.slowest:
            if flow.slowest >= 0:
                self._links[flow.slowest].limited.pop(flow, None)
            flow.slowest = slowest
            self._links[slowest].limited[flow] = None

    def _record(self, flow: Flow) -> None:
        now = self.env.now
        if now > flow.since:
            self.segments.append(Segment(flow.phase, flow.since, now, flow.rate * PS_PER_S / flow.way.work))


_ROUNDING = 64  # rate units for each connection, of which a part may be a small one
_FEW = 16  # completions that are not worth tidying up


def _number(flow: Flow) -> int:
    return flow.number
