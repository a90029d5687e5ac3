"""Finished points on disk: a line of JSON each, written through at once, so that nothing that was computed is lost."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from clustersim.errors import InputError
from clustersim.sweeps.points import FAILED

FILE = "points.jsonl"


class Store:
    """Rows by key, kept in ``points.jsonl`` of a folder, or in memory without one. Use as a context.

    Until its end the file is locked: InputError when it cannot be read or another store has it. The lock is the system's, which
    frees it however the process ends. A line that was cut off (the machine stopped while it was written) or damaged is passed over,
    its point is made again. Failed points are kept in the file but not given back: they are tried again.

    >>> with Store(None) as store:
    ...     store.add("a", {"status": "ok", "step_time_s": 1.5}, {"batch.global": "8"})
    ...     store["a"], "b" in store
    ({'status': 'ok', 'step_time_s': 1.5}, False)
    """

    def __init__(self, folder: Path | None) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._path = None if folder is None else folder / FILE
        self._file: BinaryIO | None = None
        self._torn = False

    def __enter__(self) -> Store:
        if self._path is not None:
            self._file = _locked(self._path)
            self._read(self._file.read())
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # what could not be written has been said
                self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._rows[key]

    def add(self, key: str, row: dict[str, Any], assignments: Mapping[str, str]) -> None:
        """Keep a row; it is on the disk when this returns."""
        self._rows[key] = row
        if self._file is None:
            return
        entry = {"key": key, "fields": dict(assignments), "row": row, "check": _check(key, row)}
        line = json.dumps(entry, allow_nan=False) + "\n"
        try:
            self._file.write(b"\n" * self._torn + line.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(f"{self._path}: cannot be written: {error.strerror or error}") from None
        self._torn = False

    def _read(self, content: bytes) -> None:
        self._torn = bool(content) and not content.endswith(b"\n")
        for line in content.splitlines():
            try:
                entry = json.loads(line)
                key, row = entry["key"], entry["row"]
                if entry["check"] == _check(key, row) and row["status"] != FAILED:
                    self._rows[key] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off, or damaged


def _check(key: str, row: Mapping[str, Any]) -> str:
    """Tells a row as it was written from one with other figures."""
    return hashlib.sha256(json.dumps([key, row]).encode()).hexdigest()[:16]


def _locked(path: Path) -> BinaryIO:
    """The file, to read and to append to, held by nobody else."""
    try:
        file = path.open("a+b")
        file.seek(0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{path}: another sweep is at work in this folder; wait for its end, or take another folder") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read and written: {error.strerror or error}") from None
    return file
