"""Lowering: the actions of a schedule become ops of one replica, by small passes in a row.

Items (layers of actions), then compute with the collectives inside it, pipeline messages, offload and memory, data-parallel traffic.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.program.compute_pass import add_compute
from clustersim.program.costs import Costs
from clustersim.program.data_pass import DataParallel, add_data
from clustersim.program.grid import Grid
from clustersim.program.items import items_of
from clustersim.program.memory_pass import NOTHING, Sizes, add_memory
from clustersim.program.offload_pass import offload_activations
from clustersim.program.pipeline_pass import add_pipeline
from clustersim.program.template import Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import Strategy


def lower(
    schedule: Schedule, strategy: Strategy, stages: Sequence[range], costs: Costs, traffic: Traffic, grid: Grid, sizes: Sizes | None = None
) -> Template:
    """The ops of one copy of the model, one rank per pipeline rank.

    ``stages``: the layers of each; without ``sizes`` nothing counts memory. InputError when an action uses what nothing produces.
    """
    template = Template()
    items = [items_of(schedule, rank, stages, strategy.timing == "micro_batch") for rank in range(schedule.ranks)]
    added = [add_compute(template, schedule, rank, row, costs, traffic) for rank, row in enumerate(items)]
    work = [row for row, _ in added]
    add_pipeline(template, schedule, work, traffic, strategy)
    if sizes is not None:
        for rank, row in enumerate(work):
            moved = offload_activations(template, rank, row, sizes.kept_bytes) if strategy.offload in ("activations", "all") else NOTHING
            add_memory(template, rank, row, sizes, len(traffic.layer_bytes), moved)
    parallel = DataParallel(strategy, schedule, stages, costs, traffic, grid)
    for rank, (row, updates) in enumerate(added):
        add_data(template, parallel, rank, row, updates)
    return template
