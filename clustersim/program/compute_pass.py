"""The compute of a rank, and the tensor-parallel traffic in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from clustersim.program.costs import Costs
from clustersim.program.items import Item
from clustersim.program.template import Exchange, Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Action, Schedule


class Work(NamedTuple):
    """An item and its ops: the first and the last on the compute stream, and the one that has the result."""

    item: Item
    first: int
    compute: int
    result: int


def add_compute(
    template: Template, schedule: Schedule, rank: int, items: Sequence[Item], costs: Costs, traffic: Traffic
) -> list[Work]:
    """Append the compute of a rank, with a tensor-parallel collective where a segment needs one: it holds up what follows.

    In a pair that runs as one, each of the two waits for its own collectives only, so that the other's compute hides them.
    """
    work: list[Work] = []
    compute = -1  # the compute op before: the stream's order makes waiting for it needless
    results: list[int] = []  # of the unit before
    for _, unit in groupby(items, key=lambda item: item.unit):
        of_action: dict[Action, list[int]] = {}
        for item in unit:
            waits = of_action.get(item.action, results)
            if item.first and _gathers_message(schedule, rank, item.action, traffic):
                waits = [*waits, _gather_message(template, rank, item, traffic)]
            first = len(template.kind)
            for segment in costs.segments(item.action.kind, head=item.layer == len(traffic.layer_bytes) - 1):
                op = template.op(
                    rank, "compute", segment.kind, item.action.stage, item.layer, item.action.micro_batch,
                    part=segment.part, duration_ps=segment.duration_ps, flops=segment.flops,
                )  # fmt: skip
                template.dependencies += [(op, wait) for wait in waits if wait != compute]
                compute = result = op
                if segment.all_reduce:
                    exchange = Exchange("tensor", "all_reduce", rank, -1, traffic.activation_bytes)
                    result = template.exchange(rank, "tensor", "tensor", item.action, item.layer, exchange, after=[op])
                waits = [result]
            of_action[item.action] = waits
            work.append(Work(item, first, compute, waits[0]))
        results = [result for (result,) in of_action.values()]
    return work


def _gathers_message(schedule: Schedule, rank: int, action: Action, traffic: Traffic) -> bool:
    source = schedule.source(action)
    return source is not None and schedule.placement[source] != rank and traffic.message_bytes < traffic.activation_bytes


def _gather_message(template: Template, rank: int, item: Item, traffic: Traffic) -> int:
    exchange = Exchange("tensor", "all_gather", rank, -1, traffic.activation_bytes)
    return template.exchange(rank, "tensor", "tensor", item.action, item.layer, exchange)
