"""``clustersim validate``: predictions against published measurements."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pandas as pd
from rich.table import Table

from clustersim.commands.arguments import output_folder
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import clipped, nearest
from clustersim.errors import InputError
from clustersim.published import report
from clustersim.published.case import LeftOut
from clustersim.published.catalogue import SOURCES, cases_of
from clustersim.published.predict import predict


def validate(options: argparse.Namespace) -> None:
    """Simulate the published runs; print the errors by source, and write the rows and the picture where ``-o`` says."""
    names = _sources(options.source)
    folder = None if options.output is None else output_folder(options.output, "")
    cases, left_out = cases_of(names)
    predictions, refused = predict(cases, progress=_progress)
    left_out = [*left_out, *refused]
    rows = report.table(predictions)
    chosen = "".join(f" --source {name}" for name in options.source)
    paths = report.write(rows, left_out, folder, f"clustersim validate{chosen} -o {options.output}") if folder and predictions else []
    if options.json:
        print_json(report.document(rows, left_out))
        return
    _print_sources(rows, left_out)
    if paths:
        print_files(paths)


def _sources(given: Sequence[str]) -> list[str]:
    for name in given:
        if name not in SOURCES:
            raise InputError(f"--source {clipped(name)}: unknown source{nearest(name, list(SOURCES))}; allowed: {', '.join(SOURCES)}")
    return [name for name in SOURCES if name in given or not given]


def _progress(done: int, total: int) -> None:
    """A line that is rewritten on a terminal; the last one alone elsewhere."""
    terminal, last = sys.stderr.isatty(), done == total
    if terminal or last:
        begin, end = "\r\033[K" if terminal else "", "\n" if last else ""
        print(f"{begin}simulated {done} of {total} experiments", end=end, file=sys.stderr, flush=True)


def _print_sources(rows: pd.DataFrame, left_out: Sequence[LeftOut]) -> None:
    printed = Table(title="errors, predicted / measured - 1", title_justify="left", title_style="bold")
    for head in ("source", "use", "quantity", "rows", "mean (%)", "greatest (%)", "where"):
        printed.add_column(head, justify="right" if head in ("rows", "mean (%)", "greatest (%)") else "left")
    for row in report.by_source(rows).itertuples():
        printed.add_row(row.source, row.use, row.quantity, str(row.rows), f"{100 * row.mape:.1f}", f"{100 * row.max_ape:.1f}", row.worst)
    console().print(printed)
    for (source, reason), cases in report.by_reason(left_out).items():
        print(f"left out, {len(cases)} of {source}: {reason}")
