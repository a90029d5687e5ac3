"""The tables of a trace as they are, a file each: CSV for everything, Parquet for what reads it; a folder of Parquet is a TRACE again."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pandas as pd

from clustersim.exporters.files import Export, Part, Size, estimate, spans
from clustersim.trace.files import TABLES
from clustersim.trace.trace import Trace

_PACKED_SAMPLE = 50_000  # columns are packed: a few rows say little


def csv(trace: Trace) -> Export:
    """``ops.csv`` and the others, with a header each; times in picoseconds."""
    tables = {name: getattr(trace, name) for name in TABLES}
    parts = tuple(Part(f"{name}.csv", lambda table=table: _csv(table)) for name, table in tables.items())
    sizes = (estimate(len(table), lambda rows, table=table: _rows(table, rows), False) for table in tables.values())
    return Export(parts, sum(sizes, Size()))


def _csv(table: pd.DataFrame) -> Iterator[bytes]:
    yield (",".join(table.columns) + "\n").encode()
    yield from (_rows(table, rows) for rows in spans(len(table)))


def _rows(table: pd.DataFrame, rows: slice) -> bytes:
    return table.iloc[rows].to_csv(index=False, header=False, lineterminator="\n").encode()


def parquet(trace: Trace) -> Export:
    """``ops.parquet`` and the others, as a run folder has them."""
    tables = {name: getattr(trace, name) for name in TABLES}
    parts = tuple(Part(f"{name}.parquet", lambda table=table: [_parquet(table)]) for name, table in tables.items())
    sizes = [estimate(len(table), lambda rows, table=table: _parquet(table[rows]), False, _PACKED_SAMPLE) for table in tables.values()]
    return Export(parts, sum(sizes, Size()))


def _parquet(table: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()
