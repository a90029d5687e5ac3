"""What predictions add up to: errors by source, as tables and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.published.case import LeftOut
from clustersim.published.predict import Prediction
from clustersim.trace.files import table_writer, text_writer, write_all

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ["source", "use", "case", "quantity", "unit", "measured", "predicted", "error"]
_GROUP = ["source", "use", "quantity"]
_README = """\
# How far from measurements

```sh
{command}
```

writes this folder: a row for each published figure in `rows.csv` and `rows.parquet`, the errors below in `sources.csv`, and the
picture. Errors are relative, predicted / measured - 1; of yes and no, 100 % is wrong. Costs may be fitted to rows of calibration,
never to those of a test.

{table}

![Predicted against measured, by quantity](scatter.png)

## Left out

{left_out}
"""


def table(predictions: Iterable[Prediction]) -> pd.DataFrame:
    """A row a prediction: ``source, use, case, quantity, unit, measured, predicted, error``."""
    import pandas as pd

    return pd.DataFrame([prediction.document() for prediction in predictions], columns=_COLUMNS)


def by_source(rows: pd.DataFrame) -> pd.DataFrame:
    """``source, use, quantity, rows``, mean and greatest absolute relative error (``mape``, ``max_ape``) and the ``worst`` case.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"source": "a", "use": "test", "quantity": "time", "case": ["x", "y"], "error": [0.01, -0.03]})
    >>> by_source(rows).to_dict("records")
    [{'source': 'a', 'use': 'test', 'quantity': 'time', 'rows': 2, 'mape': 0.02, 'max_ape': 0.03, 'worst': 'y'}]
    """
    sized = rows.assign(size=rows["error"].abs())
    groups = sized.groupby(_GROUP, sort=False)
    found = groups["size"].agg(rows="size", mape="mean", max_ape="max")
    found["worst"] = sized.loc[groups["size"].idxmax(), "case"].to_numpy()
    return found.reset_index()


def by_reason(left_out: Iterable[LeftOut]) -> dict[tuple[str, str], list[str]]:
    """The cases that are left out by their source and reason.

    >>> by_reason([LeftOut("a", "x", "unknown"), LeftOut("a", "y", "unknown")])
    {('a', 'unknown'): ['x', 'y']}
    """
    found: dict[tuple[str, str], list[str]] = {}
    for each in left_out:
        found.setdefault((each.source, each.reason), []).append(each.case)
    return found


def markdown(sources: pd.DataFrame) -> str:
    """The table of :func:`by_source` for a page, errors in per cent."""
    lines = ["| source | use | quantity | rows | mean error | greatest error | where |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row.source} | {row.use} | {row.quantity} | {row.rows} | {100 * row.mape:.1f} % | {100 * row.max_ape:.1f} % | {row.worst} |"
        for row in sources.itertuples()
    ]
    return "\n".join(lines)


def document(rows: pd.DataFrame, left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """What ``validate --json`` prints: ``rows``, ``sources`` and ``left_out``; errors are fractions."""
    return {"rows": rows.to_dict("records"), "sources": by_source(rows).to_dict("records"), "left_out": [asdict(each) for each in left_out]}


def write(rows: pd.DataFrame, left_out: Sequence[LeftOut], folder: Path, command: str) -> list[Path]:
    """``rows.csv``, ``rows.parquet``, ``sources.csv``, ``scatter.png`` and a ``README.md`` that names the ``command``; the paths."""
    from clustersim.plots.scatter import scatter_writer

    sources = by_source(rows)
    lines = [f"* {source}: {reason} ({'; '.join(cases)})" for (source, reason), cases in by_reason(left_out).items()]
    page = _README.format(command=command, table=markdown(sources), left_out="\n".join(lines) or "Nothing.")
    return write_all(
        {
            folder / "rows.csv": lambda path: rows.to_csv(path, index=False, float_format="%.6g"),
            folder / "rows.parquet": table_writer(rows),
            folder / "sources.csv": lambda path: sources.to_csv(path, index=False, float_format="%.6g"),
            folder / "scatter.png": scatter_writer(rows),
            folder / "README.md": text_writer(page),
        }
    )
