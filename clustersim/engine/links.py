"""Links: a SimPy process each, sharing their capacity among the flows that cross them.

The simulation knows one thing of the network: :meth:`Network.send`, with the signal that the network sets off when the bytes of a phase
are across.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from clustersim.engine.events import Clock, Signal, Steps
from clustersim.engine.record import Record, Segments
from clustersim.engine.sharing import BITS, RATE_PER_BYTE_S, UNIT, Crossing, shares
from clustersim.engine.ways import Way, find_ways
from clustersim.program.program import Links, Phase


class Flow(Signal):
    """Bytes under way on a way with others, and as a signal the end of their latency. ``done`` is set off when they are across."""

    __slots__ = ("bundle", "done", "number", "phase", "since", "work")
    number: int  # in the order of joining
    since: int

    def __init__(self, phase: int, work: int, bundle: Bundle, done: Signal) -> None:
        self.callbacks = []
        self.phase, self.work, self.bundle, self.done = phase, work, bundle, done


class Bundle:
    """The flows that are on one way at a time; all go at one rate.

    ``moved`` is the work that a flow which was always there had done at ``since``, when ``rate`` began; ``ends`` orders the flows by
    what ``moved`` will be when they are across. ``slowest`` is the link that sets the rate.
    """

    __slots__ = ("count", "crossings", "ends", "expected", "generation", "moved", "number", "rate", "since", "slowest", "uses", "way")

    def __init__(self, number: int, way: Way, uses: Uses) -> None:
        self.number, self.way, self.uses = number, way, uses
        self.ends: list[tuple[int, int, Flow]] = []
        self.expected: Flow | None = None
        self.count = self.rate = self.moved = self.since = 0
        self.generation = 0  # of what is expected; an older one is outdated
        self.slowest = -1
        self.crossings = {1: way.crossings}  # by count

    @property
    def held_up(self) -> bool:
        """Whether the flows could go faster if each were alone."""
        return self.rate < self.way.alone[0]

    def level(self, link: int) -> int:
        """The share of a whole connection on a link at this rate."""
        crossing = self.way.on[link]
        return (crossing.share(self.rate) << BITS) // crossing.part

    def together(self) -> tuple[Crossing, ...]:
        """The crossings of all its flows."""
        if self.count not in self.crossings:
            self.crossings[self.count] = tuple(one._replace(connections=self.count * one.connections) for one in self.way.crossings)
        return self.crossings[self.count]


class Link:
    """One directed link. Its process sleeps until the earliest completion among the flows whose pace it sets.

    ``used`` is what the flows take of it at their rates, ``wanted`` what they would take if each were alone, ``limited`` the bundles
    that it holds up. All are kept up to date, so that an event costs nothing for flows that it does not change.
    """

    __slots__ = (
        "alarm", "alarm_at", "bundles", "capacity", "clock", "completions", "connections", "limited", "network", "number", "used", "wanted"
    )  # fmt: skip

    def __init__(self, network: Network, number: int, capacity: int) -> None:
        self.network, self.clock, self.number, self.capacity = network, network.clock, number, capacity
        self.bundles: dict[Bundle, None] = {}
        self.limited: dict[Bundle, None] = {}
        self.used = self.wanted = self.connections = 0
        self.completions: list[tuple[int, int, int, Bundle]] = []
        self.alarm = Signal()
        self.alarm_at: int | None = None
        self.clock.process(self._serve())

    @property
    def rounding(self) -> int:
        """Rates are whole numbers, so that fair shares may leave a few units of a full link unused."""
        return _ROUNDING * self.connections

    def expect(self, bundle: Bundle, at: int) -> None:
        """The first flow of the bundle will be across at this time, unless its rate changes before."""
        completions = self.completions
        if len(completions) > _FEW and len(completions) > 2 * len(self.bundles) + _FEW:  # most are outdated
            completions = self.completions = [each for each in completions if each[2] == each[3].generation]
            heapq.heapify(completions)
        heapq.heappush(completions, (at, bundle.number, bundle.generation, bundle))
        if self.alarm_at is None or at < self.alarm_at:
            self._set_alarm(at)

    def _set_alarm(self, at: int) -> None:
        if self.alarm_at is not None:
            # The process sleeps on an alarm that would come too late: it gets another, and nobody listens to the old one.
            sleeper = self.alarm.callbacks
            self.alarm.callbacks = []
            self.alarm = Signal()
            self.alarm.callbacks = sleeper
        self.alarm_at = at
        self.clock.set_off(self.alarm, at - self.clock.now)

    def _serve(self) -> Steps:
        while True:
            yield self.alarm
            self.alarm, self.alarm_at = Signal(), None
            now = self.clock.now
            across: list[Signal] = []
            while self.completions:
                at, _, generation, bundle = self.completions[0]
                if generation == bundle.generation:
                    if at > now:
                        self._set_alarm(at)
                        break
                    heapq.heappop(self.completions)
                    across += self.network.leave(bundle)
                else:
                    heapq.heappop(self.completions)
            for done in across:
                done.now()


Uses = tuple[tuple[Link, Crossing, int], ...]
"""The links of a way, how each is crossed, and what a flow that meets no other takes of it."""


class Network:
    """The links of a program, and the flows on them.

    A flow whose links can bear it and all others at their best starts at once; where flows meet on a link that cannot, all that joined
    or left at one instant is settled once, at its end. ``record`` tells all rates, ``retimed`` counts their changes. ``carriers`` as in
    :func:`clustersim.engine.ways.find_ways`.
    """

    def __init__(self, clock: Clock, links: Links, phases: Sequence[Phase], carriers: Sequence[Collection[int]] | None = None) -> None:
        self.clock = clock
        self.record = Record()
        self.retimed = 0
        capacities = [capacity * RATE_PER_BYTE_S for capacity in links.capacities_bytes_s]
        self._works, self._way_of, ways = find_ways(phases, capacities, carriers)
        used = dict.fromkeys(crossing.link for way in ways for crossing in way.crossings)
        self._links = {number: Link(self, number, capacities[number]) for number in used}
        self._bundles = [
            Bundle(number, way, tuple((self._links[one.link], one, most) for one, most in zip(way.crossings, way.most, strict=True)))
            for number, way in enumerate(ways)
        ]
        self._latencies_ps = [phase.latency_ps for phase in phases]
        self._joined = 0
        self._known: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        self._unsettled: dict[Bundle, None] = {}  # bundles whose links have gained or lost a flow at this instant

    def send(self, phase: int, done: Signal) -> None:
        """Move a phase: its latency, then its bytes; set off ``done`` when they are across."""
        latency, way = self._latencies_ps[phase], self._way_of[phase]
        if way < 0:
            self.clock.set_off(done, latency)
            return
        flow = Flow(phase, self._works[phase], self._bundles[way], done)
        if latency:
            flow.callbacks.append(self._join)
            self.clock.set_off(flow, latency)
        else:
            self._join(flow)

    def segments(self) -> Segments:
        """All paces so far of flows that are across."""
        return self.record.segments(self._works)

    def _join(self, flow: Flow) -> None:
        self._joined += 1
        flow.number, flow.since = self._joined, self.clock.now
        bundle = flow.bundle
        rate, now = bundle.rate, flow.since
        heapq.heappush(bundle.ends, (bundle.moved + rate * (now - bundle.since) + flow.work, flow.number, flow))
        bundle.count += 1
        contested = False
        for link, crossing, most in bundle.uses:
            link.connections += crossing[3]
            link.wanted += most
            if link.wanted > link.capacity:
                contested = True
        if rate:
            for link, (_, weight, _, connections), _ in bundle.uses:
                link.used += connections * (rate if weight == UNIT else rate * weight >> BITS)
        elif bundle.count == 1:
            for link, _, _ in bundle.uses:
                link.bundles[bundle] = None
        if contested:  # as always where another flow is on the same way, since one alone fills a link
            self._settle_later((bundle,))
        else:
            self._pace(bundle, *bundle.way.alone)

    def leave(self, bundle: Bundle) -> list[Signal]:
        """The flows of the bundle that are across by now go; their signals."""
        now, rate, ends = self.clock.now, bundle.rate, bundle.ends
        moved = bundle.moved + rate * (now - bundle.since)
        across = []
        while ends and 2 * (ends[0][0] - moved) < rate:
            _, _, flow = heapq.heappop(ends)
            self.record.flow(flow.phase, bundle.number, flow.since, now)
            across.append(flow.done)
        gone = len(across)
        bundle.count -= gone
        for link, (_, weight, _, connections), most in bundle.uses:
            link.used -= gone * connections * (rate if weight == UNIT else rate * weight >> BITS)
            link.connections -= gone * connections
            link.wanted -= gone * most
            if not bundle.count:
                del link.bundles[bundle]
                link.limited.pop(bundle, None)
            if link.limited:
                self._settle_later(link.limited)
        if bundle.count:
            self._expect(bundle)
        else:
            bundle.generation += 1
            bundle.rate = bundle.moved = 0
            self._unsettled.pop(bundle, None)
        return across

    def _expect(self, bundle: Bundle) -> None:
        """Set the time at which the first flow of the bundle will be across."""
        work, _, bundle.expected = bundle.ends[0]
        bundle.generation += 1
        rate, left = bundle.rate, max(0, work - bundle.moved)
        self._links[bundle.slowest].expect(bundle, max(self.clock.now, bundle.since + (2 * left + rate) // (2 * rate)))

    def _settle_later(self, bundles: Iterable[Bundle]) -> None:
        if not self._unsettled:
            self.clock.at_end_of_instant(self._settle)
        self._unsettled.update(dict.fromkeys(bundles))

    def _settle(self) -> None:
        """Share anew among the unsettled bundles and all that are reached from them through full links."""
        found: dict[Bundle, tuple[int, int]] = {}  # with their new rates, and the links that set them
        contested: list[list[Crossing]] = []
        left: dict[int, int] = {}  # by link, what the others leave
        new, self._unsettled = self._unsettled, {}
        while new:
            contested += [self._contested(bundle, left) for bundle in new]
            found.update(dict.fromkeys(new, (0, -1)))
            found = dict(zip(found, self._shares(found, contested, left), strict=True))
            new = self._no_longer_fair(found, contested, left)
        for bundle in sorted(found, key=_number):
            rate, slowest = found[bundle]
            if rate != bundle.rate:
                self._pace(bundle, rate, slowest)
            else:
                if slowest != bundle.slowest:
                    self._limit(bundle, slowest)
                if bundle.ends[0][2] is not bundle.expected:
                    self._expect(bundle)

    def _shares(
        self, found: dict[Bundle, tuple[int, int]], contested: list[list[Crossing]], left: dict[int, int]
    ) -> list[tuple[int, int]]:
        """:func:`clustersim.engine.sharing.shares`; what comes again, as most does in a step of many micro-batches, is looked up."""
        key = tuple((bundle.number, bundle.count) for bundle in found), tuple(left.items())
        rates = self._known.get(key)
        if rates is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            rates = self._known[key] = shares(contested, left, [bundle.way.alone for bundle in found])
        return rates

    def _contested(self, bundle: Bundle, left: dict[int, int]) -> list[Crossing]:
        """The uses of links that can hold up the bundle, which gives back what it takes of them."""
        contested = []
        for (link, _, _), crossing in zip(bundle.uses, bundle.together(), strict=False):
            if link.wanted > link.capacity:
                contested.append(crossing)
                number = link.number
                if number not in left:
                    left[number] = link.capacity - link.used
                left[number] += crossing.connections * crossing.share(bundle.rate)
        return contested

    def _no_longer_fair(
        self, found: dict[Bundle, tuple[int, int]], contested: list[list[Crossing]], left: dict[int, int]
    ) -> dict[Bundle, None]:
        """Bundles not in ``found`` that have more on a link than one that it limits, or that their own link could give more.

        What is compared are the shares of whole connections.
        """
        inside = dict.fromkeys(left, 0)  # by link: how many of its bundles are in ``found``,
        for crossings in contested:
            for crossing in crossings:
                inside[crossing[0]] += 1
        beyond = [number for number, count in inside.items() if count < len(self._links[number].bundles)]
        if not beyond:
            return {}
        rest = {number: left[number] for number in beyond}  # what they leave,
        most = dict.fromkeys(beyond, 0)  # the greatest share that one of them has,
        least: dict[int, int] = {}  # and the least of one that the link limits
        for crossings, (rate, slowest) in zip(contested, found.values(), strict=True):
            for link, weight, part, connections in crossings:
                if link not in rest:
                    continue
                level = share = rate if weight == UNIT else rate * weight >> BITS
                if part != UNIT:
                    level = (share << BITS) // part
                rest[link] -= connections * share
                if level > most[link]:
                    most[link] = level
                if link == slowest and level < least.get(link, level + 1):
                    least[link] = level
        reached: dict[Bundle, None] = {}
        for number in beyond:
            last = self._links[number]
            rounding = last.rounding
            full = rest[number] <= rounding
            for bundle in last.limited:
                if bundle not in found and (not full or bundle.level(number) + rounding < most[number]):
                    reached[bundle] = None
            if number in least:
                fair = least[number] + rounding
                for bundle in last.bundles:
                    if bundle not in found and bundle.level(number) > fair:
                        reached[bundle] = None
        return reached

    def _pace(self, bundle: Bundle, rate: int, slowest: int) -> None:
        now, before = self.clock.now, bundle.rate
        bundle.moved += before * (now - bundle.since)
        for link, (_, weight, _, connections), _ in bundle.uses:
            if weight == UNIT:
                link.used += bundle.count * connections * (rate - before)
            else:
                link.used += bundle.count * connections * ((rate * weight >> BITS) - (before * weight >> BITS))
        bundle.rate, bundle.since = rate, now
        self._limit(bundle, slowest)
        self.retimed += 1
        self.record.rate(bundle.number, now, rate)
        self._expect(bundle)

    def _limit(self, bundle: Bundle, slowest: int) -> None:
        """The link that sets the pace of the bundle, at its rate."""
        if bundle.slowest >= 0:
            self._links[bundle.slowest].limited.pop(bundle, None)
        bundle.slowest = slowest
        if bundle.rate < bundle.way.alone[0]:
            self._links[slowest].limited[bundle] = None


_ROUNDING = 64  # rate units for each connection, of which a part may be a small one
_MOST_KNOWN = 20_000  # shares that are kept, some hundred bytes each
_FEW = 16  # completions that are not worth tidying up


def _number(bundle: Bundle) -> int:
    return bundle.number
