"""Values of options that several commands take."""

from __future__ import annotations

import re
from pathlib import Path

from clustersim import units
from clustersim.document import clipped, shown
from clustersim.errors import InputError
from clustersim.trace.files import check_writable

_LARGEST = 10**6
_PART = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


def output_folder(given: str | None, default: str) -> Path:
    """The folder of ``-o``, made and tried; InputError when it cannot be written."""
    name = default if given is None else given
    if not name or not name.isprintable():
        raise InputError(f"-o: expected a folder with a printable name, got {shown(name)}")
    try:
        check_writable(Path(name))
    except InputError as error:
        raise InputError(f"-o {error}") from None
    return Path(name)


def rank_numbers(option: str, text: str) -> list[int]:
    """``0-3,8`` as numbers, in the order given.

    >>> rank_numbers("--ranks", "8,0-3")
    [8, 0, 1, 2, 3]
    """
    place = f"{option} {clipped(text)}"
    ranks: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, _LARGEST + 1)
        if low > high:
            raise InputError(f"{place}: the range {low}-{high} is reversed; write the smaller rank first: {high}-{low}")
        if high > _LARGEST:
            raise InputError(f"{place}: expected rank numbers and ranges up to {_LARGEST:,}, for example 0-3,8")
        ranks += range(low, high + 1)
        if len(ranks) > _LARGEST:
            raise InputError(f"{place}: more than {_LARGEST:,} ranks; allowed: at most that many")
    return ranks


def seconds(option: str, text: str | None) -> float | None:
    """A time with its unit; None where the option is not given.

    >>> seconds("--from", "1.5 ms"), seconds("--to", None)
    (0.0015, None)
    """
    if text is None:
        return None
    try:
        return float(units.parse(text, "time"))
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def time_window(start: str | None, end: str | None, whole_ps: int) -> tuple[int, int] | None:
    """What ``--from`` and ``--to`` say of a trace from 0 to ``whole_ps``, in ps, inside of it; None without them.

    >>> time_window("1 us", None, 5 * 10**6), time_window(None, None, 5)
    ((1000000, 5000000), None)
    """
    if start is None and end is None:
        return None
    begin_s, end_s = seconds("--from", start), seconds("--to", end)
    for option, time, text in (("--from", begin_s, start), ("--to", end_s, end)):
        if time is not None and time < 0:
            raise InputError(f"{option}: {clipped(str(text))} is before the trace begins; allowed: 0 s and later")
    window = 0 if begin_s is None else units.to_ps(begin_s), whole_ps if end_s is None else min(units.to_ps(end_s), whole_ps)
    if window[0] >= window[1]:
        raise InputError(f"--from, --to: no time of the trace lies between; it ends at {units.time_text(whole_ps / units.PS_PER_S)}")
    return window
