"""Pieces of JSON text, fast: numbers and names are put into place, names escaped once each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from clustersim.trace.files import RunData

MARK = '"clustersim": '
"""An export begins with a brace and this: so readers know it from the traces of others."""


def nanoseconds(picoseconds: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, so that what follows another still does.

    >>> nanoseconds(np.array([499, 500, 1499])).tolist()
    [0, 1, 1]
    """
    return (picoseconds + 500) // 1000


def microseconds(ns: int) -> str:
    """
    >>> microseconds(1234567), microseconds(5)
    ('1234.567', '0.005')
    """
    return f"{ns // 1000}.{ns % 1000:03d}"


def texts(column: pd.Series) -> list[str]:
    """A JSON string for each row of a column of categories.

    >>> texts(pd.Series(['a"b', "c"], dtype="category"))
    ['"a\\\\"b"', '"c"']
    """
    known = [json.dumps(str(name)) for name in column.cat.categories]
    return [known[code] for code in column.cat.codes.tolist()]


def about(run: RunData, *tables: str) -> str:
    """What the head of an export says of the run: its manifest and summary, and those of the tables that it has, by column.

    >>> about(RunData(None, ranks=pd.DataFrame({"rank": [0, 1], "simulated_as": [0, 0]}), summary={"ranks": 2}), "ranks", "link_totals")
    '"clustersim": {"manifest": {}, "summary": {"ranks": 2}, "ranks": {"rank": [0, 1], "simulated_as": [0, 0]}}'
    """
    known = {name: getattr(run, name) for name in tables}
    columns = {name: table.to_dict("list") for name, table in known.items() if table is not None}
    return MARK + json.dumps({"manifest": run.manifest, "summary": run.summary, **columns}, allow_nan=False)


def document(head: str, events: Iterable[bytes]) -> Iterator[bytes]:
    """An object that ends in the list of events; each piece of ``events`` has events that end in a comma and a line break.

    >>> b"".join(document('"a": 1', [b'{},' + b'\\n', b'{},' + b'\\n']))
    b'{"a": 1, "traceEvents": [\\n{},\\n{}\\n]}\\n'
    """
    yield f'{{{head}, "traceEvents": [\n'.encode()
    held = b""
    for piece in events:
        if piece:
            if held:
                yield held
            held = piece
    yield held.removesuffix(b",\n") + b"\n]}\n"


def lines(events: Iterable[str]) -> bytes:
    """
    >>> lines(["{}", "[]"])
    b'{},\\n[],\\n'
    """
    return "".join([f"{event},\n" for event in events]).encode()
