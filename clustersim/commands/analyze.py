"""``clustersim analyze``."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_text import document
from clustersim.analysis.diff import difference_document
from clustersim.commands.analyze_tables import (
    print_analysis,
    print_difference,
    table_of,
)
from clustersim.commands.output import console, print_files, print_json, print_warnings
from clustersim.commands.reading import TABLE, Found, read_analysis
from clustersim.errors import InputError
from clustersim.trace.files import check_writable, table_writer, text_writer, write_all
from clustersim.units import PS_PER_S, time_text


def analyze(options: argparse.Namespace) -> None:
    """Print what limits a step, then where its time goes; with ``--diff`` what changed between two."""
    if options.diff is not None:
        _compare(options)
        return
    if not options.trace:
        raise InputError("analyze: expected a run folder or profiler files, for example `clustersim analyze runs/pipeline-shapes`")
    if options.definition == "hta":
        _hta(options)
        return
    if options.output is not None:
        check_writable(Path(options.output))
    found = read_analysis(options.trace, options)
    paths = [] if options.output is None else _write(found.analysis, Path(options.output))
    if options.json:
        print_json(document(found.analysis))
        return
    print_analysis(found.analysis, found.job_ranks)
    if paths:
        print_files(paths)


def _hta(options: argparse.Namespace) -> None:
    """HolisticTraceAnalysis's figures of profiler files."""
    from clustersim.analysis.hta import hta_times
    from clustersim.importers.kineto import load_kineto

    if options.start or options.end or options.step is not None or options.output is not None:
        raise InputError("--definition hta: has a window of its own and writes no files; leave --from, --to, --step and -o out")
    for path in map(Path, options.trace):
        if not path.exists() or (path / TABLE).is_file():
            raise InputError(f"{path}: --definition hta is for PyTorch profiler files")
    imported = load_kineto(options.trace)
    print_warnings(str(note) for note in imported.notes)
    rows = [{key: _plain(value) for key, value in row.items()} for row in hta_times(imported).to_dict("records")]
    if options.json:
        print_json({"definition": "hta", "ranks": rows})
        return
    table = table_of(*(rows[0] if rows else ("rank",)))
    for row in rows:
        table.add_row(*("none" if value is None else f"{value:,}" for value in row.values()))
    console().print(table)


def _plain(value: Any) -> Any:
    """A number of Python; None where there was nothing to divide by."""
    number = value.item() if hasattr(value, "item") else value
    return None if number is None or number != number else number


def _compare(options: argparse.Namespace) -> None:
    if options.trace or options.output is not None:
        raise InputError("analyze: --diff takes two traces and no other, and writes no files")
    if options.definition == "hta":
        raise InputError("analyze: --diff compares by our own definitions; leave --definition hta out")
    a, b = _per_step(*(read_analysis([name], options) for name in options.diff))
    if options.json:
        print_json(difference_document(a, b))
    else:
        print_difference(a, b)


def _per_step(a: Found, b: Found) -> tuple[Analysis, Analysis]:
    """Both as means over their steps; as they are where those are not known, with a warning if the other is known to have several
    or the windows asked for are unequally long.
    """
    if a.steps is None or b.steps is None:
        if (a.steps or b.steps or 1) > 1:
            print_warnings(["--diff: one trace has several steps, the other does not say how many: compared as they are"])
        if a.analysis.facts.given and a.analysis.window_ps != b.analysis.window_ps:
            lengths = " of A, ".join(time_text(of.analysis.window_ps / PS_PER_S) for of in (a, b))
            print_warnings([f"--diff: the windows differ in length: {lengths} of B"])
        return a.analysis, b.analysis
    return _over(a.analysis, a.steps), _over(b.analysis, b.steps)


def _over(analysis: Analysis, steps: int) -> Analysis:
    return replace(analysis, facts=replace(analysis.facts, steps=steps, given=False))


def _write(done: Analysis, folder: Path) -> list[Path]:
    """The document, the critical path; slack where the trace says what ops waited for; the use of links where it has any."""
    text = json.dumps(document(done), indent=2, allow_nan=False) + "\n"
    files = {folder / "analysis.json": text_writer(text), folder / "critical_path.parquet": table_writer(done.path)}
    if done.slack is not None:
        files[folder / "slack.parquet"] = table_writer(pd.DataFrame({"op": done.numbers, "slack_ps": done.slack}))
    if done.links_over_time is not None:
        files[folder / "links_over_time.parquet"] = table_writer(done.links_over_time)
    return write_all(files)
