"""Traces as commands that draw take them: a run folder, an export of one, or profiler files of one rank or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.analysis.answer_window import Window, run_window, window_words
from clustersim.analysis.facts import WHOLE, TraceFacts, multiplicities
from clustersim.analysis.streams import is_profiled
from clustersim.commands.output import print_warnings
from clustersim.errors import InputError
from clustersim.reports.page import Run
from clustersim.trace.files import RunData, read_run, steps_of


def read(names: Sequence[str]) -> Run:
    """The run; what was left out of profiler files is printed as warnings. InputError naming what is missing or damaged."""
    paths = [Path(name) for name in names]
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such run folder or profiler trace; `clustersim run EXPERIMENT -o FOLDER` makes a run folder")
        if path.suffix in (".yaml", ".yml"):
            raise InputError(f"{path}: no such run folder: an experiment runs first, `clustersim run {path} -o FOLDER`")
    name = paths[0].resolve().name
    if any(_is_run_folder(path) for path in paths):
        if len(paths) > 1:
            raise InputError(f"expected one run folder, got {len(paths)} traces; several can only be profiler files, one a rank")
        data = read_run(paths[0])
        _check(data, paths[0])
        return Run(name, data, _stands_for(data, paths[0] / "ranks.parquet"), None)
    return _measured(paths, name)


def _is_run_folder(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.parquet"))


def _measured(paths: list[Path], name: str) -> Run:
    from clustersim.importers.exported import is_export, read_exports
    from clustersim.importers.kineto import load_kineto

    if any(map(is_export, paths)):
        data = read_exports(paths)
        _check(data, paths[0])
        return Run(name, data, _stands_for(data, paths[0]), None)
    for path in paths:
        if path.is_dir() and not any(path.glob("*.json*")):
            raise InputError(f"{path}: neither a run folder (no ops.parquet) nor a folder of profiler files (.json, .json.gz)")
    imported = load_kineto(paths)
    notes = tuple(str(note) for note in imported.notes)
    print_warnings(notes)
    return Run(name, RunData(imported.trace), {}, notes)


def _check(data: RunData, place: Path) -> None:
    links, memory, totals = data.trace.links, data.trace.memory, data.link_totals
    missing = {"link", "start_ps", "end_ps", "rate_bytes_s"} - set(links.columns)
    if len(links) and missing:
        raise InputError(f"{place / 'links.parquet'}: columns missing: {', '.join(sorted(missing))}")
    _check_numbers(place / "links.parquet", links, ("start_ps", "end_ps", "rate_bytes_s"))
    _check_numbers(place / "memory.parquet", memory, ("rank", "time_ps", "bytes"))
    if totals is not None:
        _check_numbers(place / "link_totals.parquet", totals, ("links", "capacity_bytes_s"))


def _check_numbers(path: Path, table: pd.DataFrame, columns: tuple[str, ...]) -> None:
    for name in columns if len(table) else ():
        if not (pd.api.types.is_numeric_dtype(table[name]) and np.isfinite(table[name].to_numpy(dtype=float)).all()):
            raise InputError(f"{path}: column {name}: expected numbers")


def _stands_for(data: RunData, place: Path) -> Mapping[int, int]:
    """By simulated rank, how many ranks of the job it stands for; nothing where the run does not say."""
    return {} if data.ranks is None else multiplicities(data.ranks, data.trace.ops["rank"].to_numpy(), f"{place}")


def facts_of(run: Run, window: Window | None) -> tuple[Window | None, TraceFacts]:
    """The window to look at in ps and what is known of it: the given one, else the steady state of several steps, else all (None)."""
    if run.notes is not None:
        return window, WHOLE if window is None else TraceFacts(window_words(window))
    window, facts = run_window(run.data.trace.ops, steps_of(run.data.manifest), window)
    return window, replace(facts, steps=1, stands_for=run.stands_for)  # times of the whole window, not of its mean step


def headline(run: Run) -> str:
    """One line over a picture: what ran, and how long it took.

    >>> from clustersim.trace.trace import Trace
    >>> ops = pd.DataFrame({"kind": ["forward"], "end_ps": [5 * 10**12]})
    >>> headline(Run("shapes", RunData(Trace(ops, ops, ops, ops)), {}, None))
    'shapes: step 5 s'
    """
    steps, trace = steps_of(run.data.manifest), run.data.trace
    what = "trace" if is_profiled(trace.ops["kind"].astype(str).unique()) else "step" if steps == 1 else f"{steps} steps"
    return f"{run.title}: {what} {units.time_text(trace.makespan_ps / units.PS_PER_S)}"
