"""``clustersim convert``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from clustersim import units
from clustersim.commands.arguments import rank_numbers, seconds
from clustersim.commands.output import print_files, print_json
from clustersim.errors import InputError
from clustersim.exporters.files import Export, check_folder, write_file, write_folder
from clustersim.exporters.selection import complete, rank_text, select
from clustersim.trace.files import check_writable, read_trace
from clustersim.trace.trace import Trace

_ROUNDED_PS = 100_000_000  # what is 100 us is right within 2 %
_QUIET_S = 1.0
_BETWEEN_S = 0.5


def convert(options: argparse.Namespace) -> None:
    """Write a run folder's trace in another format."""
    folder = Path(options.trace)
    output = _output(options.to, options.output, folder)
    whole = _checked(folder)
    trace = _selected(whole, options)
    made = _export(options.to, trace, output, folder)
    if options.to != "chrome":
        check_folder(output, {part.name for part in made.parts})
    check_writable(output.parent)
    for note in _notes(options, whole, trace, folder):
        print(f"note: {note}", file=sys.stderr)
    print(f"about {_size(made.size.written_bytes)} to write: {_contents(trace)}", file=sys.stderr, flush=True)
    progress = _Progress(made.size.text_bytes)
    try:
        paths = write_file(made.parts[0], output, progress) if options.to == "chrome" else write_folder(made.parts, output, progress)
    finally:
        progress.close()
    written = sum(path.stat().st_size for path in paths)
    if options.json:
        sizes = {"estimated_bytes": made.size.written_bytes, "written_bytes": written}
        print_json({"format": options.to, "files": [str(path) for path in paths], **sizes, "ops": len(trace.ops)})
    else:
        print(f"{_size(written)} written: {_contents(trace)}")
        print_files(paths)


def _output(format: str, given: str | None, folder: Path) -> Path:
    """Where it goes; InputError for a name that does not fit the format."""
    if format == "chrome":
        output = Path(f"{folder.name or 'trace'}.json.gz" if given is None else given)
        if not output.name.endswith((".json", ".json.gz")) or output.name.startswith(".json") or output.is_dir():
            raise InputError(f"-o {output}: chrome is one file; its name ends in .json.gz, or in .json for a plain one")
        return output
    output = Path(f"{folder.name or 'trace'}-{format}" if given is None else given)
    if output.resolve() == folder.resolve():
        raise InputError(f"-o {output}: is the run folder itself; name another")
    return output.resolve() if output.name in ("", "..") else output


def _checked(folder: Path) -> Trace:
    trace = read_trace(folder)
    try:
        return complete(trace)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None


def _selected(trace: Trace, options: argparse.Namespace) -> Trace:
    ranks = None if options.ranks is None else set(rank_numbers("--ranks", options.ranks))
    return select(trace, ranks, _ps("--from", options.start), _ps("--until", options.end))


def _notes(options: argparse.Namespace, whole: Trace, trace: Trace, folder: Path) -> Iterator[str]:
    """What the user should know of the files."""
    if options.ranks is not None and len(whole.links) and options.to in ("chrome", "csv", "parquet"):
        yield "links belong to no rank: left out with --ranks"
    world, present = _world(folder), whole.ops["rank"].nunique()
    if options.to == "chakra" and world is not None and present < world:
        yield f"the run has {present} of {world} ranks, one for all that are alike; `clustersim run --no-fold` simulates every one"
    shortest = int((trace.ops["end_ps"] - trace.ops["start_ps"]).min())
    if options.to == "kineto" and shortest < _ROUNDED_PS:
        yield "some ops are short: HolisticTraceAnalysis rounds times to microseconds unless HTA_DISABLE_NS_ROUNDING=1 is set"


def _export(format: str, trace: Trace, output: Path, folder: Path) -> Export:
    if format == "chrome":
        from clustersim.exporters.chrome import export

        return export(trace, output.name)
    if format == "kineto":
        from clustersim.exporters.kineto import export as kineto

        return kineto(trace, _world(folder))
    if format == "chakra":
        from clustersim.exporters.chakra import export as chakra

        return chakra(trace)
    from clustersim.exporters import tables

    return tables.csv(trace) if format == "csv" else tables.parquet(trace)


def _world(folder: Path) -> int | None:
    """Ranks of the job; None where nothing says."""
    try:
        ranks = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["ranks"]
        return ranks if type(ranks) is int and ranks > 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
