"""A sweep as a tidy table, and as the document of ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.sweeps.run import Sweep
from clustersim.trace.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

SLOWDOWN = "slowdown"


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
    """A row a point in the order of the grid: the varied fields, ``slowdown``, ``status``, ``reason``, ``version``, ``seed``, every key
    of the summary; nested ones with dots, as ``communication_bytes.data``, lists as text. ``attrs``: ``units``, ``knees``, ``tornado``.
    """
    import pandas as pd

    made = document(sweep)
    frame = pd.DataFrame([_flat(point) for point in made.pop("points")])
    frame.attrs.update(made)
    return frame


def write_table(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """``sweep.parquet``, ``sweep.csv``, and what belongs to no row in ``knees.json``; the paths."""
    bare = frame.copy()
    bare.attrs = {}
    text = json.dumps(frame.attrs, indent=2, allow_nan=False) + "\n"
    return [
        write_whole(folder / "sweep.parquet", lambda path: bare.to_parquet(path, index=False)),
        write_whole(folder / "sweep.csv", lambda path: bare.to_csv(path, index=False)),
        write_whole(folder / "knees.json", lambda path: path.write_text(text, encoding="utf-8")),
    ]


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = "; ".join(map(str, value)) if isinstance(value, list) else value
    return flat
