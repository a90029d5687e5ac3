"""The compute of a rank, and the collectives inside its layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from clustersim.program.costs import Costs, Segment
from clustersim.program.items import Item
from clustersim.program.template import Exchange, Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Action, Schedule


class Work(NamedTuple):
    """An item and its ops: those that wait for its inputs, the first and last on the compute stream, those that have its results."""

    item: Item
    starts: tuple[int, ...]
    first: int
    compute: int
    results: tuple[int, ...]


def add_compute(
    template: Template, schedule: Schedule, rank: int, items: Sequence[Item], costs: Costs, traffic: Traffic
) -> tuple[list[Work], list[int]]:
    """Append the compute of a rank and the collectives in it, which hold up what follows; and the optimizer's op of each step.

    In a pair that runs as one, each of the two waits for its own collectives only, so that the other's compute hides them. Without
    a flush the optimizer runs a step late, when nothing waits for the reductions any more.
    """
    adding = _Adding(template, schedule, rank, costs, traffic)
    steps = 1 + max(schedule.step(item.action) for item in items)
    late = 0 if schedule.flushes else 1
    updates: list[int] = []
    for _, together in groupby(items, key=lambda item: item.unit):
        unit = list(together)
        while len(updates) < min(schedule.step(item.action) for item in unit) - late:
            updates.append(adding.update(len(updates)))
        adding.unit(unit)
    while len(updates) < steps:
        updates.append(adding.update(len(updates)))
    return adding.work, [op for op in updates if op >= 0]


class _Adding:
    def __init__(self, template: Template, schedule: Schedule, rank: int, costs: Costs, traffic: Traffic) -> None:
        self.template, self.schedule, self.rank, self.costs, self.traffic = template, schedule, rank, costs, traffic
        self.work: list[Work] = []
        self.compute = -1  # the compute op before: the stream's order makes waiting for it needless
        self.results: list[int] = []  # of the unit before

    def unit(self, items: Sequence[Item]) -> None:
        of_action: dict[Action, list[int]] = {}
        gathered = self.traffic.gathered
        for item in items:
            waits = of_action.get(item.action, self.results)
            starts: list[int] = []
            if gathered is not None and item.first and self._from_another_rank(item.action):
                starts = [self._collective(item, gathered, after=())]
                waits = [*waits, *starts]
            ops: list[int] = []
            for segment in self.costs.segments(item.action.kind, item.layer):
                op, begins, waits = self._segment(item, segment, waits)
                starts = starts or begins
                ops.append(op)
            of_action[item.action] = waits
            self.work.append(Work(item, tuple(starts), ops[0], ops[-1], tuple(waits)))
        self.results = [op for waits in of_action.values() for op in waits]

    def _segment(self, item: Item, segment: Segment, waits: list[int]) -> tuple[int, list[int], list[int]]:
        """Its op on the compute stream, the ops that wait for what it needs, and those that what follows waits for."""
        starts: list[int] = []
        for name in segment.before:
            waits = [self._collective(item, name, waits)]
            starts = starts or waits
        op = self.template.op(
            self.rank, "compute", segment.kind, item.action.stage, item.layer, item.action.micro_batch,
            part=segment.part, duration_ps=segment.duration_ps, flops=segment.flops,
        )  # fmt: skip
        self.template.dependencies += [(op, wait) for wait in waits if wait != self.compute]
        starts = starts or [op]
        beside = waits
        for number, name in enumerate(segment.beside):
            beside = [self._collective(item, name, beside)]
            if not number and not segment.before:
                starts = [*starts, *beside]
        self.compute = op
        after = [op]
        for name in segment.after:
            after = [self._collective(item, name, after)]
        return op, starts, [*after, *(beside if segment.beside else ())]

    def _collective(self, item: Item, name: str, after: Sequence[int]) -> int:
        inner = self.traffic.inner[name]
        exchange = Exchange(inner.dimension, inner.collective, self.rank, -1, inner.payload_bytes)
        return self.template.exchange(self.rank, inner.kind, inner.kind, item.action, item.layer, exchange, after)

    def _from_another_rank(self, action: Action) -> bool:
        source = self.schedule.source(action)
        return source is not None and self.schedule.placement[source] != self.rank

    def update(self, step: int) -> int:
        """The optimizer's op of a step, -1 when it takes no time and nothing follows it."""
        duration_ps = self.costs.optimizer_ps[self.rank] if self.costs.optimizer_ps else 0
        if not duration_ps and self.schedule.steps == 1:
            return -1
        last = (step + 1) * self.schedule.passes - 1
        op = self.template.op(self.rank, "compute", "optimizer", -1, -1, last, duration_ps=duration_ps)
        self.template.dependencies += [(op, wait) for wait in self.results if wait != self.compute]
        self.compute, self.results = op, [op]
        return op
