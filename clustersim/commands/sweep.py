"""``clustersim sweep``: the same experiment with some fields varied; a table, curves, the knee."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from clustersim import units
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import clipped, nearest, shown
from clustersim.errors import InputError
from clustersim.sweep.knee import Knee
from clustersim.sweep.points import STRATEGY
from clustersim.sweep.run import Plan, Sweep, run
from clustersim.sweep.settings import Settings, read_plan
from clustersim.sweep.table import SLOWDOWN, document, table, write_table
from clustersim.trace.files import check_writable, write_whole

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 60
_KNEES_FILE = "sweep.json"


def sweep(options: argparse.Namespace) -> None:
    """Simulate what is not in the folder yet; print the table and the knees, write table and figures."""
    settings = read_plan(
        options.experiment, options.vary, options.overrides, zipped=options.zip, tolerance_percent=options.tolerance,
        metric=options.metric, knees=not options.no_knees, tornado=options.tornado,
    )  # fmt: skip
    folder = _folder(options, settings.name)
    with ProgressBar() as progress:
        done = run(settings.plan, workers(settings.plan, options.jobs, options.dask), folder, progress)
    frame = table(done)
    _check_metric(settings.metric, frame)
    made = document(done)
    paths = write_table(frame, folder)
    paths += _draw(done, frame, settings, folder)
    if options.json:
        print_json(made)
        return
    _print_table(done, settings)
    for line in knee_lines(done.plan, done.knees):
        print(line)
    _print_bars(done)
    print_files(paths)


class ProgressBar:
    """Points done, the rate and the time left, on a terminal; nothing at all elsewhere. Use as a context."""

    def __init__(self) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True), TextColumn("left"))
        # Without a thread of its own, which would not survive in the processes that are forked off.
        self._bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("points", total=None, rate="")
        self._begin = time.monotonic()

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        rate = done / max(time.monotonic() - self._begin, 1e-9)
        self._bar.update(self._task, completed=done, total=total, rate=f"{rate:.3g} points/s")
        self._bar.refresh()


def _folder(options: argparse.Namespace, name: str) -> Path:
    given = f"runs/{name}-sweep" if options.output is None else options.output
    if not given or not given.isprintable():
        raise InputError(f"-o: expected a folder with a printable name, got {shown(given)}")
    try:
        check_writable(Path(given))
    except InputError as error:
        raise InputError(f"-o {error}") from None
    return Path(given)


def _check_metric(metric: str, frame: pd.DataFrame) -> None:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    known = [name for name in frame if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name])]
    if metric not in known:
        raise InputError(f"--metric {clipped(metric)}: unknown figure{nearest(metric, known)}; allowed: {', '.join(known)}")


def _draw(done: Sweep, frame: pd.DataFrame, settings: Settings, folder: Path) -> list[Path]:
    from clustersim.plots import sweep as pictures

    plan, paths = done.plan, []
    title = f"{settings.name}: {', '.join(field.path for field in plan.fields)}"
    axes = pictures.axis_fields(plan.fields)
    if axes and len(pictures.line_groups(frame, plan.fields, plan.zipped)) <= pictures.MAX_LINES:
        more = {"title": title, "zipped": plan.zipped, "knees": done.knees}
        paths.append(pictures.curves(frame, plan.fields, folder / "curves.png", **more))
        paths.append(pictures.curves(frame, plan.fields, folder / f"{settings.metric}.png", metrics=(settings.metric,), **more))
    if len(axes) > 1 and not plan.zipped:
        paths.append(pictures.heat_maps(frame, plan.fields, folder / "heatmap.png", metric=settings.metric, title=title))
    if done.bars is not None:
        paths.append(pictures.tornado_chart(done.bars, folder / "tornado.png", title=f"{settings.name}: each by itself halved and doubled"))
    return paths


def knee_lines(plan: Plan, knees: tuple[Knee, ...]) -> list[str]:
    """``standard needs 212 Gb/s, lga 38 Gb/s``, a line for each field and combination of the others, with the brackets."""
    lines: dict[tuple[str, ...], list[str]] = {}
    field_of = {field.path: field for field in plan.fields}
    for knee in knees:
        others = ", ".join(f"{path} {field_of[path].shown(value.number) if value.number is not None else value.text}"
                           for path, value in knee.others.items() if path != STRATEGY)
        lines.setdefault((knee.field, others), []).append(_knee_text(knee, field_of[knee.field].shown))
    return [
        f"{path} within {plan.tolerance:.3g} of the step time at infinite bandwidth{f', {others}' if others else ''}: {', '.join(texts)}"
        for (path, others), texts in lines.items()
    ]
