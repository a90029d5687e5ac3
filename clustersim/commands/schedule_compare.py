"""``clustersim schedule compare``: all schedules at equal work."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from pandas import DataFrame
from rich.table import Table

from clustersim import units
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import nearest, shown
from clustersim.errors import InputError
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import PRESETS, build_named
from clustersim.schedule_run import Figures, Times, measure, run_alone

MAX_ACTIONS = 200_000
_LONGEST_S = 10**6


def compare(options: argparse.Namespace) -> None:
    """One line a schedule, fastest first; those that cannot have these numbers last, with the reason."""
    names = _names(options.schedules)
    times = Times(*(_seconds(option, getattr(options, option)) for option in ("forward", "backward", "input", "weight", "delay")))
    actions = 2 * options.p * (options.v or 2) * options.m
    if actions > MAX_ACTIONS:
        allowed = f"allowed: at most {MAX_ACTIONS:,}; use fewer micro-batches"
        raise InputError(f"-p {options.p} -m {options.m}: about {actions:,} actions a schedule; {allowed}")
    done: list[Figures] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            done.append(measure(name, options.p, options.v, options.m, times))
        except ValueError as error:
            refused[name] = str(error)
    done.sort(key=lambda one: (one.makespan_s, one.peak_activations, one.name))
    picture = None if options.output is None else _draw(Path(options.output), done, times)
    if options.json:
        rows = [asdict(one) for one in done]
        rows += [{"name": name, "p": options.p, "v": options.v, "m": options.m, "error": text} for name, text in refused.items()]
        print_json({"schedules": rows} if picture is None else {"schedules": rows, "files": [str(picture)]})
        return
    _print(options, times, done, refused)
    if picture is not None:
        print_files([picture])


def _names(text: str | None) -> list[str]:
    known = tuple(PRESETS)
    names = list(known) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"--schedules: unknown schedule {shown(name)}{nearest(name, known)}; allowed: {', '.join(known)}")
    return list(dict.fromkeys(names))


def _seconds(option: str, text: str) -> float:
    """A bare number of seconds, or a time with a suffix."""
    place = "-c" if option == "delay" else f"--{option}"
    try:
        value = float(text)
    except ValueError:
        try:
            value = float(units.parse(text, "time"))
        except ValueError as error:
            raise InputError(f"{place}: {error}; or a bare number of seconds") from None
    if not (0 <= value <= _LONGEST_S):
        raise InputError(f"{place} {text}: allowed: 0 to {_LONGEST_S:,} s")
    return value


def _print(options: argparse.Namespace, times: Times, done: list[Figures], refused: dict[str, str]) -> None:
    time = units.time_text
    table = Table(title=_parameters(options.p, options.m, times), title_justify="left", title_style="bold")
    table.add_column("schedule")
    columns = ("v", "makespan", "bubble, of the step", "bubble, of the compute", "among other steps*", "peak activations*", "weights*",
               "messages")
    for column in columns:
        table.add_column(column, justify="right")
    for one in done:
        table.add_row(
            one.name if one.flushes else f"{one.name} (no flush)", str(one.v), time(one.makespan_s), f"{100 * one.bubble_of_total:.1f} %",
            f"{100 * one.bubble_of_ideal:.1f} %", time(one.steady_s), f"{one.peak_activations:g}", str(one.weights),
            f"{one.pipeline_messages:,}" + (" slices" if one.pipeline_traffic < one.pipeline_messages else ""),
        )  # fmt: skip
    output = console()
    output.print(table)
    output.print("* what a further step adds when nothing is done between two steps; without a flush the makespan is that")
    output.print("* on the rank that holds most: activations in micro-batches through all stages of a rank, weights in copies of its share")
    for name, text in refused.items():
        output.print(f"{name}: {text}")


def _draw(path: Path, done: list[Figures], times: Times) -> Path:
    from clustersim.plots.gantt import compare_gantt

    if not done:
        raise InputError(f"-o {path}: no schedule can have these numbers, so there is nothing to draw")
    shown = [one for one in done if one.name != "standard" or not any(other.name == "1f1b" for other in done)]  # the same actions
    panels = [_panel(one, build_named(one.name, one.p, one.v, one.m), times) for one in shown]
    panels[0] = (f"{_parameters(done[0].p, done[0].m, times)}\n{panels[0][0]}", panels[0][1])
    compare_gantt(panels, path)
    return path


def _panel(figures: Figures, schedule: Schedule, times: Times) -> tuple[str, DataFrame]:
    ops = run_alone(schedule, times).ops
    note = "" if schedule.flushes else " a step where steps follow one another, here one alone"
    return f"{figures.name}, v {figures.v}: {units.time_text(figures.makespan_s)}{note}", ops[ops["stream"] == "compute"]


def _parameters(p: int, m: int, times: Times) -> str:
    time = units.time_text
    passes = f"F {time(times.forward_s)}, B {time(times.backward_s)}, I {time(times.input_s)}, W {time(times.weight_s)}"
    return f"p {p}, m {m}; a rank and micro-batch: {passes}; delay {time(times.delay_s)}"
