"""A trace as a folder of Parquet tables; a run folder, which says more of the run beside them."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from clustersim.errors import InputError
from clustersim.trace.trace import Trace

TABLES = ("ops", "dependencies", "links", "memory")
OPTIONAL = {"link_totals": ("link", "kind", "links", "capacity_bytes_s"), "ranks": ("rank", "simulated_as")}
Write = Callable[[Path], object]
"""Writes one file at the path that it is given."""
_NEEDED = {"ops": {"rank", "stream", "kind", "start_ps", "end_ps"}, "memory": {"rank", "time_ps", "bytes", "what"}}


@dataclass(frozen=True)
class RunData:
    """All that a run folder holds, or an export of one.

    ``link_totals`` (:func:`~clustersim.analysis.summary.link_totals`) and ``ranks`` (rank of the job, rank simulated_as) are None, the
    documents ``summary`` and ``manifest`` empty, where it has none.
    """

    trace: Trace
    link_totals: pd.DataFrame | None = None
    ranks: pd.DataFrame | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)


def steps_of(manifest: dict[str, Any]) -> int:
    """Steps in a row in the trace; 1 where nothing says, or where a part of the time was cut out.

    >>> steps_of({"inputs": {"steps": 3}}), steps_of({"inputs": {"steps": 3}, "cut": {"from_s": 1.0}}), steps_of({})
    (3, 1, 1)
    """
    inputs = manifest.get("inputs")
    steps = inputs.get("steps", 1) if isinstance(inputs, dict) else 1
    in_time = not {"from_s", "until_s"}.isdisjoint(cut_of(manifest))
    return steps if type(steps) is int and steps > 0 and not in_time else 1


def cut_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """What part of a run this is: ``ranks``, ``from_s``, ``until_s``, each where it was cut so; empty for a whole one.

    >>> cut_of({"cut": {"ranks": [0, 1]}}), cut_of({})
    ({'ranks': [0, 1]}, {})
    """
    cut = manifest.get("cut")
    return cut if isinstance(cut, dict) else {}


def job_ranks_of(summary: dict[str, Any]) -> int | None:
    """Ranks of the whole job; None where nothing says.

    >>> job_ranks_of({"ranks": 8}), job_ranks_of({"ranks": "many"})
    (8, None)
    """
    ranks = summary.get("ranks")
    return ranks if type(ranks) is int and ranks > 0 else None


def write_whole(path: Path, write: Write) -> Path:
    """Call ``write`` with a name beside ``path`` and rename: the file appears whole or not at all.

    InputError when the place cannot be written.
    """
    return write_all({path: write})[0]


def write_all(files: Mapping[Path, Write]) -> list[Path]:
    """:func:`write_whole` for files that belong together: each stays as it was until all are written. The paths.

    InputError naming the file that cannot be written.
    """
    besides = {path: path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}") for path in files}
    path = None
    try:
        with ended_as_interrupted():
            for path, write in files.items():
                if path.exists() and not path.is_file() and not path.is_dir():  # a rename would put a file in its place
                    raise InputError(f"{path}: cannot be written: a device or pipe, not a file")
                path.parent.mkdir(parents=True, exist_ok=True)
                write(besides[path])
            for path, beside in besides.items():
                os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from None
    finally:
        for beside in besides.values():
            with suppress(OSError):  # where the folder is a file there is nothing to remove either
                beside.unlink(missing_ok=True)
    return list(files)


def reason(error: OSError) -> str:
    """The system's words; a library may have put its own around them.

    >>> reason(OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"))
    'No space left on device'
    """
    return os.strerror(error.errno) if error.errno else str(error)


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """A SIGTERM in here is taken as Ctrl-C is: what is half written is removed. Only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def check_writable(folder: Path) -> None:
    """Make the output folder and try it; InputError when it cannot be made or written. Called before long work."""
    probe = folder / f".clustersim.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written as a folder: {error.strerror or error}") from None


def write_trace(trace: Trace, folder: Path) -> list[Path]:
    """Write the four tables; the paths."""
    return write_all(trace_writers(trace, folder))


def trace_writers(trace: Trace, folder: Path) -> dict[Path, Write]:
    """For :func:`write_all`: the four tables by their paths."""
    return {folder / f"{name}.parquet": table_writer(getattr(trace, name)) for name in TABLES}


def table_writer(table: pd.DataFrame) -> Write:
    """For :func:`write_all`: a table as Parquet."""
    return lambda path: table.to_parquet(path, index=False)


def text_writer(text: str) -> Write:
    """For :func:`write_all`: text as UTF-8."""
    return lambda path: path.write_text(text, encoding="utf-8")


def read_trace(folder: Path) -> Trace:
    """Read a run folder; InputError naming what is missing."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; `clustersim run EXPERIMENT -o FOLDER` makes one")
    tables = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{path}: no such file; a run folder holds {', '.join(f'{t}.parquet' for t in TABLES)}")
        tables[name] = _table(path, tuple(sorted(_NEEDED.get(name, ()))))
    return Trace(**tables)


def read_run(folder: Path) -> RunData:
    """Read a run folder with all that it has beside the trace; InputError naming what is missing or damaged."""
    trace = read_trace(folder)
    paths = {name: folder / f"{name}.parquet" for name in OPTIONAL}
    tables: dict[str, Any] = {name: _table(path, OPTIONAL[name]) if path.is_file() else None for name, path in paths.items()}
    return RunData(trace, **tables, **{name: _document(folder / f"{name}.json") for name in ("summary", "manifest")})


def _table(path: Path, needed: tuple[str, ...]) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # the last three over what pandas notes in the file
        raise InputError(f"{path}: not a readable Parquet table: {' '.join(str(error).split())[:120]}") from None
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(f"{path}: columns missing: {', '.join(missing)}")
    return table


def _document(path: Path) -> dict[str, Any]:
    """An empty one where there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number, parse_float=_finite)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable JSON: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number
