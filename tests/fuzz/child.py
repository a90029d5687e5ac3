"""One process that gives damaged files to commands, within limits of time and memory, and says what each came to.

    python -m tests.fuzz.child FIRST COUNT SKIPPED TARGET...

A line of JSON for each input: its target and seed, ``outcome``, and what was said. Wrong are the outcomes that are not in ``FINE``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from clustersim.cli import main
from tests.fuzz.targets import Target, targets

FINE = ("done", "refused", "busy")
"""``busy``: right input that asks for more than the time of a case, and was being simulated when that ended."""
SECONDS = 5
"""Of processor time; a machine may be busy with something else."""
SILENT_SECONDS = 60
"""Of waiting, or inside a library that no signal interrupts: then the process ends."""
BYTES = 3 << 30
_LEFT = ("done", "refused")


class _TimeUp(BaseException):
    pass


def outcome(target: Target, seed: int) -> tuple[str, str]:
    """What a command makes of one damaged file: the outcome, and the words that explain it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in target.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(target.content(seed) if name == target.damaged else content)
        before = _files()
        kind, words = _called(target.arguments)
        odd = [name for name in _files() - before if Path(name).name.startswith(".") or not name.startswith("out")]
        if odd and kind in _LEFT:
            return "left behind", str(odd)
        new = [name for name in _files() - before if name not in (".", "out")]
        return ("half written", str(new)) if kind == "refused" and new and "sweep" not in target.arguments else (kind, words)


def _files() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


def _called(arguments: tuple[str, ...]) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    faulthandler.dump_traceback_later(SILENT_SECONDS, exit=True)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            status = main(arguments)
    except SystemExit as exit:
        status = exit.code
    except _TimeUp as error:
        trace = traceback.extract_tb(error.__traceback__)
        busy = any(frame.filename.endswith("clustersim/simulation.py") for frame in trace)
        return "busy" if busy else "hang", " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(trace[-8:]))
    except BaseException:
        return "traceback", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    return _judged(arguments, status, out.getvalue(), err.getvalue())


def _judged(arguments: tuple[str, ...], status: object, out: str, err: str) -> tuple[str, str]:
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]  # of the file, before what is wrong with the arguments
    if "out of memory" in err:
        return "memory", err
    if status == 2:
        right = len(lines) == 1 and lines[0].startswith("clustersim: ") and err.endswith("\n") and len(err) < 2000
        listed = arguments[:2] == ("schedule", "check")  # shows the fault in the schedule
        return ("refused" if right and (listed or not out) else "not one line"), err
    if status != 0:
        return f"status {status}", err
    if any("Warning" in line for line in lines):
        return "Python's warnings", err
    if "--json" in arguments:
        try:
            json.loads(out, parse_constant=_no_number)
        except ValueError as error:
            return "no JSON", f"{error}: {out[:200]}"
    return "done", ""


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _time_up(*_: object) -> None:
    raise _TimeUp


def _limit() -> None:
    """Memory by address space, above what is mapped already; signals as in a command of its own."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + BYTES, mapped + BYTES))
    signal.signal(signal.SIGPROF, _time_up)


def cases(first: int, count: int, names: Sequence[str]) -> list[tuple[str, int]]:
    """Each target with each of ``count`` seeds."""
    return [(name, seed) for name in names for seed in range(first, first + count)]


def run(first: int, count: int, skipped: int, names: Sequence[str]) -> None:
    known = targets()
    _limit()
    for name, seed in cases(first, count, names)[skipped:]:
        begin = time.monotonic()
        kind, words = outcome(known[name], seed)
        row = {"target": name, "seed": seed, "outcome": kind, "words": words, "seconds": round(time.monotonic() - begin, 2)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    run(*map(int, sys.argv[1:4]), sys.argv[4:])
