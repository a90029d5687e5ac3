"""``clustersim schedule show``."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim import units
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import nearest, shown
from clustersim.errors import InputError
from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.strategy import PRESETS, build_named
from clustersim.schedule.table import table

_MAX_ACTIONS = 100_000


def show(options: argparse.Namespace) -> None:
    """Print a schedule of the catalogue: for each rank its actions in order; draw it at unit costs."""
    schedule = _schedule(options)
    picture = None if options.output is None else _draw(schedule, Path(options.output))
    if options.json:
        print_json(
            {
                "name": schedule.name,
                "p": schedule.ranks,
                "v": schedule.chunks,
                "m": schedule.micro_batches,
                "placement": list(schedule.placement),
                "ranks": [[str(action) for action in actions] for actions in schedule.actions],
                **({} if picture is None else {"files": [str(picture)]}),
            }
        )
        return
    for line in _head(schedule):
        print(line)
    print()
    print(table(schedule.actions, width=console().width))
    if picture is not None:
        print_files([picture])


def _schedule(options: argparse.Namespace) -> Schedule:
    known = tuple(PRESETS)
    if options.name not in known:
        raise InputError(f"NAME: unknown schedule {shown(options.name)}{nearest(options.name, known)}; allowed: {', '.join(known)}")
    actions = 2 * options.p * (options.v or 2) * options.m
    if actions > _MAX_ACTIONS:
        raise InputError(f"-p {options.p} -v {options.v or 2} -m {options.m}: {actions:,} actions; allowed: at most {_MAX_ACTIONS:,}")
    try:
        return build_named(options.name, options.p, options.v, options.m)
    except ValueError as error:
        raise InputError(f"{options.name} with -p {options.p} -m {options.m}: {error}") from None


def _head(schedule: Schedule) -> list[str]:
    order = ORDERS[PRESETS[schedule.name].order]
    slices = f" in {schedule.slices} slices" if schedule.slices > 1 else ""
    held = [",".join(str(stage) for stage, place in enumerate(schedule.placement) if place == rank) for rank in range(schedule.ranks)]
    in_flight = most_in_flight(schedule)
    lines = [
        f"{schedule.name}: p {schedule.ranks}, v {schedule.chunks}, m {schedule.micro_batches}{slices} ({order.paper})",
        f"stages of each rank: {' | '.join(held)}",
    ]
    if schedule.pipes == 2:
        lines.append(f"the model lies twice on the ranks: stage {schedule.stages} is stage 0 of the second copy")
    if order.makespan:
        lines.append(f"makespan: {order.makespan}")
    law = f" (law, on rank r: {order.in_flight})" if order.in_flight else ""
    lines.append(f"most forwards in flight by rank: {', '.join(map(str, in_flight))}{law}")
    return lines


def _draw(schedule: Schedule, path: Path) -> Path:
    from clustersim.plots.gantt import gantt
    from clustersim.schedule_run import Times, run_alone

    trace = run_alone(schedule, Times())
    makespan = units.time_text(trace.makespan_ps / units.PS_PER_S)
    title = f"{schedule.name}: p {schedule.ranks}, v {schedule.chunks}, m {schedule.micro_batches}; F 1 s, B 2 s, I 1 s, W 1 s; {makespan}"
    gantt(trace.ops[trace.ops["stream"] == "compute"], path, title=title)
    return path
