"""Traces as commands take them: a run folder, an export of one, or profiler files of one rank or many."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer import analyze as analyse
from clustersim.analysis.answer_window import Window, given_facts, run_window
from clustersim.analysis.facts import WHOLE, TraceFacts, multiplicities
from clustersim.analysis.profiled_steps import profiled_step
from clustersim.analysis.streams import is_profiled
from clustersim.commands.arguments import time_window
from clustersim.commands.columns import check_names, typed
from clustersim.commands.output import print_warnings
from clustersim.document import shown
from clustersim.errors import InputError
from clustersim.exporters.selection import KNOWN
from clustersim.trace.expand import expanded
from clustersim.trace.files import OPTIONAL, RunData, cut_of, job_ranks_of, read_run, steps_of
from clustersim.trace.run import Run

if TYPE_CHECKING:
    from clustersim.importers.kineto import Imported

TABLE = "ops.parquet"
_LINKS = ("link", "start_ps", "end_ps", "rate_bytes_s")
_MEMORY = ("rank", "time_ps", "bytes")
_LONGEST = 200  # letters of a name over a picture
_ANY = -(2**62)  # a change of memory may be negative


@dataclass(frozen=True)
class Source:
    """A trace under its name; ``imported``: what profiler files hold besides, None for a run folder and for exports."""

    run: Run
    imported: Imported | None = None


@dataclass(frozen=True)
class View:
    """A window in ps (None: all) of a trace, what is known of the trace, and the steps in the window, None where not known."""

    window: Window | None
    facts: TraceFacts
    steps: int | None


@dataclass(frozen=True)
class Found:
    """An analysis; how many steps its window holds, None where that is not known; ranks of the whole job, None likewise."""

    analysis: Analysis
    steps: int | None
    job_ranks: int | None


def read(names: Sequence[str | Path]) -> Source:
    """The trace; what was left out of profiler files is printed as warnings. InputError naming what is missing or damaged."""
    paths = [Path(name) for name in names]
    kind = kind_of(paths)
    name = paths[0].resolve().name
    if kind == "profiler":
        return _measured(paths, name)
    if kind == "export":
        from clustersim.importers.exported import read_exports

        return _simulated(read_exports(paths), paths[0], name, ": {}")
    if len(paths) > 1:
        raise InputError(f"expected one run folder, got {len(paths)} traces; `analyze` compares two with --diff A B")
    return _simulated(read_run(paths[0]), paths[0], name, "/{}.parquet")


def kind_of(paths: Sequence[Path]) -> str:
    """``folder`` of a run, ``export`` of one, or ``profiler``, by what is there. InputError for what can be none of them."""
    from clustersim.importers.exported import is_export

    for path in paths:
        if not _exists(path):
            raise InputError(f"{path}: no such run folder or profiler file; `clustersim run EXPERIMENT -o FOLDER` makes a run folder")
        if path.suffix in (".yaml", ".yml"):
            raise InputError(f"{path}: an experiment, no trace: it runs first, `clustersim run {path} -o FOLDER`")
        if path.suffix == ".parquet":
            raise InputError(f"{path}: a table of a run folder; give the folder, {path.parent}")
    if any(path.is_dir() and any(path.glob("*.parquet")) for path in paths):
        return "folder"
    if any(map(is_export, paths)):
        return "export"
    for path in paths:
        if path.is_dir() and not any(path.glob("*.json*")):
            raise InputError(f"{path}: neither a run folder (no {TABLE}) nor a folder of profiler files (.json, .json.gz)")
    return "profiler"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than any can be
        return False


def with_ranks(data: RunData, wanted: Collection[int]) -> RunData:
    """The run with these ranks of the job, where some of them were not simulated but others stand for them; else as it is."""
    simulated = set(data.trace.ops["rank"].unique().tolist())
    if data.ranks is None or simulated.issuperset(wanted) or not set(data.ranks["rank"].tolist()).issuperset(wanted):
        return data
    each = sorted(set(wanted))
    return replace(data, trace=expanded(data.trace, data.ranks, each), ranks=pd.DataFrame({"rank": each, "simulated_as": each}))


def _measured(paths: list[Path], name: str) -> Source:
    from clustersim.importers.kineto import load_kineto

    imported = load_kineto(paths)
    notes = tuple(str(note) for note in imported.notes)
    print_warnings(notes)
    return Source(Run(name, RunData(imported.trace), {}, notes), imported)


def _simulated(data: RunData, path: Path, name: str, place: str) -> Source:
    """``place`` makes the place of a table out of its name, behind that of the trace."""
    data = replace(data, trace=typed(data.trace, f"{path}{place}"))
    links, memory, totals, ranks = (f"{path}{place.format(table)}" for table in ("links", "memory", "link_totals", "ranks"))
    if len(data.trace.links):
        _check(data.trace.links, links, _LINKS, {"start_ps": 0, "end_ps": 0, "rate_bytes_s": 0})
    if len(data.trace.memory):
        _check(data.trace.memory, memory, _MEMORY, {"rank": 0, "time_ps": 0, "bytes": _ANY})
    if data.link_totals is not None:
        _check(data.link_totals, totals, OPTIONAL["link_totals"], {"links": 1, "capacity_bytes_s": 1})
        for column in ("link", "kind"):
            check_names(data.link_totals[column], f"{totals}: {column}")
        names = data.link_totals["link"].astype(str)
        if names.duplicated().any():
            raise InputError(f"{totals}: link: {shown(names[names.duplicated()].iloc[0])} is there twice; expected one row a link")
    stands_for: Mapping[int, int] = {}
    if data.ranks is not None and len(data.trace.ops):  # that of an empty trace is said where it is used
        stands_for = multiplicities(data.ranks, data.trace.ops["rank"].to_numpy(), ranks)
    return Source(Run(name, data, stands_for, None))


def _check(table: pd.DataFrame, place: str, columns: tuple[str, ...], least: Mapping[str, int]) -> None:
    """InputError where columns are missing, or hold what is no number, or numbers less than they can be."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise InputError(f"{place}: columns missing: {', '.join(missing)}")
    for name, bound in least.items():
        fine = pd.api.types.is_numeric_dtype(table[name])
        numbers = table[name].to_numpy(dtype=float, na_value=np.nan) if fine else None
        if numbers is None or not (np.isfinite(numbers) & (numbers >= bound)).all():
            raise InputError(f"{place}: column {name}: expected numbers{'' if bound == _ANY else f' of at least {bound}'}")


def view_of(source: Source, start: str | None, end: str | None, step: int | None = None) -> View:
    """What ``--from``, ``--to`` and ``--step`` ask for; without them the steady state of several simulated steps, else all.

    InputError for what the trace does not have.
    """
    if step is not None and (start, end) != (None, None):
        raise InputError("--step: not together with --from and --to")
    trace = source.run.data.trace
    given = time_window(start, end, trace.makespan_ps)
    if source.imported is not None:
        return _measured_view(source.imported, given, step)
    steps = steps_of(source.run.data.manifest)
    window, facts = run_window(trace.ops, steps, given, step)
    known = trace.ops[KNOWN].to_numpy(dtype=bool) if KNOWN in trace.ops else None
    whole = given is not None and given[0] == 0 and given[1] >= trace.makespan_ps
    inside = facts.steps if given is None else steps if whole else None
    return View(window, replace(facts, stands_for=source.run.stands_for, wait_known=known), inside)


def _measured_view(imported: Imported, given: Window | None, step: int | None) -> View:
    if step is not None:
        window, facts, notes = profiled_step(imported, step)
        print_warnings(notes)
        return View(window, replace(facts, wait_known=imported.wait_known), 1)
    facts = WHOLE if given is None else given_facts(given)
    steps = imported.steps["name"].nunique() or None if given is None else None
    return View(given, replace(facts, wait_known=imported.wait_known), steps)


def read_analysis(names: list[str], options: argparse.Namespace) -> Found:
    """The analysis of a trace in the window asked for; what the reader should know is printed as warnings."""
    with named(names):
        source = read(names)
        view = view_of(source, options.start, options.end, options.step)
        data = source.run.data
        analysis = analyse(data.trace, view.window, data.link_totals, view.facts)
    print_warnings(f"{names[0]}: {note}" for note in analysis.notes)
    apart = "ranks" in cut_of(data.manifest)  # then nothing says for how many of the job these are
    job_ranks = len(data.ranks) if data.ranks is not None else None if apart else job_ranks_of(data.summary)
    return Found(analysis, view.steps, job_ranks)


@contextmanager
def named(names: Sequence[str], output: Path | None = None) -> Iterator[None]:
    """An InputError in here names the trace, unless it names a file of it, an option, or the output."""
    try:
        yield
    except InputError as error:
        text = str(error)
        if text.startswith(("--", *map(str, map(Path, names)), *([] if output is None else [f"{output}: ", f"{output.parent}: "]))):
            raise
        raise InputError(f"{', '.join(map(str, names[:3]))}{', ...' if len(names) > 3 else ''}: {text}") from None


def headline(run: Run, view: View) -> str:
    """One line over a picture: what ran, how long it took, and which part of several steps is shown.

    >>> from clustersim.trace.trace import Trace
    >>> ops = pd.DataFrame({"kind": ["forward"], "end_ps": [5 * 10**12]})
    >>> run = Run("shapes", RunData(Trace(ops, ops, ops, ops)), {}, None)
    >>> headline(run, View(None, WHOLE, 1))
    'shapes: step 5 s'
    """
    steps, trace = steps_of(run.data.manifest), run.data.trace
    name = run.title if len(run.title) <= _LONGEST else f"{run.title[: _LONGEST - 3]}..."
    what = "trace" if is_profiled(trace.ops["kind"].astype(str).unique()) else "step" if steps == 1 else f"{steps} steps"
    shown = f", {view.facts.window} shown" if steps > 1 and view.window is not None else ""
    return f"{name}: {what} {units.time_text(trace.makespan_ps / units.PS_PER_S)}{shown}"
