"""The critical path on a Gantt chart: a line from row to row.

>>> from clustersim.plots.layout import layout
>>> ops = pd.DataFrame({"op": [0, 1], "rank": [0, 1], "stream": "compute", "kind": "forward", "stage": 0, "layer": 0, "micro_batch": 0,
...                     "start_ps": [0, 5], "end_ps": [5, 9]})
>>> path = pd.DataFrame({"op": [0, 1], "rank": [0, 1], "kind": "forward", "start_ps": [0, 5], "end_ps": [5, 9]})
>>> line = corners(path, ops, layout(ops))
>>> line.time_ps.tolist(), line.row.tolist()
([0, 5, 5, 9], [0, 0, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustersim.analysis.path import build_graph, critical_path
from clustersim.analysis.streams import read_ops, whole_window
from clustersim.analysis.waits import find_activities
from clustersim.plots.layout import Chart, row_of_op
from clustersim.plots.panel import PATH, Scale
from clustersim.plots.placing import Bands
from clustersim.plots.style import INK
from clustersim.trace.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL = "critical path"
LINE_PT, HALO_PT = 1.3, 2.6
MAX_CORNERS = 300
"""With more corners in the window the path stays on the first row of each rank."""

_PX_APART = 4
_HEIGHT = 0.86  # of the row, from its top: under the numbers


@dataclass(frozen=True)
class Corners:
    """Times in ps and rows (of ``Chart.rows``, -1 where the rank is not shown): two for each piece of the path, its begin and its end."""

    time_ps: np.ndarray
    row: np.ndarray
    hidden_ranks: tuple[int, ...] = ()


def path_of(trace: Trace) -> pd.DataFrame:
    """The critical path of the whole trace, as :func:`~clustersim.analysis.path.critical_path` gives it."""
    ops = read_ops(trace)
    joined = find_activities(ops)
    return critical_path(ops, joined, build_graph(ops, joined, trace.dependencies), whole_window(ops)[0])


def corners(path: pd.DataFrame, ops: pd.DataFrame, chart: Chart) -> Corners:
    """Those of the path in the window of the chart; pieces that follow on one row are one. A wait is on the row of what waits."""
    start, end = (np.clip(path[name].to_numpy(), chart.begin_ps, chart.end_ps) for name in ("start_ps", "end_ps"))
    at = pd.Index(ops["op"] if "op" in ops else np.arange(len(ops))).get_indexer(path["op"])
    rows = np.where(at >= 0, row_of_op(ops, chart)[np.maximum(at, 0)], -1)
    lasting = start < end
    hidden = np.setdiff1d(path["rank"].to_numpy()[lasting], chart.shown_ranks)
    return _joined(start[lasting], end[lasting], rows[lasting], tuple(hidden.tolist()))


def sampled(line: Corners, pieces: int) -> Corners:
    """The path at evenly spaced times: so many pieces, each on the row where the path is as it begins.

    >>> line = sampled(Corners(np.array([0, 5, 5, 8]), np.array([0, 0, 1, 1])), 4)
    >>> line.time_ps.tolist(), line.row.tolist()
    ([0.0, 2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 8.0], [0, 0, 0, 0, 0, 0, 1, 1])
    """
    times = np.linspace(line.time_ps[0], line.time_ps[-1], pieces + 1)
    rows = line.row[::2][np.clip(np.searchsorted(line.time_ps[::2], times[:-1], side="right") - 1, 0, None)]
    return Corners(np.stack([times[:-1], times[1:]], axis=1).ravel(), np.repeat(rows, 2), line.hidden_ranks)


def draw_path(axes: Axes, line: Corners, chart: Chart, bands: Bands, scale: Scale) -> None:
    """A dark line with a white edge, near the foot of the rows; broken where the path is on a rank that is not shown.

    With more than MAX_CORNERS it turns only from rank to rank, and at most every 4 pixels.
    """
    if len(line.time_ps) > MAX_CORNERS:
        line = _calm(line, chart)
        most = max(scale.pixels // _PX_APART, 1)
        if len(line.time_ps) > 2 * most:
            line = sampled(line, most)
    height = (bands.top_in + _HEIGHT * bands.height_in)[line.row]
    height[line.row < 0] = np.nan
    for colour, width, label in (("white", HALO_PT, "_halo"), (INK, LINE_PT, LABEL)):
        axes.plot(scale.axis(line.time_ps), height, color=colour, linewidth=width, label=label, zorder=PATH, solid_joinstyle="miter",
                  solid_capstyle="butt")  # fmt: skip


def _calm(line: Corners, chart: Chart) -> Corners:
    """The same on the first row of each rank."""
    rank = np.array([one.rank for one in chart.rows])
    first = np.searchsorted(rank, rank)  # ranks ascend
    rows = np.where(line.row < 0, -1, first[line.row])
    return _joined(line.time_ps[::2], line.time_ps[1::2], rows[::2], line.hidden_ranks)


def _joined(start: np.ndarray, end: np.ndarray, rows: np.ndarray, hidden: tuple[int, ...]) -> Corners:
    """Corners of pieces; those that follow on one row made one."""
    if not len(rows):
        return Corners(start, rows, hidden)
    first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    last = np.append(first[1:], len(rows)) - 1
    return Corners(np.stack([start[first], end[last]], axis=1).ravel(), np.repeat(rows[first], 2), hidden)
