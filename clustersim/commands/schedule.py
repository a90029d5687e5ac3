"""``clustersim schedule show``."""

from __future__ import annotations

import argparse

from rich.table import Table

from clustersim.commands.output import console, print_json
from clustersim.document import nearest, shown
from clustersim.errors import InputError
from clustersim.schedule.orders import SINGLE_STAGE_ORDERS
from clustersim.schedule.strategy import PRESETS, build

_MAX_ACTIONS = 100_000


def show(options: argparse.Namespace) -> None:
    """Print a schedule: for each rank its actions in order."""
    preset = PRESETS.get(options.name)
    if preset is None:
        known = tuple(PRESETS)
        raise InputError(f"NAME: unknown schedule {shown(options.name)}{nearest(options.name, known)}; allowed: {', '.join(known)}")
    v = options.v or (1 if preset.order in SINGLE_STAGE_ORDERS else 2)
    if v > 1 and preset.order in SINGLE_STAGE_ORDERS:
        raise InputError(f"-v {v}: {preset.name} has one stage per rank; allowed: -v 1, or mpp")
    actions = 2 * options.p * v * options.m
    if actions > _MAX_ACTIONS:
        raise InputError(f"-p {options.p} -v {v} -m {options.m}: {actions:,} actions; allowed: at most {_MAX_ACTIONS:,}")
    schedule = build(preset, layers=options.p * v, pipeline=options.p, micro_batches=options.m)
    if options.json:
        print_json(
            {
                "name": schedule.name,
                "p": schedule.ranks,
                "v": schedule.chunks,
                "m": schedule.micro_batches,
                "placement": list(schedule.placement),
                "ranks": [[str(action) for action in actions] for actions in schedule.actions],
            }
        )
        return
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("stages")
    table.add_column("actions: stage, F forward or B backward, micro-batch")
    for rank, actions in enumerate(schedule.actions):
        stages = ",".join(str(stage) for stage, place in enumerate(schedule.placement) if place == rank)
        table.add_row(str(rank), stages, " ".join(map(str, actions)))
    output = console()
    output.print(f"{schedule.name}: p {schedule.ranks}, v {schedule.chunks}, m {schedule.micro_batches}")
    output.print(table)
