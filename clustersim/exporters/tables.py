"""The tables of a run folder as they are, a file each: CSV for everything, Parquet for what reads it; a folder of it is a run folder."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd

from clustersim.exporters.files import Export, Part, Size, estimate, spans
from clustersim.trace.files import TABLES, RunData

_PACKED_SAMPLE = 150_000  # more than the 131,072 numbers up to which Parquet keeps a dictionary of a column


def csv(run: RunData) -> Export:
    """``ops.csv`` and the others, with a header each, times in picoseconds; and the documents."""
    tables = _tables(run)
    parts = tuple(Part(f"{name}.csv", partial(_csv, table)) for name, table in tables.items())
    sizes = [Size(len(_header(table)), len(_header(table))) for table in tables.values()]
    sizes += [estimate(len(table), partial(_rows, table), False) for table in tables.values()]
    return _with_documents(run, parts, sizes)


def parquet(run: RunData) -> Export:
    """``ops.parquet`` and the others, and the documents, as a run folder has them."""
    tables = _tables(run)
    parts = tuple(_whole(f"{name}.parquet", partial(_parquet, table)) for name, table in tables.items())
    sizes = [_size(table) for table in tables.values()]
    return _with_documents(run, parts, sizes)


def _size(table: pd.DataFrame) -> Size:
    """Of a long one from two parts of it: what is in a file once, as names are, is in both."""
    half, whole = (table[: count * _PACKED_SAMPLE] for count in (1, 2))
    found = len(_parquet(whole))
    if len(table) > len(whole):
        found += (found - len(_parquet(half))) * (len(table) - len(whole)) // len(half)
    return Size(found, found)


def _tables(run: RunData) -> dict[str, pd.DataFrame]:
    beside = {"link_totals": run.link_totals, "ranks": run.ranks}
    return {name: getattr(run.trace, name) for name in TABLES} | {name: table for name, table in beside.items() if table is not None}


def _whole(name: str, content: Callable[[], bytes]) -> Part:
    return Part(name, lambda: [content()])


def _with_documents(run: RunData, parts: tuple[Part, ...], sizes: list[Size]) -> Export:
    known = {name: _text(content) for name, content in (("summary", run.summary), ("manifest", run.manifest)) if content}
    more = tuple(_whole(f"{name}.json", partial(bytes, text)) for name, text in known.items())
    return Export(parts + more, sum([*sizes, *(Size(len(text), len(text)) for text in known.values())], Size()))


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _header(table: pd.DataFrame) -> bytes:
    return (",".join(table.columns) + "\n").encode()


def _csv(table: pd.DataFrame) -> Iterator[bytes]:
    yield _header(table)
    yield from (_rows(table, rows) for rows in spans(len(table)))


def _rows(table: pd.DataFrame, rows: slice) -> bytes:
    return table.iloc[rows].to_csv(index=False, header=False, lineterminator="\n").encode()


def _parquet(table: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()
