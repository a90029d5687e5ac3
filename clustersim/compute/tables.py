"""Measured kernels: a CSV with a row each.

``kind`` says which columns a row needs: a ``matmul`` (the default) ``rows, columns, inner`` and ``batch`` (1 when empty); an ``attention``
``queries, keys, heads, head_size`` and ``value_size`` (as head_size), ``part`` (1) and ``backward`` (false); a ``pass`` ``moved_bytes``
and ``kernels`` (1). ``time_us`` is what it took, ``precision`` that of the data (any when empty), ``source`` and ``case`` are for people.

>>> row = {"kind": "attention", "queries": "2048", "keys": "2048", "heads": "16", "head_size": "128", "part": "0.5", "backward": "true"}
>>> kernel_of(row, "example.csv:2")
Attention(queries=2048, keys=2048, heads=16, head_size=128, value_size=128, part=0.5, backward=True)
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim import document
from clustersim.cluster.spec import PRECISIONS
from clustersim.compute.kernels import Attention, Kernel, Matmul, Pass
from clustersim.errors import InputError

_MATMUL = ("rows", "columns", "inner", "batch")
_ATTENTION = ("queries", "keys", "heads", "head_size", "value_size", "part", "backward")
_PASS = ("moved_bytes", "kernels")
_OF_KIND = {"matmul": _MATMUL, "attention": _ATTENTION, "pass": _PASS}
TIME = "time_us"
COLUMNS = ("kind", *_MATMUL, *_ATTENTION, *_PASS, "precision", TIME, "source", "case")
_LARGEST_SIZE, _LARGEST_BYTES, _LONGEST_US = 10**9, 1e15, 1e9


@dataclass(frozen=True)
class MeasuredKernel:
    """A row: where it stands, the kernel, the precision ("" for any), seconds, and what the row says of itself."""

    place: str
    kernel: Kernel
    precision: str
    time_s: float
    source: str
    case: str


def read_table(path: Path, precision: str) -> dict[Kernel, float]:
    """Seconds by kernel of the rows of one precision; the mean where a kernel stands more than once.

    InputError as :func:`read_kernels`, and where no row is of the precision.
    """
    seen: dict[Kernel, list[float]] = {}
    for row in read_kernels(path):
        if row.precision in ("", precision):
            seen.setdefault(row.kernel, []).append(row.time_s)
    if not seen:
        raise InputError(f"{path}: no row of {precision}; allowed: at least one kernel of that precision")
    return {kernel: sum(times) / len(times) for kernel, times in seen.items()}


def read_kernels(path: Path) -> list[MeasuredKernel]:
    """All rows. InputError, with the line, for a column that is missing or unknown and a value that is no size or time."""
    fields, rows = read_csv(path)
    unknown = [field for field in fields if field not in COLUMNS]
    if unknown:
        raise InputError(f"{path}:1: unknown column {_allowed(unknown[0], COLUMNS)}")
    if TIME not in fields:
        raise InputError(f"{path}:1: no column {TIME}; allowed: {', '.join(COLUMNS)}")
    return [_measured(row, place) for place, row in rows]


def read_csv(path: Path) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """The columns of a CSV, and its rows with their places, ``file.csv:2``; an empty field is "".

    InputError for a file without rows, a column given twice and a row of another length.
    """
    reader = csv.reader(document.read_text(path).removeprefix("\ufeff").splitlines(keepends=True), strict=True)
    rows: list[tuple[str, dict[str, str]]] = []
    fields: list[str] = []
    try:
        for values in reader:
            place = f"{path}:{reader.line_num}"
            if not values:
                continue
            if not fields:
                fields = [value.strip() for value in values]
                twice = [field for field, times in Counter(fields).items() if times > 1 or not field]
                if twice:
                    raise InputError(f"{place}: the column {document.shown(twice[0])} stands twice or has no name")
                continue
            if len(values) != len(fields):
                raise InputError(f"{place}: {len(values)} fields; allowed: {len(fields)}, as the first line has columns")
            rows.append((place, {field: value.strip() for field, value in zip(fields, values, strict=True)}))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise InputError(f"{path}: no rows; expected a line of column names, and a line for each measurement")
    return fields, rows


def kernel_of(row: Mapping[str, str], place: str) -> Kernel:
    """The kernel that a row describes. InputError at ``place`` for a value that is none, or of another kind."""
    kind = row.get("kind") or "matmul"
    if kind not in _OF_KIND:
        raise InputError(f"{place}: kind: unknown value {_allowed(kind, tuple(_OF_KIND))}")
    foreign = [column for other, columns in _OF_KIND.items() if other != kind for column in columns if row.get(column)]
    if foreign:
        raise InputError(f"{place}: {foreign[0]}: a {kind} has none; allowed: {', '.join(_OF_KIND[kind])}")

    def size(column: str, default: str = "") -> int:
        value = positive(row.get(column) or default, f"{place}: {column}", _LARGEST_SIZE, 1)
        if value != int(value):
            raise InputError(f"{place}: {column}: expected a whole number, got {document.shown(row.get(column))}")
        return int(value)

    if kind == "matmul":
        return Matmul(size("rows"), size("columns"), size("inner"), size("batch", "1"))
    if kind == "pass":
        return Pass(positive(row.get("moved_bytes"), f"{place}: moved_bytes", _LARGEST_BYTES), size("kernels", "1"))
    head_size = size("head_size")
    part = positive(row.get("part") or "1", f"{place}: part", 1)
    way = row.get("backward") or "false"
    if way not in ("true", "false"):
        raise InputError(f"{place}: backward: expected true or false, got {document.shown(way)}")
    return Attention(size("queries"), size("keys"), size("heads"), head_size, size("value_size", str(head_size)), part, way == "true")


def _measured(row: Mapping[str, str], place: str) -> MeasuredKernel:
    precision = row.get("precision", "")
    if precision and precision not in PRECISIONS:
        raise InputError(f"{place}: precision: unknown value {_allowed(precision, PRECISIONS)}")
    time_us = positive(row[TIME], f"{place}: {TIME}", _LONGEST_US)
    return MeasuredKernel(place, kernel_of(row, place), precision, time_us * 1e-6, row.get("source", ""), row.get("case", ""))


def _allowed(word: str, known: Sequence[str]) -> str:
    return f"{document.shown(word)}{document.nearest(word, known)}; allowed: {', '.join(known)}"


def positive(text: str | None, place: str, largest: float, smallest: float = 1e-9) -> float:
    """A number from ``smallest`` to ``largest``, between which ratios stay numbers; InputError at ``place`` for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        value = 0.0
    if not smallest <= value <= largest:
        raise InputError(f"{place}: expected a number from {smallest:g} to {largest:g}, got {document.shown(text)}")
    return value
