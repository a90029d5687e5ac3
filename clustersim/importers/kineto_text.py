"""The text of a profiler file, in pieces: whole events at a time, so that a file larger than memory can be read.

A file is an object with ``traceEvents`` (PyTorch), or a bare list of events. Blocks of text are cut where an event ends. A cut is
guessed from the text and proved by decoding: a piece that ends inside a string or inside an event is no JSON. Only where the guess
fails, as in the last block, are the brackets counted.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from clustersim.errors import InputError

BLOCK = 1 << 19
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_FOREIGN = '{}: not a PyTorch profiler trace: "traceEvents" is missing'
_LONGEST = 128 << 20
_NEAR = 1 << 14  # how far from the end of a block a cut is looked for
_SPACE = b" \t\r\n,"
NO_JSON = (msgspec.MsgspecError, ValueError, RecursionError)  # the first of msgspec, of which not every release makes it a ValueError
_BYTE = re.compile(r"(.*) \(byte ([0-9]+)\)", re.S)  # as msgspec says where
_OPEN, _CLOSE = re.compile(rb"\s*\["), re.compile(rb"\s*\]")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S)


class NotATrace(InputError):
    """JSON of something else."""


Decode = Callable[[bytes], list[Any]]


@dataclass
class Header:
    """What a file says beside its events, filled while the events are read; ``bare``: the file is a list of events alone."""

    values: dict[str, Any] = field(default_factory=dict)
    bare: bool = False


def pieces(path: Path, decode: Decode, header: Header, block: int = BLOCK) -> Iterator[list[Any]]:
    """Lists of decoded events, in the order of the file; ``header`` is complete when the last has been given.

    ``decode`` turns the text of a JSON list into a list, and raises ValueError where it is no JSON.
    """
    blocks = _Counted(_blocks(path, block))
    text = _to_events(path, blocks, header)
    looked = 0  # bytes without the end of an event: looked through again once there are twice as many, or it takes the square of them
    for more in blocks:
        text = (text + more).lstrip(_SPACE)
        if len(text) > _LONGEST:
            raise InputError(f"{path}: invalid JSON: an event of more than {_LONGEST >> 20} MiB")
        if len(text) < 2 * looked:
            continue
        cut = _guess(text)
        events = _try(decode, memoryview(text)[: cut[0]]) if cut else None
        if cut and events is not None:
            text, looked = text[cut[1] :], 0
            yield events
            continue
        end, closed = _last_event(text)
        if end:
            yield _decoded(path, decode, text[:end], blocks.bytes - len(text))
            text = text[end:].lstrip(_SPACE)
        if closed:
            yield from _rest(path, decode, text, blocks, header)
            return
        looked = len(text)
    text = text.lstrip(_SPACE)
    end, closed = _last_event(text)
    if not closed:
        raise InputError(f"{path}: the file ends, after {blocks.bytes} bytes, inside its events: truncated, or invalid JSON")
    if end:
        yield _decoded(path, decode, text[:end], blocks.bytes - len(text))
    yield from _rest(path, decode, text[end:].lstrip(_SPACE), blocks, header)


class _Counted:
    """Blocks of text, and how many bytes they had so far: what is still at hand is always the end of that."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks = blocks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self.blocks:
            self.bytes += len(block)
            yield block


def _rest(path: Path, decode: Decode, text: bytes, blocks: _Counted, header: Header) -> Iterator[list[Any]]:
    """What comes behind the last event: the end of the list, and further values."""
    close = _CLOSE.match(text)
    if not close:  # something other than an object is last in the list
        close_at = text.find(b"]") if b"]" in text else len(text)  # a brace that closes nothing
        yield _decoded(path, decode, text[:close_at], blocks.bytes - len(text))
        text = text[close_at + 1 :]
    else:
        text = text[close.end() :]
    behind = [text]
    for more in blocks:
        behind.append(more)
        if sum(map(len, behind)) > _LONGEST:
            raise InputError(f"{path}: more than {_LONGEST >> 20} MiB behind the events")
    text = b"".join(behind).lstrip()
    if header.bare:
        if text:
            raise InputError(f"{path}: invalid JSON at byte {blocks.bytes - len(text)}: text behind the list of events")
        return
    text = text.removeprefix(b",")
    header.values |= _object(path, b"{" + text, blocks.bytes - len(text) - 1)


def _to_events(path: Path, blocks: _Counted, header: Header) -> bytes:
    """Reads on to the first event; the text from there."""
    text = b""
    for more in blocks:
        begin = max(0, len(text) - len(b'"traceEvents" : ['))
        text = (text + more).removeprefix(b"\xef\xbb\xbf").lstrip()  # or each block would be looked through again
        bare = _OPEN.match(text)
        if bare:
            header.bare = True
            return text[bare.end() :]
        found = _EVENTS.search(text, begin)
        if found:
            header.values |= _object(path, text[: found.start()].rstrip().removesuffix(b",") + b"}", blocks.bytes - len(text))
            return text[found.end() :]
        if len(text) > _LONGEST:
            break
    else:
        _object(path, text, blocks.bytes - len(text))
    raise NotATrace(_FOREIGN.format(path))


def _guess(text: bytes) -> tuple[int, int] | None:
    """Where the last event but one probably ends, and where the last begins."""
    found = list(_BETWEEN.finditer(text, max(0, len(text) - _NEAR)))
    return (found[-1].start() + 1, found[-1].end()) if found else None


def _last_event(text: bytes) -> tuple[int, bool]:
    """Where the last whole event ends (0: there is none), and whether the list of events ends behind it: by counting brackets.

    >>> _last_event(b'{"a": "}]"}, {"b": [{}]}, {"c'), _last_event(b'{}, {} ], "x": []}'), _last_event(b' ]}')
    ((24, False), (6, True), (0, True))
    """
    letters = np.frombuffer(text, dtype=np.uint8)
    marks = np.flatnonzero((letters == 34) | ((letters | 32) == 123) | ((letters | 32) == 125))  # " and { [ and } ]
    kinds = letters[marks]
    quotes = kinds == 34
    if b"\\" in text:
        real = np.ones(len(marks), dtype=bool)
        real[np.flatnonzero(quotes)[_escaped(letters, marks[quotes])]] = False
        marks, kinds, quotes = marks[real], kinds[real], quotes[real]
    outside = (np.cumsum(quotes) % 2 == 0) & ~quotes
    marks, kinds = marks[outside], kinds[outside]
    depth = np.cumsum(np.where((kinds | 32) == 123, 1, -1))
    below = np.flatnonzero(depth < 0)
    stop = below[0] if len(below) else len(depth)
    ends = np.flatnonzero((depth[:stop] == 0) & (kinds[:stop] == 125))
    return (int(marks[ends[-1]]) + 1 if len(ends) else 0), bool(len(below))


def _escaped(letters: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    """Which of the quotes have an odd number of backslashes before them."""
    odd = np.zeros(len(quotes), dtype=bool)
    here, back = np.arange(len(quotes)), 1
    while len(here):
        here = here[(quotes[here] >= back) & (letters[np.maximum(quotes[here] - back, 0)] == 92)]
        odd[here] = ~odd[here]
        back += 1
    return odd


def lenient(text: bytes, **how: Any) -> Any:
    r"""What writers get wrong, read all the same: control characters, broken UTF-8, NaN, one half of a pair of surrogates.

    >>> lenient(rb'"a\ud83d \ud83d\ude00 \\ud83d"') == "a\ufffd \U0001f600 \\ud83d"
    True
    """
    whole = _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], text.decode(errors="replace"))
    return json.loads(whole, strict=False, **how)


def _try(decode: Decode, text: memoryview) -> list[Any] | None:
    try:
        return decode(b"".join((b"[", text, b"]")))
    except (ValueError, RecursionError):
        return None


def _decoded(path: Path, decode: Decode, text: bytes, at: int) -> list[Any]:
    """``at``: bytes of the file before the text."""
    text = text.rstrip().removesuffix(b",")
    try:
        return decode(b"[" + text + b"]")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: invalid JSON in the events{_place(b'[' + text, error, at - 1)}") from None


def _place(text: bytes, error: Exception, at: int) -> str:
    """What is wrong, and at which byte of the unpacked file (from 0); ``at``: bytes of the file before the text.

    >>> _place(b"[1 2]", json.JSONDecodeError("Expecting ',' delimiter", "[1 2]", 3), 100)
    " at byte 103: Expecting ',' delimiter"
    """
    if isinstance(error, json.JSONDecodeError):
        before = text.decode(errors="surrogateescape")[: error.pos].encode(errors="surrogateescape")
        return f" at byte {at + len(before)}: {error.msg}"
    if isinstance(error, RecursionError):
        return ": nested too deeply"
    found = _BYTE.fullmatch(str(error))
    return f" at byte {at + int(found[2])}: {found[1]}" if found else f": {str(error).partition(';')[0]}"


def _object(path: Path, text: bytes, at: int = 0) -> dict[str, Any]:
    """``at``: bytes of the file before the text."""
    try:
        try:
            value = msgspec.json.decode(text)
        except NO_JSON:
            value = lenient(text)
    except (ValueError, RecursionError) as error:
        kind = "the file is empty" if not text.strip() else f"invalid JSON{_place(text, error, at)}"
        raise InputError(f"{path}: {kind}") from None
    if not isinstance(value, dict):
        raise NotATrace(_FOREIGN.format(path))
    return value


def _blocks(path: Path, block: int) -> Iterator[bytes]:
    """The unpacked text; the next block is read while this one is worked on."""
    try:
        with open_unpacked(path) as file, ThreadPoolExecutor(1) as reader:
            coming = reader.submit(file.read, block)
            while now := coming.result():
                coming = reader.submit(file.read, block)
                yield now
    except EOFError:
        raise InputError(f"{path}: the gzip file is truncated") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the gzip file is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def open_unpacked(path: Path) -> BufferedIOBase:
    """Packed or not by the first bytes, whatever the name says."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else open(path, "rb")
