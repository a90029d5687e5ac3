"""What every importer gives back, and the pieces of YAML that they all write.

>>> print(commented("bandwidth: 25 GB/s", "of one link"))
bandwidth: 25 GB/s            # of one link
>>> scalar("dgx-a100"), scalar("true"), scalar("my cluster")
('dgx-a100', '"true"', '"my cluster"')
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from clustersim.document import MAX_FILE_BYTES, clipped, shown
from clustersim.errors import InputError
from clustersim.units import decimal_size_text

_COLUMN = 30
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_TEXT = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\x0f")


@dataclass(frozen=True)
class Imported:
    """A file's ``text``; ``notes`` are sentences on what was assumed, ``unused`` what the input says and the file does not.

    ``gpus_per_node`` is that of the job, where the input says it: the cluster may have another.
    """

    text: str
    notes: tuple[str, ...]
    unused: tuple[str, ...]
    gpus_per_node: int | None = None


def readable(text: str, source: str, what: str) -> str:
    """``text`` without terminal codes and with plain line ends; InputError when it is no text, too long, or nothing."""
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"{source}: larger than {decimal_size_text(MAX_FILE_BYTES)}, the limit for {what}")
    lines = _TERMINAL.sub("", text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        strange = next((c for c in line if c != "\t" and not c.isprintable() and not c.isspace()), None)
        if strange is not None:
            raise InputError(f"{source}:{number}: character {strange!r} is not text; expected {what}")
    if not any(line.strip() for line in lines):
        raise InputError(f"{source}: the file is empty; expected {what}")
    return "\n".join(lines)


def remark(text: str) -> str:
    """Text from outside as a YAML comment can hold it: one line, printable."""
    return clipped("".join(c if c.isprintable() else "?" for c in text))


def commented(line: str, comment: str) -> str:
    """A line of YAML and what is to be said of it."""
    return f"{line:<{_COLUMN - 1}} # {comment}"


def scalar(text: str) -> str:
    """A string as YAML reads it back."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT
    return text if plain else json.dumps(text, ensure_ascii=False)


def option_text(value: object, option: str, expected: str) -> str:
    """A name that came as an option; InputError when it cannot stand in a file."""
    if not isinstance(value, str) or not value or len(value) > 1000 or not value.isprintable():
        raise InputError(f"{option}: expected {expected}, got {shown(value)}")
    return value


def option_count(value: object, option: str, what: str, maximum: int = 200_000) -> int:
    """A whole number that came as an option."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise InputError(f"{option}: expected {what}, a whole number from 1 to {maximum:,}, got {shown(value)}")
    return value
