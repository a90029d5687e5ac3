"""``clustersim sweep``: the same experiment with some fields varied; a table, curves, the knees."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from clustersim import units
from clustersim.commands.arguments import output_folder
from clustersim.commands.output import console, print_files, print_json, print_warnings
from clustersim.document import clipped, nearest
from clustersim.errors import InputError
from clustersim.sweeps.knee import Knee
from clustersim.sweeps.points import STRATEGY
from clustersim.sweeps.run import Sweep, run, workers
from clustersim.sweeps.settings import METRIC, read_plan
from clustersim.sweeps.table import document, table, write_table
from clustersim.sweeps.tornado import Bar
from clustersim.sweeps.vary import Field, Value

_MOST_ROWS = 60
_MOST_REASONS = 10
_CURVES, _HEAT_MAPS, _TORNADO = _PICTURES = ("curves.png", "heatmap.png", "tornado.png")


def sweep(options: argparse.Namespace) -> None:
    """Simulate what is not in the folder yet; print the points and the knees, write the table and the pictures."""
    settings = read_plan(
        options.experiment, options.vary, options.overrides, zipped=options.zip, tolerance_percent=options.tolerance,
        metric=options.metric, knees=not options.no_knees, tornado=options.tornado,
    )  # fmt: skip
    folder = output_folder(options.output, f"runs/{settings.name}-sweep")
    with ProgressBar() as progress:
        done = run(settings.plan, workers(settings.plan.base, options.jobs, options.dask), folder, progress)
    frame = table(done)
    _print_warnings(done)
    _check_metric(settings.metric, frame)
    paths = write_table(frame, folder)
    paths += _draw(done, frame, settings.name, settings.metric, folder)
    if options.json:
        print_json(document(done))
        return
    _print_points(done, settings.metric)
    for line in knee_lines(done.plan.fields, done.knees):
        print(line)
    if done.bars is not None:
        _print_bars(done.bars)
    print_files(paths)


class ProgressBar:
    """Points done, the rate and the time left, on a terminal; nothing at all elsewhere. Use as a context."""

    def __init__(self) -> None:
        rate, left = TextColumn("{task.fields[rate]}"), (TimeRemainingColumn(compact=True), TextColumn("left"))
        terminal = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), rate, *left)
        # Without a thread of its own, which would not survive in the processes that are forked off.
        self._bar = Progress(*columns, auto_refresh=False, console=terminal, transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("points", total=None, rate="")
        self._begin = time.monotonic()

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:  # else rich before 14.2 prints an empty line
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        rate = done / max(time.monotonic() - self._begin, 1e-9)
        self._bar.update(self._task, completed=done, total=total, rate=f"{rate:.3g} points/s")
        self._bar.refresh()


def knee_lines(fields: Sequence[Field], knees: Sequence[Knee]) -> list[str]:
    """``standard needs 212 Gb/s (211.6 to 212 Gb/s), lga 38 Gb/s ...``: a line for each field and combination of the others."""
    lines: dict[tuple[str, str], list[str]] = {}
    by_path = {field.path: field for field in fields}
    for knee in knees:
        others = ", ".join(_said(by_path[path], value) for path, value in knee.others.items() if path != STRATEGY)
        head = f"within {100 * knee.tolerance:g} % of the step time at infinite {knee.field}"
        lines.setdefault((head, others), []).append(_knee_text(knee, by_path[knee.field]))
    return [f"{head}{f', {others}' if others else ''}: {', '.join(texts)}" for (head, others), texts in lines.items()]


def _knee_text(knee: Knee, field: Field) -> str:
    if knee.low_bytes_s is None or knee.high_bytes_s is None:
        return f"{knee.strategy} has no knee ({knee.reason})"
    return f"{knee.strategy} needs {field.shown(knee.high_bytes_s)} ({field.shown(knee.low_bytes_s)} is too slow)"


def _said(field: Field, value: Value) -> str:
    return f"{field.path} {value.text if value.number is None else field.shown(value.number)}"


def _print_warnings(done: Sweep) -> None:
    """Each once. Many points can differ in the numbers of theirs."""
    warnings = list(dict.fromkeys(warning for row in done.rows for warning in row["warnings"]))
    more = len(warnings) - _MOST_REASONS
    print_warnings([*warnings[:_MOST_REASONS], *([f"{more:,} more like these; all are in sweep.csv"] if more > 0 else [])])


def _check_metric(metric: str | None, frame: pd.DataFrame) -> None:
    known = [name for name in frame if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name])]
    if metric is not None and metric not in known:
        simple = ", ".join(name for name in known if "." not in name)
        raise InputError(f"--metric {clipped(metric)}: unknown figure{nearest(metric, known)}; allowed: {simple}, or a column of sweep.csv")


def _draw(done: Sweep, frame: pd.DataFrame, name: str, metric: str | None, folder: Path) -> list[Path]:
    """What the fields allow: curves against the first that is numeric, heat maps over the first two, the tornado."""
    from clustersim.plots import sweep as pictures

    plan, paths = done.plan, []
    for picture in _PICTURES:  # of an earlier sweep, whose table is no longer there
        (folder / picture).unlink(missing_ok=True)
    title = f"{name}: {', '.join(field.path for field in plan.fields)}"
    axes = pictures.axis_fields(plan.fields)
    if axes and len(pictures.line_groups(frame, plan.fields, plan.zipped)) <= pictures.MAX_LINES:
        metrics = tuple(pictures.METRICS) if metric is None else (metric,)
        path = folder / _CURVES
        paths.append(pictures.curves(frame, plan.fields, path, title=title, metrics=metrics, zipped=plan.zipped, knees=done.knees))
    if len(axes) > 1 and not plan.zipped:
        paths.append(pictures.heat_maps(frame, plan.fields, folder / _HEAT_MAPS, metric=metric or METRIC, title=title))
    if done.bars is not None:
        paths.append(pictures.tornado_chart(done.bars, folder / _TORNADO, title=f"{name}: each by itself halved and doubled"))
    return paths


def _print_points(done: Sweep, metric: str | None) -> None:
    fields = done.plan.fields
    printed = Table(title=f"{len(done.points):,} points", title_justify="left", title_style="bold")
    for field in fields:
        printed.add_column(f"{field.path} ({field.unit})" if field.unit else field.path, justify="right")
    heads = ("step time", "slowdown", "tokens/s", "hidden", "exposed", "peak memory", "status")
    for head in (*heads[:1], *([metric] if metric else []), *heads[1:]):
        printed.add_column(head, justify="left" if head == "status" else "right")
    for point, row, slowdown in list(zip(done.points, done.rows, done.slowdowns, strict=True))[:_MOST_ROWS]:
        figures, cells = _figures(row, slowdown), zip(fields, point.values(), strict=True)
        own = [f"{row[metric]:.6g}" if isinstance(row.get(metric), (int, float)) else "none"] if metric else []
        values = (value.text if value.number is None else field.bare(value.number) for field, value in cells)
        printed.add_row(*values, figures[0], *own, *figures[1:], row["status"])
    console().print(printed)
    if len(done.points) > _MOST_ROWS:
        print(f"the first {_MOST_ROWS} of {len(done.points):,} points; all are in sweep.csv")
    reasons = Counter(f"{row['status']}: {row['reason']}" for row in done.rows if row["reason"])
    for reason, count in reasons.most_common(_MOST_REASONS):
        print(f"{count:,} {reason}")
    if len(reasons) > _MOST_REASONS:
        print(f"and {len(reasons) - _MOST_REASONS:,} other reasons; all are in sweep.csv")


def _figures(row: dict[str, Any], slowdown: float | None) -> list[str]:
    if "step_time_s" not in row:
        return ["none"] * 6
    hidden, tokens = row["overlap"], row["tokens_per_s"]
    return [
        units.time_text(row["step_time_s"]),
        "none" if slowdown is None else f"{slowdown:.3f}",
        "none" if tokens is None else f"{tokens:,.0f}",
        "none" if hidden is None else f"{100 * hidden:.1f} %",
        units.time_text(row["exposed_communication_s"]),
        units.decimal_size_text(row["peak_memory_bytes"]),
    ]


def _print_bars(bars: Sequence[Bar]) -> None:
    printed = Table(title="GPU time per token, each by itself", title_justify="left", title_style="bold")
    for head in ("field", "value", "halved", "doubled"):
        printed.add_column(head, justify="right" if head in ("halved", "doubled") else "left")
    for bar in bars:
        changes = ("none" if side is None else f"{100 * (side / bar.gpu_s_per_token - 1):+.2f} %" for side in (bar.halved, bar.doubled))
        printed.add_row(bar.path, bar.base_text, *changes)
    console().print(printed)
    for reason in dict.fromkeys(reason for bar in bars for reason in bar.reasons):
        print(f"note: {reason}")
