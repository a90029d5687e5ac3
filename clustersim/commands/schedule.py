"""``clustersim schedule show``."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from clustersim.commands.output import print_json
from clustersim.document import nearest
from clustersim.errors import InputError
from clustersim.schedule.orders import SINGLE_STAGE_ORDERS
from clustersim.schedule.strategy import PRESETS, build


def show(options: argparse.Namespace) -> None:
    """Print a schedule: for each rank its actions in order."""
    preset = PRESETS.get(options.name)
    if preset is None:
        raise InputError(f"unknown schedule {options.name!r}{nearest(options.name, tuple(PRESETS))}; allowed: {', '.join(PRESETS)}")
    v = options.v or (1 if preset.order in SINGLE_STAGE_ORDERS else 2)
    if v > 1 and preset.order in SINGLE_STAGE_ORDERS:
        raise InputError(f"-v {v}: {preset.name} has one stage per rank; allowed: -v 1, or mpp")
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
    table = Table(title=f"{schedule.name}: p {schedule.ranks}, v {schedule.chunks}, m {schedule.micro_batches}", title_justify="left")
    table.add_column("rank", justify="right")
    table.add_column("stages")
    table.add_column("actions: stage, F forward or B backward, micro-batch")
    for rank, actions in enumerate(schedule.actions):
        stages = ",".join(str(stage) for stage, place in enumerate(schedule.placement) if place == rank)
        table.add_row(str(rank), stages, " ".join(map(str, actions)))
    Console(highlight=False).print(table)
