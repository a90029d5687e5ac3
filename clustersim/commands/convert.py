"""``clustersim convert``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.commands.arguments import rank_numbers, seconds
from clustersim.commands.output import print_files, print_json, print_warnings
from clustersim.commands.reading import kind_of, named, read, with_ranks
from clustersim.errors import InputError
from clustersim.exporters.files import Export, check_folder, write_file, write_folder
from clustersim.exporters.selection import KNOWN, complete, cut, rank_text
from clustersim.trace.files import RunData, check_writable, job_ranks_of
from clustersim.trace.trace import Trace

_ROUNDED_PS = 100_000_000  # what is 100 us is right within 2 %
_QUIET_S = 1.0
_BETWEEN_S = 0.5


def convert(options: argparse.Namespace) -> None:
    """Write a run, an export of one, or a profiler's trace in another format."""
    source = Path(options.trace)
    output = _output(options.to, options.output, source)
    whole = _checked(source, options.to)
    run = _cut(whole, options)
    with named([options.trace]):
        made = _export(options.to, run, output)
    if options.to != "chrome":
        check_folder(output, {part.name for part in made.parts})
    check_writable(output.parent)
    for note in _notes(options, whole, run.trace):
        print(f"note: {note}", file=sys.stderr)
    print(f"about {_size(made.size.written_bytes)} to write: {_contents(run.trace)}", file=sys.stderr, flush=True)
    progress = _Progress(made.size.text_bytes)
    try:
        paths = write_file(made.parts[0], output, progress) if options.to == "chrome" else write_folder(made.parts, output, progress)
    finally:
        progress.close()
    written = sum(path.stat().st_size for path in paths)
    if options.json:
        sizes = {"estimated_bytes": made.size.written_bytes, "written_bytes": written}
        print_json({"format": options.to, "files": [str(path) for path in paths], **sizes, "ops": len(run.trace.ops)})
    else:
        print(f"{_size(written)} written: {_contents(run.trace)}")
        print_files(paths)


def _output(format: str, given: str | None, source: Path) -> Path:
    """Where it goes; InputError for a name that does not fit the format."""
    name = source.name.removesuffix(".gz").removesuffix(".json") or "trace"
    if format == "chrome":
        output = Path(f"{name}.json.gz" if given is None else given)
        if not output.name.endswith((".json", ".json.gz")) or output.name.startswith(".json") or output.is_dir():
            raise InputError(f"-o {output}: chrome is one file; its name ends in .json.gz, or in .json for a plain one")
    else:
        output = Path(f"{name}-{format}" if given is None else given)
    if output.resolve() == source.resolve():
        raise InputError(f"-o {output}: is {'the run folder' if source.is_dir() else 'the trace'} itself; name another")
    return output.resolve() if output.name in ("", "..") else output


def _checked(path: Path, format: str) -> RunData:
    """What is to be converted, whole and free of contradictions."""
    if format == "kineto" and kind_of([path]) == "profiler":
        raise InputError(f"{path}: is a profiler trace already; allowed: --to chrome, chakra, csv, parquet")
    with named([str(path)]):
        source = read([path])
        run, imported = source.run.data, source.imported
        trace = run.trace
        if imported is not None and len(imported.steps):
            print_warnings([f"{path}: its ProfilerSteps are left out: a trace has no steps of a profiler"])
        if imported is not None and not imported.wait_known.all():
            trace = replace(trace, ops=trace.ops.assign(**{KNOWN: imported.wait_known}))
        for table in ("link_totals", "ranks"):
            _check_columns(table, getattr(run, table))
        return replace(run, trace=complete(trace))


def _check_columns(table: str, columns: pd.DataFrame | None) -> None:
    """InputError for what a JSON head cannot hold: all but names are finite numbers."""
    for name, column in () if columns is None else columns.items():
        if name in ("link", "kind"):
            continue
        if not pd.api.types.is_numeric_dtype(column) or column.dtype.kind == "c":
            raise InputError(f"{table}: {name}: expected numbers")
        if not np.isfinite(column.to_numpy(dtype=float, na_value=np.nan)).all():
            raise InputError(f"{table}: {name}: a row is missing or not finite")


def _cut(run: RunData, options: argparse.Namespace) -> RunData:
    ranks = None if options.ranks is None else set(rank_numbers("--ranks", options.ranks))
    return cut(run if ranks is None else with_ranks(run, ranks), ranks, _ps("--from", options.start), _ps("--until", options.end))


def _notes(options: argparse.Namespace, whole: RunData, trace: Trace) -> Iterator[str]:
    """What the user should know of the files."""
    if options.ranks is not None and len(whole.trace.links) and options.to in ("chrome", "csv", "parquet"):
        yield "links belong to no rank: left out with --ranks"
    world, present = job_ranks_of(whole.summary), whole.trace.ops["rank"].nunique()
    if options.to == "chakra" and world is not None and present < world:
        yield f"the run has {present} of {world} ranks, one for all that are alike; `clustersim run --no-fold` simulates every one"
    shortest = int((trace.ops["end_ps"] - trace.ops["start_ps"]).min())
    if options.to == "kineto" and shortest < _ROUNDED_PS:
        yield "some ops are short: HolisticTraceAnalysis rounds times to microseconds unless HTA_DISABLE_NS_ROUNDING=1 is set"


def _export(format: str, run: RunData, output: Path) -> Export:
    if format == "chrome":
        from clustersim.exporters.chrome import export

        return export(run, output.name)
    if format == "kineto":
        from clustersim.exporters.kineto import export as kineto

        return kineto(run)
    if format == "chakra":
        from clustersim.exporters.chakra import export as chakra

        return chakra(run.trace)
    from clustersim.exporters import tables

    return tables.csv(run) if format == "csv" else tables.parquet(run)


def _contents(trace: Trace) -> str:
    ranks = trace.ops["rank"].unique().tolist()
    return f"{len(trace.ops):,} ops of {'rank' if len(ranks) == 1 else 'ranks'} {rank_text(ranks)}"


def _ps(option: str, text: str | None) -> int | None:
    time_s = seconds(option, text)
    return None if time_s is None else units.to_ps(time_s)


def _size(count: int) -> str:
    return units.decimal_size_text(count)


class _Progress:
    """How much is made, on stderr, once it takes longer than a second; rewritten in place on a terminal, one line in a log."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.clock, self.done, self.shown = total, clock, 0, False
        self.begin = self.shown_at = clock()

    def __call__(self, count: int) -> None:
        self.done += count
        now = self.clock()
        terminal = sys.stderr.isatty()
        if now - self.begin < _QUIET_S or (self.shown and (not terminal or now - self.shown_at < _BETWEEN_S)):
            return
        self.shown, self.shown_at = True, now
        share = min(self.done / max(self.total, 1), 1.0)
        left = (now - self.begin) * (1 - share) / max(share, 1e-9)
        text = f"convert: {share:.0%} made, about {left:.0f} s left"
        print(f"\r\033[K{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
