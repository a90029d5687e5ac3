"""``clustersim schedule check`` and ``convert``: schedules as CSV files."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim.commands.output import console, print_files, print_json
from clustersim.document import nearest, shown
from clustersim.errors import InputError
from clustersim.schedule import torch_csv, validator
from clustersim.schedule.actions import Schedule, single
from clustersim.schedule.table import table

_MOST_FAULTS_SHOWN = 50
_P, _M = 4, 8


def check(options: argparse.Namespace) -> None:
    """Print a file as a table and all that is wrong with it; InputError when something is."""
    read = torch_csv.load(options.file)
    found = validator.faults(read.rows)
    if options.json:
        errors = [{"rank": one.rank, "position": one.position, "action": one.action, "message": one.message} for one in found]
        print_json({"valid": not found, "errors": errors})
    else:
        marks = {(fault.rank, fault.position) for fault in found if fault.position is not None}
        print(table(read.rows, marks, console().width))
        print()
        for fault in found[:_MOST_FAULTS_SHOWN]:
            print(f"{read.place(fault.rank, fault.position)}: {fault.action}: {fault.message}")
        if len(found) > _MOST_FAULTS_SHOWN:
            print(f"... and {len(found) - _MOST_FAULTS_SHOWN:,} more")
    if found:
        first = found[0]
        many = f"{len(found):,} faults, the first" if len(found) > 1 else "1 fault"
        raise InputError(f"{options.file}: {many} at {_short(first, read)}: {first.action}: {first.message}")
    if not options.json:
        print(f"{options.file}: right; {_size(read.schedule())}")


def _short(fault: validator.Fault, read: torch_csv.CsvSchedule) -> str:
    row = f"row {fault.rank + 1}"
    return row if fault.position is None else f"{row}, column {read.columns[fault.rank][fault.position]}"


def _size(schedule: Schedule) -> str:
    actions = sum(1 for row in schedule.actions for _ in single(row))
    copies = ", two copies of the model" if schedule.pipes == 2 else ""
    return f"ranks {schedule.ranks}, stages {schedule.stages}{copies}, micro-batches {schedule.micro_batches}, compute actions {actions:,}"


def convert(options: argparse.Namespace) -> None:
    """Write a schedule of the catalogue, or of another file, as CSV, with its sends and receives or without."""
    from clustersim.trace.files import write_whole

    if options.sharding and not options.communication:
        raise InputError("--sharding: a file without communication has no UNSHARD, RESHARD and REDUCE_GRAD; allowed: with --communication")
    schedule, rows = _given(options)
    if not options.communication:
        rows = schedule.actions
    elif rows is None or options.sharding:
        rows = _with_communication(schedule, options)
    text = torch_csv.write(rows)
    path = write_whole(Path(options.output), lambda beside: beside.write_text(text, encoding="utf-8", newline=""))
    if options.json:
        size = {"ranks": schedule.ranks, "stages": schedule.stages, "micro_batches": schedule.micro_batches}
        print_json({"files": [str(path)], **size, "communication": options.communication})
        return
    print(_size(schedule))
    print_files([path])


def _given(options: argparse.Namespace) -> tuple[Schedule, torch_csv.Rows | None]:
    """The schedule that is named, and the rows of its file where they have communication already."""
    from clustersim.schedule.strategy import PRESETS

    if options.source in PRESETS:
        return _named(options), None
    if not (options.source.lower().endswith(".csv") or Path(options.source).exists()):
        known = tuple(PRESETS)
        raise InputError(f"{shown(options.source)} is no schedule{nearest(options.source, known)}; allowed: a CSV file, {', '.join(known)}")
    for name in "pvm":
        if getattr(options, name) is not None:
            raise InputError(f"-{name}: has no meaning for a file; leave it out")
    read = torch_csv.load(options.source)
    return validator.checked(read), read.rows if read.communicates else None


def _named(options: argparse.Namespace) -> Schedule:
    from clustersim.schedule.strategy import build_named

    p, v, m = options.p or _P, options.v, options.m or _M
    # Two actions at least, and one message for each of them.
    cells = 4 * p * (v or 2) * m
    if cells > torch_csv.MAX_CELLS:
        raise InputError(f"-p {p} -m {m}: about {cells:,} cells; allowed: at most {torch_csv.MAX_CELLS:,}")
    try:
        return build_named(options.source, p, v, m)
    except ValueError as error:
        raise InputError(f"{options.source}: {error}") from None


def _with_communication(schedule: Schedule, options: argparse.Namespace) -> torch_csv.Rows:
    try:
        return torch_csv.with_communication(schedule, state=options.sharding)
    except ValueError as error:
        raise InputError(f"{options.source}: {error}") from None
