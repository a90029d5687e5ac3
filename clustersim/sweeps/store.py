"""Finished points on disk: a line of JSON each, written through at once, so that nothing that was computed is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.sweeps.points import FAILED

FILE = "points.jsonl"


class Store:
    """Rows by key, kept in ``points.jsonl`` of a folder, or in memory without one.

    A line that was cut off (the machine stopped while it was written) is passed over, its point is made again. Failed points
    are kept in the file but not given back: they are tried again.

    >>> store = Store(None)
    >>> store.add("a", {"status": "ok", "step_time_s": 1.5}, {"batch.global": "8"})
    >>> store.get("a"), store.get("b")
    ({'status': 'ok', 'step_time_s': 1.5}, None)
    """

    def __init__(self, folder: Path | None) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._path = None if folder is None else folder / FILE
        self._torn = False
        if self._path is not None:
            self._read()

    def get(self, key: str) -> dict[str, Any] | None:
        return self._rows.get(key)

    def add(self, key: str, row: dict[str, Any], assignments: Mapping[str, str]) -> None:
        """Keep a row; it is on the disk when this returns."""
        self._rows[key] = row
        if self._path is None:
            return
        line = json.dumps({"key": key, "fields": dict(assignments), "row": row}, allow_nan=False) + "\n"
        try:
            with self._path.open("ab") as file:
                file.write(b"\n" * self._torn + line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self._path}: cannot be written: {error.strerror or error}") from None
        self._torn = False

    def _read(self) -> None:
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror or error}") from None
        self._torn = bool(content) and not content.endswith(b"\n")
        for line in content.splitlines():
            try:
                entry = json.loads(line)
                key, row = entry["key"], entry["row"]
                if row["status"] != FAILED:
                    self._rows[key] = row
            except (ValueError, KeyError, TypeError):
                continue  # cut off
