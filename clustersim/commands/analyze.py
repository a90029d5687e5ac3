"""``clustersim analyze``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.table import Table

from clustersim import units
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer import analyze as analyse
from clustersim.analysis.answer_text import CAUSE_WORDS, document, family_words, limits, percent
from clustersim.analysis.answer_window import step_window
from clustersim.analysis.diff import changes, difference, difference_document
from clustersim.commands.arguments import time_window
from clustersim.commands.output import console, print_files, print_json, print_warnings
from clustersim.errors import InputError
from clustersim.trace.files import check_writable, read_trace, write_whole
from clustersim.units import PS_PER_S

_SHOWN = 12
_TABLE = "ops.parquet"


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
    done = _analysed(options.trace, options)
    paths = [] if options.output is None else _write(done, Path(options.output))
    if options.json:
        print_json(document(done))
        return
    _print(done, _job_ranks(options.trace))
    if paths:
        print_files(paths)


def _hta(options: argparse.Namespace) -> None:
    """HolisticTraceAnalysis's figures of profiler files."""
    from clustersim.analysis.hta import hta_times
    from clustersim.importers.kineto import load_kineto

    if options.start or options.end or options.step is not None or options.output is not None:
        raise InputError("--definition hta: has a window of its own and writes no files; leave --from, --to, --step and -o out")
    for path in map(Path, options.trace):
        if not path.exists() or (path / _TABLE).is_file():
            raise InputError(f"{path}: --definition hta is for PyTorch profiler files")
    imported = load_kineto(options.trace)
    print_warnings(str(note) for note in imported.notes)
    rows = [{key: _plain(value) for key, value in row.items()} for row in hta_times(imported).to_dict("records")]
    if options.json:
        print_json({"definition": "hta", "ranks": rows})
        return
    table = _table(*(rows[0] if rows else ("rank",)))
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
    a, b = (_analysed([name], options) for name in options.diff)
    steps = [_steps(Path(name)) for name in options.diff]
    if steps[0] != steps[1] and options.step is None:
        print_warnings([f"--diff: {steps[0]} and {steps[1]} steps are compared as they are; --step N compares one of each"])
    if options.json:
        print_json(difference_document(a, b))
        return
    out = console()
    out.print(f"{difference(a, b)}.")
    out.print(f"A: {limits(a)}.\nB: {limits(b)}.")
    table = _table("mean over ranks", "A", "B", "change")
    for name, one, other in [("window", a.window_ps, b.window_ps), *changes(a, b)]:
        sign = "+" if other >= one else "-"
        table.add_row(name, _time(one), _time(other), sign + _time(abs(other - one)))
    out.print(table)


# Reading


def _analysed(names: list[str], options: argparse.Namespace) -> Analysis:
    if options.step is not None and (options.start, options.end) != (None, None):
        raise InputError("--step: not together with --from and --to")
    paths = [Path(name) for name in names]
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such run folder or profiler file")
    try:
        if any((path / _TABLE).is_file() for path in paths):
            return _of_run(paths, options)
        for path in paths:
            if path.is_dir() and not any(path.glob("*.json*")):
                raise InputError(f"{path}: neither a run folder (no {_TABLE}) nor a folder of profiler files (.json, .json.gz)")
        return _of_profile(paths, options)
    except InputError as error:
        text = str(error)
        named = text.startswith(("--", *map(str, paths)))
        raise InputError(text if named else f"{', '.join(map(str, paths[:3]))}: {text}") from None


def _of_run(paths: list[Path], options: argparse.Namespace) -> Analysis:
    if len(paths) > 1:
        raise InputError(f"expected one run folder, got {len(paths)} traces; compare two with --diff A B")
    [folder] = paths
    trace = read_trace(folder)
    if len(trace.links):
        _check(trace.links, folder / "links.parquet", ("link", "start_ps", "end_ps", "rate_bytes_s"), {"rate_bytes_s": 0})
    known = _link_totals(folder / "link_totals.parquet")
    if _steps(folder) > 1 and options.step is None and options.start is None and options.end is None:
        print_warnings([f"{folder}: {_steps(folder)} steps in a row, and the figures are of all of them; --step N takes one"])
    window = time_window(options.start, options.end, trace.makespan_ps)
    if options.step is not None:
        if "micro_batch" not in trace.ops:
            raise InputError("--step: the ops of this trace have no micro_batch")
        window = step_window(trace.ops, options.step, _steps(folder))
    return analyse(trace, window, known)


def _link_totals(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    columns = ("link", "kind", "links", "capacity_bytes_s")
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a readable Parquet table: {' '.join(str(error).split())[:120]}") from None
    _check(table, path, columns, {"capacity_bytes_s": 1, "links": 1})
    return table[list(columns)]


def _check(table: pd.DataFrame, path: Path, columns: tuple[str, ...], least: dict[str, int]) -> None:
    """InputError where columns are missing, or numbers are none, or less than they can be."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise InputError(f"{path}: columns missing: {', '.join(missing)}")
    for name, bound in least.items():
        numbers = pd.to_numeric(table[name], errors="coerce")
        if not (np.isfinite(numbers) & (numbers >= bound)).all():
            raise InputError(f"{path}: {name} holds what is no number of at least {bound}")


def _steps(folder: Path) -> int:
    try:
        steps = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["inputs"].get("steps", 1)
        return max(1, int(steps))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 1


def _of_profile(paths: list[Path], options: argparse.Namespace) -> Analysis:
    from clustersim.importers.kineto import load_kineto

    imported = load_kineto(paths)
    print_warnings(str(note) for note in imported.notes)
    window = time_window(options.start, options.end, imported.trace.makespan_ps)
    if options.step is not None:
        window = _profiled_step(imported.steps, options.step)
    return analyse(imported.trace, window)


def _profiled_step(steps: Any, number: int) -> tuple[int, int]:
    """From the first begin to the last end of the step on any rank."""
    table = steps if isinstance(steps, pd.DataFrame) else pd.DataFrame(list(steps))
    if not len(table):
        raise InputError("--step: the trace has no ProfilerStep")
    names = table["step"] if "step" in table else table["name"]
    mine = table[names.astype(str).str.extract(r"(\d+)$", expand=False) == str(number)]
    if not len(mine):
        raise InputError(f"--step: there is no step {number}; the trace has {', '.join(dict.fromkeys(names.astype(str)))}")
    return int(mine["start_ps"].min()), int(mine["end_ps"].max())


# Writing


def _write(done: Analysis, folder: Path) -> list[Path]:
    """The document, the critical path, and the slack of every op where the trace says what ops waited for."""
    text = json.dumps(document(done), indent=2, allow_nan=False) + "\n"
    paths = [
        write_whole(folder / "analysis.json", lambda path: path.write_text(text, encoding="utf-8")),
        write_whole(folder / "critical_path.parquet", lambda path: done.path.to_parquet(path, index=False)),
    ]
    if done.slack is not None:
        table = pd.DataFrame({"op": done.numbers, "slack_ps": done.slack})
        paths.append(write_whole(folder / "slack.parquet", lambda path: table.to_parquet(path, index=False)))
    return paths


# Printing


def _time(ps: float) -> str:
    return units.time_text(ps / PS_PER_S)


def _table(first: str, *others: str) -> Table:
    table = Table(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _job_ranks(names: list[str]) -> int | None:
    """Ranks of the whole job; None where nothing says."""
    try:
        return int(json.loads((Path(names[0]) / "summary.json").read_text(encoding="utf-8"))["ranks"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _print(done: Analysis, job_ranks: int | None) -> None:
    found = document(done)
    out = console()
    out.print(f"{found['limits'][0].upper()}{found['limits'][1:]}.")
    ranks = f"{len(done.ranks):,} {'rank' if len(done.ranks) == 1 else 'ranks'}"
    if job_ranks is not None and job_ranks > len(done.ranks):
        ranks += f", which stand for {job_ranks:,} (means are over those simulated)"
    out.print(
        f"Window {_time(done.window_ps)}, {ranks}; bubble"
        f" {percent(found['bubble_of_total'])} of the window, {percent(found['bubble_of_ideal'])} of the compute."
    )
    for table in (_where(done), _kinds(done, found), _path(done, found), _late(found), _links(found), _ranks(found)):
        if table.row_count:
            out.print(table)


def _where(done: Analysis) -> Table:
    """Compute + exposed + idle = the window."""
    table = _table("where the time goes, mean over ranks", "time", "of the window")
    rows = [("compute", done.mean("compute_ps"))]
    rows += [(f"exposed {family_words(done, name)}", time) for name, time in done.exposed().items()]
    rows += [(f"idle: {CAUSE_WORDS[name]}", time) for name, time in done.idle().items() if time]
    for name, time in [*rows, ("window", float(done.window_ps))]:
        table.add_row(name, _time(time), percent(time / done.window_ps if done.window_ps else None))
    return table


def _kinds(done: Analysis, found: dict[str, Any]) -> Table:
    table = _table("communication, mean over ranks", "time", "exposed", "hidden (overlap)", "of the compute under it")
    for row in found["communication"]:
        times = [units.time_text(row[key]) for key in ("communication_s", "exposed_communication_s")]
        table.add_row(family_words(done, row["kind"]), *times, percent(row["overlap"]), percent(row["compute_under_communication"]))
    if not table.row_count:
        table.add_row("none", "none", "none", "none", "none")
    return table


def _path(done: Analysis, found: dict[str, Any]) -> Table:
    path = found["critical_path"]
    table = _table(f"critical path, {units.time_text(path['length_s'])}", "time", "of the window")
    for kind, time in path["by_kind_s"].items():
        table.add_row(kind, units.time_text(time), percent(path["share_by_kind"][kind]))
    if done.slack is not None:
        slack = found["slack"]
        table.caption = f"{slack['without_slack']:,} of {slack['ops']:,} ops have no slack"
    return table


def _late(found: dict[str, Any]) -> Table:
    table = _table("waited for", "idle of others", "waits in collectives", "collectives")
    for row in found["stragglers"][:_SHOWN]:
        times = [units.time_text(row[key]) for key in ("idle_of_others_s", "waited_for_s")]
        table.add_row(f"rank {row['rank']}", *times, f"{row['collectives']:,}")
    return table


def _links(found: dict[str, Any]) -> Table:
    table = _table("links in use", "mean utilization", "the busiest", "peak")
    for kind, use in found["links"].items():
        table.add_row(kind, *(percent(use[key]) for key in ("mean_utilization", "busiest_utilization", "peak_utilization")))
    return table


def _ranks(found: dict[str, Any]) -> Table:
    table = _table("rank", "compute", "exposed communication", "idle", "hidden (overlap)")
    rows = found["ranks"]
    for row in rows[:_SHOWN]:
        times = [units.time_text(row[key]) for key in ("compute_s", "exposed_communication_s", "idle_s")]
        table.add_row(str(row["rank"]), *times, percent(row["overlap"]))
    if len(rows) > _SHOWN:
        table.caption = f"the first {_SHOWN} of {len(rows):,} ranks; all with --json"
    return table
