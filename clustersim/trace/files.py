"""A trace as a folder of Parquet tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd

from clustersim.errors import InputError
from clustersim.trace.trace import Trace

TABLES = ("ops", "dependencies", "links", "memory")
_NEEDED = {"ops": {"rank", "stream", "kind", "start_ps", "end_ps"}, "memory": {"rank", "time_ps", "bytes", "what"}}


def write_whole(path: Path, write: Callable[[Path], None]) -> Path:
    """Call ``write`` with a name beside ``path`` and rename: the file appears whole or not at all.

    InputError when the place cannot be written.
    """
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # where the folder is a file there is nothing to remove either
            beside.unlink(missing_ok=True)
    return path


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
    paths = []
    for name in TABLES:
        table: pd.DataFrame = getattr(trace, name)
        paths.append(write_whole(folder / f"{name}.parquet", lambda path, table=table: table.to_parquet(path, index=False)))
    return paths


def read_trace(folder: Path) -> Trace:
    """Read a run folder; InputError naming what is missing."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; `clustersim run EXPERIMENT -o FOLDER` makes one")
    tables = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{path}: no such file; a run folder holds {', '.join(f'{t}.parquet' for t in TABLES)}")
        try:
            tables[name] = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable Parquet table: {' '.join(str(error).split())[:120]}") from None
    for name, needed in _NEEDED.items():
        missing = needed - set(tables[name].columns)
        if missing:
            raise InputError(f"{folder / name}.parquet: columns missing: {', '.join(sorted(missing))}")
    return Trace(**tables)
