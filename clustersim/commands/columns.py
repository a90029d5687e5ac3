"""The columns of a trace as the analysis needs them: whole numbers as integers, names without gaps."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from clustersim.analysis.streams import whole_numbers
from clustersim.errors import InputError
from clustersim.trace.trace import Trace

_WHOLE = {
    "ops": ("op", "rank", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes", "peer"),
    "dependencies": ("op", "on"),
    "links": ("start_ps", "end_ps"),
    "memory": ("rank", "time_ps", "bytes"),
}
_NAMES = {"ops": ("stream", "kind", "name", "group"), "dependencies": (), "links": ("link",), "memory": ("what",)}


def typed(trace: Trace, place: str) -> Trace:
    """The trace with integers where they belong; columns that it does not have are not asked for.

    ``place`` makes the place of a table out of its name. InputError naming table, column and row of what is neither number nor name.
    """
    return replace(trace, **{name: _typed(name, getattr(trace, name), place.format(name)) for name in _WHOLE})


def _typed(name: str, table: pd.DataFrame, place: str) -> pd.DataFrame:
    if not len(table):
        return table
    for column in _NAMES[name]:
        if column in table:
            check_names(table[column], f"{place}: {column}")
    whole = {column: whole_numbers(table[column], f"{place}: {column}") for column in _WHOLE[name] if column in table}
    floats = {column: values for column, values in whole.items() if table[column].dtype.kind != "i"}
    return table.assign(**floats) if floats else table


def check_names(column: pd.Series, what: str) -> None:
    """InputError, with the row, for a gap, and for what is no text; an empty column has neither, whatever its type."""
    if not len(column):
        return
    gaps = column.isna().to_numpy()
    if gaps.any():
        raise InputError(f"{what}: row {int(gaps.argmax())} is missing; expected a name")
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    if pd.api.types.infer_dtype(values, skipna=False) not in ("string", "empty"):
        raise InputError(f"{what}: expected names, got {values.dtype if values.dtype != object else 'a mixture of values'}")
