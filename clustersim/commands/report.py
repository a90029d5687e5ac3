"""``clustersim report``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.answer import analyze
from clustersim.commands.arguments import rank_numbers, time_window
from clustersim.commands.output import print_files, print_json
from clustersim.errors import InputError
from clustersim.reports.page import Run, page
from clustersim.reports.timeline import timeline
from clustersim.trace.files import check_writable, read_trace, write_whole

_SUFFIXES = (".html", ".htm")
_TOTALS = ["link", "kind", "links", "capacity_bytes_s"]


def report(options: argparse.Namespace) -> None:
    """Write one page about a run folder."""
    folder, output = Path(options.trace), Path(options.output)
    if output.suffix.lower() not in _SUFFIXES:
        raise InputError(f"-o {output}: a report is a page; allowed: a name that ends in .html")
    run = _read(folder)
    ranks = None if options.ranks is None else sorted(set(rank_numbers("--ranks", options.ranks)))
    window = time_window(options.start, options.end, run.trace.makespan_ps)
    try:
        analysis = analyze(run.trace, window, run.totals)
        text = page(run, analysis, timeline(run.trace.ops, analysis, ranks))
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    check_writable(output.parent)
    write_whole(output, lambda path: path.write_text(text, encoding="utf-8", errors="replace"))
    if options.json:
        print_json({"files": [str(output)]})
    else:
        print_files([output])


def _read(folder: Path) -> Run:
    trace = read_trace(folder)
    missing = {"link", "start_ps", "end_ps", "rate_bytes_s"} - set(trace.links.columns)
    if len(trace.links) and missing:
        raise InputError(f"{folder / 'links.parquet'}: columns missing: {', '.join(sorted(missing))}")
    _check_numbers(folder / "links.parquet", trace.links, ("start_ps", "end_ps", "rate_bytes_s"))
    _check_numbers(folder / "memory.parquet", trace.memory, ("rank", "time_ps", "bytes"))
    path = folder / "link_totals.parquet"
    try:
        totals = pd.read_parquet(path, columns=_TOTALS) if path.is_file() else None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a readable Parquet table: {' '.join(str(error).split())[:120]}") from None
    if totals is not None:
        _check_numbers(path, totals, ("links", "capacity_bytes_s"))
    return Run(folder.resolve().name, trace, totals, _document(folder / "summary.json"), _document(folder / "manifest.json"))


def _check_numbers(path: Path, table: pd.DataFrame, columns: tuple[str, ...]) -> None:
    for name in columns if len(table) else ():
        if not (pd.api.types.is_numeric_dtype(table[name]) and np.isfinite(table[name].to_numpy(dtype=float)).all()):
            raise InputError(f"{path}: column {name}: expected numbers")


def _document(path: Path) -> dict[str, Any]:
    """A JSON object of the run folder; an empty one where there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable JSON: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object")
    return found
