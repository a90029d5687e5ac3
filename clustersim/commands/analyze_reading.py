"""From the arguments of ``clustersim analyze`` to an analysis: run folders, exports of them, profiler files."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer import analyze as analyse
from clustersim.analysis.answer_window import run_window, window_words
from clustersim.analysis.facts import WHOLE, TraceFacts, multiplicities
from clustersim.commands.arguments import time_window
from clustersim.commands.output import print_warnings
from clustersim.errors import InputError
from clustersim.exporters.selection import KNOWN
from clustersim.trace.files import RunData, cut_of, job_ranks_of, read_run, steps_of

TABLE = "ops.parquet"
_LINKS = ("link", "start_ps", "end_ps", "rate_bytes_s")
_TOTALS = ("link", "kind", "links", "capacity_bytes_s")


@dataclass(frozen=True)
class Found:
    """An analysis; how many steps its window holds, None where that is not known; ranks of the whole job, None likewise."""

    analysis: Analysis
    steps: int | None
    job_ranks: int | None


def read_analysis(names: list[str], options: argparse.Namespace) -> Found:
    """The analysis of a trace in the window asked for; what the reader should know is printed as warnings."""
    if options.step is not None and (options.start, options.end) != (None, None):
        raise InputError("--step: not together with --from and --to")
    paths = [Path(name) for name in names]
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such run folder or profiler file")
    try:
        found = _read(paths, options)
    except InputError as error:
        text = str(error)
        named = text.startswith(("--", *map(str, paths)))
        raise InputError(text if named else f"{', '.join(map(str, paths[:3]))}: {text}") from None
    print_warnings(f"{paths[0]}: {note}" for note in found.analysis.notes)
    return found


def _read(paths: list[Path], options: argparse.Namespace) -> Found:
    from clustersim.importers.exported import is_export, read_exports

    if any((path / TABLE).is_file() for path in paths):
        if len(paths) > 1:
            raise InputError(f"expected one run folder, got {len(paths)} traces; compare two with --diff A B")
        return _of_run(read_run(paths[0]), paths[0], options)
    if any(map(is_export, paths)):
        return _of_run(read_exports(paths), paths[0], options)
    for path in paths:
        if path.is_dir() and not any(path.glob("*.json*")):
            raise InputError(f"{path}: neither a run folder (no {TABLE}) nor a folder of profiler files (.json, .json.gz)")
    return _of_profile(paths, options)


def _of_run(run: RunData, place: Path, options: argparse.Namespace) -> Found:
    trace, totals = run.trace, run.link_totals
    if len(trace.links):
        _check(trace.links, f"{place / 'links.parquet'}", _LINKS, {"rate_bytes_s": 0, "start_ps": 0, "end_ps": 0})
    if totals is not None:
        _check(totals, f"{place / 'link_totals.parquet'}", _TOTALS, {"capacity_bytes_s": 1, "links": 1})
        totals = totals[list(_TOTALS)]
    if len(trace.memory):
        _check(trace.memory, f"{place / 'memory.parquet'}", ("rank", "time_ps", "bytes"), {"rank": 0, "time_ps": 0, "bytes": -(2**62)})
    steps = steps_of(run.manifest)
    given = time_window(options.start, options.end, trace.makespan_ps)
    window, facts = run_window(trace.ops, steps, given, options.step)
    if run.ranks is not None:
        counts = multiplicities(run.ranks, trace.ops["rank"].to_numpy(), f"{place / 'ranks.parquet'}")
        facts = replace(facts, stands_for=counts)
    if KNOWN in trace.ops:
        facts = replace(facts, wait_known=trace.ops[KNOWN].to_numpy(dtype=bool))
    whole = given is not None and given[0] == 0 and given[1] >= trace.makespan_ps
    inside = facts.steps if given is None else steps if whole else None
    apart = "ranks" in cut_of(run.manifest)  # then nothing says for how many of the job these are
    job_ranks = len(run.ranks) if run.ranks is not None else None if apart else job_ranks_of(run.summary)
    return Found(analyse(trace, window, totals, facts), inside, job_ranks)


def _check(table: pd.DataFrame, place: str, columns: tuple[str, ...], least: dict[str, int]) -> None:
    """InputError where columns are missing, or numbers are none, or less than they can be."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise InputError(f"{place}: columns missing: {', '.join(missing)}")
    for name, bound in least.items():
        numbers = pd.to_numeric(table[name], errors="coerce")
        if not (np.isfinite(numbers) & (numbers >= bound)).all():
            raise InputError(f"{place}: {name} holds what is no number of at least {bound}")


def _of_profile(paths: list[Path], options: argparse.Namespace) -> Found:
    from clustersim.analysis.profiled_steps import profiled_step
    from clustersim.importers.kineto import load_kineto

    imported = load_kineto(paths)
    notes = [str(note) for note in imported.notes]
    if options.step is not None:
        window, facts, more = profiled_step(imported, options.step)
        notes, steps = notes + more, 1
    else:
        window = time_window(options.start, options.end, imported.trace.makespan_ps)
        facts = WHOLE if window is None else TraceFacts(window_words(window))
        steps = imported.steps["name"].nunique() or None if window is None else None
    print_warnings(notes)
    return Found(analyse(imported.trace, window, None, replace(facts, wait_known=imported.wait_known)), steps, None)
