"""Lowering: the actions of a schedule become ops of one replica, by small passes in a row.

Items (layers of actions), then compute with its tensor-parallel traffic, then pipeline messages, then data-parallel traffic.
"""

from __future__ import annotations

from clustersim.program.compute_pass import Work, add_compute
from clustersim.program.costs import Costs
from clustersim.program.data_pass import DataParallel, add_data
from clustersim.program.items import items_of
from clustersim.program.pipeline_pass import add_pipeline
from clustersim.program.template import Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import Strategy


def lower(schedule: Schedule, strategy: Strategy, costs: Costs, traffic: Traffic, data: int) -> Template:
    """The ops of one replica out of ``data``, one rank per pipeline stage.

    InputError when an action uses what nothing produces.
    """
    template, layers = Template(), len(traffic.layer_bytes)
    items = [items_of(schedule, rank, layers, strategy.timing == "micro_batch") for rank in range(schedule.ranks)]
    work: list[list[Work]] = [
        add_compute(template, schedule, rank, row, costs, traffic) for rank, row in enumerate(items)
    ]
    add_pipeline(template, schedule, work, traffic)
    parallel = DataParallel(strategy, schedule, costs, traffic, data)
    if parallel.exchanges:
        for rank, row in enumerate(work):
            add_data(template, parallel, rank, row)
    return template
