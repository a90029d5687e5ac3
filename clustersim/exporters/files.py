"""Exports as files: their size told before, their text made piece by piece, whole or not at all."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clustersim.errors import InputError
from clustersim.trace.files import ended_as_interrupted, reason, write_whole

CHUNK = 20_000
_SAMPLE = 2_000
_LEVEL = 6


@dataclass(frozen=True)
class Part:
    """One file: its name in the folder, and a function that gives its bytes piece by piece. Packed where the name ends in ``.gz``."""

    name: str
    chunks: Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Size:
    """About how large an export becomes: as text, and as written."""

    text_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.text_bytes + other.text_bytes, self.written_bytes + other.written_bytes)


@dataclass(frozen=True)
class Export:
    """The files of an export, and about how large they become together."""

    parts: tuple[Part, ...]
    size: Size


def estimate(rows: int, render: Callable[[slice], bytes], packed: bool, sample: int = _SAMPLE) -> Size:
    """The size of all rows from that of some in the middle; exact where there are no more than those.

    >>> estimate(10_000, lambda rows: b"12345" * (rows.stop - rows.start), packed=False).text_bytes
    50000
    """
    if not rows:
        return Size()
    count = min(rows, sample)
    begin = (rows - count) // 2
    text = render(slice(begin, begin + count))
    written = len(gzip.compress(text, _LEVEL)) if packed else len(text)
    return Size(len(text) * rows // count, written * rows // count)


def spans(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """
    >>> list(spans(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def write_file(part: Part, path: Path, seen: Callable[[int], None]) -> list[Path]:
    """Write one file at ``path``; ``seen`` is told the length of each piece of text."""
    return [write_whole(path, lambda beside: _write(part, beside, path.name, seen))]


def write_folder(parts: Iterable[Part], folder: Path, seen: Callable[[int], None]) -> list[Path]:
    """Write the files beside the folder, then put them there. InputError for a folder that holds anything else."""
    parts = list(parts)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        with ended_as_interrupted():
            check_folder(folder, {part.name for part in parts})
            beside.mkdir(parents=True)
            for part in parts:
                _write(part, beside / part.name, part.name, seen)
            if folder.exists():
                for part in parts:
                    os.replace(beside / part.name, folder / part.name)
            else:
                os.rename(beside, folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {reason(error)}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return [folder / part.name for part in parts]


def check_folder(folder: Path, names: set[str]) -> None:
    """InputError for a folder that holds other files: a rank of an earlier export left among new ones would be read as one of them."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; this format is a folder of files")
    others = sorted(one.name for one in folder.iterdir() if one.name not in names) if folder.exists() else []
    if others:
        raise InputError(f"{folder}: holds files that are not of this export, such as {others[0]}; name a new or empty folder")


def _write(part: Part, path: Path, name: str, seen: Callable[[int], None]) -> None:
    with open(path, "wb") as raw:
        file = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) if name.endswith(".gz") else raw
        with file:
            for chunk in part.chunks():
                file.write(chunk)
                seen(len(chunk))
