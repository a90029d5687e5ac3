"""The data of a Gantt chart that a browser zooms into: single ops, merged ones as columns of a heat map, the critical path.

What is sent: the longest ops one by one, at most MAX_OPS; for the whole window every op that is too narrow to see as a share of
columns, per row; the path as a line. The script of the page draws as bars what is wide enough in the part in view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.answer import Analysis
from clustersim.analysis.streams import whole_numbers
from clustersim.plots.critical import Corners, corners, sampled
from clustersim.plots.density import FAINTEST, coverage
from clustersim.plots.layout import Boxes, Chart, layout, row_of_op, with_places

MAX_OPS = 200_000
"""Ops that the page knows one by one."""

NARROW = 400
"""An op shorter than this part of the window is merged with its neighbours in the picture of the whole."""

LEVELS = 4
"""Steps of paleness of a merged column, from hardly busy to full."""

_MAX_CELLS = 250_000
_MAX_BINS = 2_000
_MAX_PATH = 400_000
_ROWS_AT_ONCE = 32
_WHOLE = ("stage", "layer", "micro_batch", "bytes")


@dataclass(frozen=True)
class Timeline:
    """``ops``: row (of ``chart.rows``), kind (of ``chart.kinds``), shade, start_ps, end_ps, stage, layer, micro_batch, bytes, name,
    stream, slack_ps (-1 where unknown), critical; ``ops_in_window`` counts those that take time on the shown ranks, ``known`` or not.
    ``merged[row, bin]``: the kind that fills most of a column, -1 for none; ``busy``: how much of it, 0..1. ``path``: the critical
    path.
    """

    chart: Chart
    ops: pd.DataFrame
    ops_in_window: int
    narrow: int
    merged: np.ndarray
    busy: np.ndarray
    path: Corners

    @property
    def column_ps(self) -> float:
        return (self.chart.end_ps - self.chart.begin_ps) / self.merged.shape[1]


def timeline(
    ops: pd.DataFrame,
    analysis: Analysis,
    ranks: Sequence[int] | None = None,
    max_ops: int = MAX_OPS,
    copies: Mapping[int, int] | None = None,
) -> Timeline:
    """The chart of the window of the analysis, of these ranks (all, or a sample of many, where None); ``ops`` are those analysed.

    ``copies``: by rank how many ranks of the job it stands for.

    InputError as for :func:`clustersim.plots.layout.layout`, and for a column that does not hold whole numbers.
    """
    ops = with_places(ops)
    ops = ops.assign(name=ops.get("name", ""), bytes=whole_numbers(ops["bytes"], "ops: bytes") if "bytes" in ops else 0)
    chart = layout(ops, ranks=ranks, begin_ps=analysis.window[0], end_ps=analysis.window[1], copies=copies)
    row = row_of_op(ops, chart)
    table = _table(ops, analysis, row, chart)
    length = (table["end_ps"] - table["start_ps"]).to_numpy()
    narrow = length * NARROW < chart.end_ps - chart.begin_ps
    merged, busy = _merged(table[narrow], chart)
    path = corners(analysis.path, ops, chart)
    if len(path.time_ps) > _MAX_PATH:
        path = sampled(path, _MAX_PATH // 2)
    known = length > (np.partition(length, -max_ops - 1)[-max_ops - 1] if len(length) > max_ops else 0)
    return Timeline(chart, table[known].reset_index(drop=True), len(table), int(narrow.sum()), merged, busy, path)


def _table(ops: pd.DataFrame, analysis: Analysis, row: np.ndarray, chart: Chart) -> pd.DataFrame:
    """The ops that take time in the window, by row and time."""
    start, end = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy()
    at = np.flatnonzero((row >= 0) & (end > start) & (start < chart.end_ps) & (end > chart.begin_ps))
    at = at[np.lexsort((end[at], start[at], row[at]))]
    on_path = analysis.path[analysis.path["kind"] != "wait"]
    kind = pd.Categorical(ops["kind"].iloc[at].astype(str), categories=list(chart.kinds)).codes
    columns = {name: ops[name].to_numpy()[at] for name in _WHOLE}
    return pd.DataFrame(
        {
            "row": row[at], "kind": kind, "shade": _shade(row[at], start[at], chart), "start_ps": start[at], "end_ps": end[at], **columns,
            "name": ops["name"].iloc[at].astype(str).to_numpy(), "stream": ops["stream"].iloc[at].astype(str).to_numpy(),
            "slack_ps": np.full(len(at), -1) if analysis.slack is None else analysis.slack[at],
            "critical": np.isin(analysis.numbers[at], on_path["op"]),
        }
    )  # fmt: skip


def _shade(row: np.ndarray, start: np.ndarray, chart: Chart) -> np.ndarray:
    """That of the box of the chart in which the op lies."""
    boxes, span = chart.boxes, chart.step_end_ps + 1
    box = np.searchsorted(boxes.row * span + boxes.start_ps, row * span + start, side="right") - 1
    return boxes.shade[np.maximum(box, 0)] if len(boxes) else np.zeros(len(row), dtype=np.int64)


def _merged(narrow: pd.DataFrame, chart: Chart) -> tuple[np.ndarray, np.ndarray]:
    """By row and column the kind that fills most of it, and the part that is busy."""
    rows = len(chart.rows)
    bins = int(np.clip(_MAX_CELLS // rows, 50, _MAX_BINS))
    kind, busy = np.full((rows, bins), -1), np.zeros((rows, bins))
    row = narrow["row"].to_numpy()
    for first in range(0, rows, _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, rows - first)
        part = narrow.iloc[slice(*np.searchsorted(row, (first, first + count)))]
        zero = np.zeros(len(part), dtype=np.int64)
        codes = part["kind"].to_numpy().astype(np.int64)
        boxes = Boxes(part["row"].to_numpy() - first, codes, zero, zero, part["start_ps"].to_numpy(), part["end_ps"].to_numpy())
        window = {"begin_ps": chart.begin_ps, "end_ps": chart.end_ps}
        covered = coverage(boxes, rows=count, kinds=max(1, len(chart.kinds)), bins=bins, **window).sum(axis=2)
        total = covered.sum(axis=1)
        kind[first : first + count] = np.where(total > 0, covered.argmax(axis=1), -1)
        busy[first : first + count] = np.minimum(total, 1.0)
    return kind, busy


def level(busy: np.ndarray) -> np.ndarray:
    """Steps of paleness, 0 to LEVELS - 1.

    >>> level(np.array([0.0, 0.1, 0.5, 1.0])).tolist()
    [0, 0, 1, 3]
    """
    return np.clip(np.ceil(busy * LEVELS) - 1, 0, LEVELS - 1).astype(np.int64)


def opacity(step: int) -> float:
    """How strongly a merged column of this step shows.

    >>> opacity(LEVELS - 1)
    1.0
    """
    return 1.0 - (1.0 - FAINTEST) * (LEVELS - 1 - step) / (LEVELS - 1)
