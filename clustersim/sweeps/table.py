"""A sweep as a tidy table, and as the document of ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.sweeps.run import Sweep
from clustersim.trace.files import table_writer, text_writer, write_all

if TYPE_CHECKING:
    import pandas as pd

SLOWDOWN = "slowdown"
_DTYPES = (({bool}, "boolean"), ({int}, "Int64"), ({int, float}, "float64"))
_WITHOUT_VALUES = {"reason": "string", "seed": "Int64"}  # where no row has one; elsewhere it is a figure that nothing gave


def document(sweep: Sweep) -> dict[str, Any]:
    """``points``: varied fields in base units (``units`` names them), ``slowdown``, status, reason and summary; ``knees``; ``tornado``."""
    points = [
        {**{path: value.plain for path, value in point.items()}, SLOWDOWN: slowdown, **row}
        for point, row, slowdown in zip(sweep.points, sweep.rows, sweep.slowdowns, strict=True)
    ]
    knees = [knee.document() for knee in sweep.knees]
    made = {"points": points, "knees": knees, "units": {field.path: field.base_unit for field in sweep.plan.fields}}
    return made if sweep.bars is None else {**made, "tornado": [bar.document() for bar in sweep.bars]}


def table(sweep: Sweep) -> pd.DataFrame:
    """A row a point in the order of the grid: the varied fields, ``slowdown``, ``status``, ``reason``, ``version``, ``seed``,
    ``warnings``, every key of the summary; nested ones with dots, as ``communication_bytes.data``, lists as text. ``attrs``:
    ``units``, ``knees``, ``tornado``.

    A row without figures changes no type: columns are Int64, float64, boolean or string.
    """
    import pandas as pd

    made = document(sweep)
    rows = [_flat(point) for point in made.pop("points")]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    frame = pd.DataFrame({name: pd.array(values, dtype=_dtype(name, values)) for name, values in columns.items()})
    frame.attrs.update(made)
    return frame


def write_table(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """``sweep.parquet``, ``sweep.csv``, and what belongs to no row in ``knees.json``; the paths."""
    bare = frame.copy()
    bare.attrs = {}
    text = json.dumps(frame.attrs, indent=2, allow_nan=False) + "\n"
    return write_all(
        {
            folder / "sweep.parquet": table_writer(bare),
            folder / "sweep.csv": lambda path: bare.to_csv(path, index=False),
            folder / "knees.json": text_writer(text),
        }
    )


def _dtype(name: str, values: Sequence[Any]) -> str:
    """By the values of a column that are there."""
    present = [value for value in values if value is not None]
    if not present:
        return _WITHOUT_VALUES.get(name, "float64")
    if any(type(value) is int and abs(value) >= 2**63 for value in present):
        return "float64"
    found = set(map(type, present))
    return next((dtype for types, dtype in _DTYPES if found <= types), "string")


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = "; ".join(map(str, value)) if isinstance(value, list) else value
    return flat
