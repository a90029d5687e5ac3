"""What commands share: tables and JSON on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from clustersim import units

_UNWRAPPED_COLUMNS = 1_000_000
_QUIET_S = 1.0
_BETWEEN_S = 0.2


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def console() -> Console:
    """Where tables go: as wide as the terminal, unwrapped into files and pipes; names print as they are, brackets and all."""
    width = None if sys.stdout.isatty() else _UNWRAPPED_COLUMNS
    return _Console(width=width, highlight=False, markup=False, emoji=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # what is being handled, where rich would exit with 1


def print_warnings(warnings: Iterable[str]) -> None:
    """One line each; the same one for several strategies once."""
    for warning in dict.fromkeys(warnings):
        print(f"warning: {warning}", file=sys.stderr)


def print_files(paths: Iterable[Path]) -> None:
    print("files:")
    for path in paths:
        print(f"  {path}")


class ProgressLine:
    """A line on stderr that counts ops, shown once a run takes longer than a second; rewritten in place on a terminal."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.begin = self.shown_at = time.monotonic()
        self.shown = False

    def __call__(self, done: int, total: int, now_ps: int) -> None:
        now = time.monotonic()
        if now - self.begin < _QUIET_S or now - self.shown_at < _BETWEEN_S:
            return
        if self.shown and not sys.stderr.isatty():
            return  # a log wants one line, not hundreds
        self.shown, self.shown_at = True, now
        left = (now - self.begin) * (total - done) / max(done, 1)
        text = (
            f"{self.label}: {done:,} of {total:,} ops ({done / total:.0%}), {left:.0f} s left,"
            f" simulated {units.time_text(now_ps / units.PS_PER_S)}"
        )
        print(f"\r\033[K{text}" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
