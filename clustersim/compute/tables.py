"""Measured products: a CSV with the columns ``rows, columns, inner, batch, precision, time_us``."""

from __future__ import annotations

import csv
from pathlib import Path

from clustersim import document
from clustersim.compute.kernels import Matmul
from clustersim.errors import InputError

COLUMNS = ("rows", "columns", "inner", "batch", "precision", "time_us")
_MAX_SIZE = 10**9


def read_table(path: Path, precision: str) -> dict[Matmul, float]:
    """Seconds by shape of the rows of one precision; the mean where a shape stands more than once.

    ``batch`` and ``precision`` may be missing: 1, and any. InputError, with the line, for a missing column or a value that is
    no size or time, and where no row is of the precision.
    """
    seen: dict[Matmul, list[float]] = {}
    reader = csv.DictReader(document.read_text(path).splitlines())
    missing = [column for column in ("rows", "columns", "inner", "time_us") if column not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{path}:1: no column {', '.join(missing)}; allowed: {', '.join(COLUMNS)}")
    for row in reader:
        place = f"{path}:{reader.line_num}"
        if (row.get("precision") or precision) != precision:
            continue
        sizes = [_number(row.get(column) or default, f"{place}: {column}") for column, default in (("rows", ""), ("columns", ""), ("inner", ""), ("batch", "1"))]
        if any(size != int(size) for size in sizes):
            raise InputError(f"{place}: sizes are whole numbers, got {sizes}")
        seen.setdefault(Matmul(*map(int, sizes)), []).append(_number(row["time_us"], f"{place}: time_us") * 1e-6)
    if not seen:
        raise InputError(f"{path}: no row of {precision}; allowed: at least one product of that precision")
    return {shape: sum(times) / len(times) for shape, times in seen.items()}


def _number(text: str | None, place: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = 0.0
    if not 0 < value < _MAX_SIZE:
        raise InputError(f"{place}: expected a number above 0 and below {_MAX_SIZE:g}, got {document.shown(text)}")
    return value
