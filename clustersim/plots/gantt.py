"""Gantt charts of a trace: one of a run, or several strategies above one another on one time axis.

Takes the table of ops (``rank, stream, kind, stage, layer, micro_batch, start_ps, end_ps``) and, if it is given, that of memory
(``rank, time_ps, bytes, what``), whoever made them.

>>> import pandas as pd, tempfile
>>> ops = pd.DataFrame({"rank": [0, 0], "stream": "compute", "kind": ["forward", "backward"], "stage": 0, "layer": 0,
...                     "micro_batch": 0, "start_ps": [0, 10**12], "end_ps": [10**12, 3 * 10**12]})
>>> with tempfile.TemporaryDirectory() as folder:
...     gantt(ops, Path(folder) / "gantt.svg", title="standard: step 3 s")
...     (Path(folder) / "gantt.svg").stat().st_size > 1000
True
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.errors import InputError
from clustersim.plots.layout import COMMUNICATION, Chart, layout
from clustersim.plots.memory import Holdings, draw_memory, holdings
from clustersim.plots.panel import LABEL_PT, Scale, draw_panel, mark_step_end, row_labels
from clustersim.plots.placing import Bands, place_rows
from clustersim.plots.style import FAINT_INK, IDLE, INK, STYLES, shades, style
from clustersim.trace.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

_DPI = 150.0
_WIDTH_IN, _RIGHT_IN = 12.0, 0.3
_ROOM_IN, _LEAST_ROOM_IN = 8.5, 2.8  # for the rows of all panels together, and of one
_MEMORY_IN = 1.4
_LINE_IN, _AXIS_IN, _LEGEND_LINE_IN, _BETWEEN_IN = 0.2, 0.45, 0.22, 0.12
_TITLE_PT, _TITLE_CHARACTERS = 10.0, 110
_LEGEND_COLUMNS = 7
_STEP_END_ROOM = 0.07  # of the width, right of the longest step, for its time
_SETTINGS = {"svg.hashsalt": "clustersim", "font.family": ["DejaVu Sans"], "path.simplify": False}
# Neither dates nor versions, so that equal input gives equal bytes.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def gantt(
    ops: pd.DataFrame,
    path: str | Path,
    *,
    title: str,
    memory: pd.DataFrame | None = None,
    capacity_bytes: int | None = None,
    ranks: Sequence[int] | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
) -> None:
    """Draw one trace into ``path``, a .png, .svg or .pdf file that appears whole or not at all.

    Under it, from the table ``memory``, what the fullest rank holds, beside ``capacity_bytes`` of its GPU. ``ranks`` are the ranks
    to show (all up to 64, an even sample of more), ``start_s`` and ``end_s`` the window in seconds.
    InputError for another format, a rank that is not in the trace, an empty window, or a trace in which nothing takes time.
    """
    path = _checked(path)
    begin_ps = None if start_s is None else units.to_ps(start_s)
    end_ps = None if end_s is None else units.to_ps(end_s)
    chart = layout(ops, ranks=ranks, begin_ps=begin_ps, end_ps=end_ps)
    held = None if memory is None else holdings(memory, capacity_bytes, ranks)
    _write(path, [(title, chart)], chart.begin_ps, chart.end_ps, compare=False, held=held)


def compare_gantt(runs: Sequence[tuple[str, pd.DataFrame]], path: str | Path) -> None:
    """Draw several traces, each with its title, above one another on one time axis; a line marks the end of each step.

    Files and errors as for ``gantt``; InputError when there is no run.
    """
    path = _checked(path)
    if not runs:
        raise InputError("no runs to compare")
    panels = [(title, layout(ops)) for title, ops in runs]
    begin = min(chart.begin_ps for _, chart in panels)
    end = max(chart.end_ps for _, chart in panels)
    _write(path, panels, begin, end + round((end - begin) * _STEP_END_ROOM), compare=True)


def time_unit(begin_ps: int, end_ps: int) -> tuple[str, float]:
    """Unit of the axis and its ps: the largest of s, ms, us, ns in which the window is at least 1 long.

    >>> time_unit(0, 250 * 10**9)
    ('ms', 1000000000.0)
    """
    span = end_ps - begin_ps
    return next(((name, ps) for name, ps in (("s", 1e12), ("ms", 1e9), ("us", 1e6)) if span >= ps), ("ns", 1e3))


def _checked(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown picture format {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    return path


def _write(
    path: Path, panels: list[tuple[str, Chart]], begin_ps: int, end_ps: int, compare: bool, held: Holdings | None = None
) -> None:
    import matplotlib

    kind = path.suffix.lower()
    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(panels, begin_ps, end_ps, compare, held)
        write_whole(path, lambda beside: figure.savefig(beside, format=kind[1:], dpi=_DPI, metadata=_METADATA[kind]))


def _figure(panels: list[tuple[str, Chart]], begin_ps: int, end_ps: int, compare: bool, held: Holdings | None) -> Figure:
    """The page, built from the top downwards in inches: title and rows of each panel, memory, time axis, legend."""
    from matplotlib.figure import Figure

    room = max(_ROOM_IN / len(panels), _LEAST_ROOM_IN)
    bands = [place_rows(chart.rows, room) for _, chart in panels]
    titles = ["\n".join(textwrap.wrap(title, _TITLE_CHARACTERS)) for title, _ in panels]
    heads = [_LINE_IN * (title.count("\n") + 1) + _BETWEEN_IN for title in titles]
    left = max(_label_width_in(chart) for _, chart in panels)
    entries = _legend_entries([chart for _, chart in panels])
    lines = -(-len(entries) // _LEGEND_COLUMNS)
    legend = _LEGEND_LINE_IN * lines + 0.05
    under = _BETWEEN_IN + _LINE_IN + _MEMORY_IN if held is not None else 0.0
    height = sum(heads) + sum(band.total_in for band in bands) + under + _AXIS_IN + legend
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=_DPI, facecolor="white")

    name, unit_ps = time_unit(begin_ps, end_ps)
    width = _WIDTH_IN - left - _RIGHT_IN
    scale = Scale(unit_ps, begin_ps, end_ps, round(width * _DPI))
    top, coarse = height, False
    for (_, chart), title, head, band in zip(panels, titles, heads, bands, strict=True):
        top -= head + band.total_in
        axes = figure.add_axes((left / _WIDTH_IN, top / height, width / _WIDTH_IN, band.total_in / height))
        coarse |= draw_panel(axes, chart, band, scale, _DPI)
        _head(axes, band, title, _note(chart))
        if compare:
            mark_step_end(axes, chart, scale, units.time_text(chart.step_end_ps / units.PS_PER_S))
        _time_axis(axes, f"time ({name})" if chart is panels[-1][1] and held is None else "")
    if held is not None:
        top -= under
        axes = figure.add_axes((left / _WIDTH_IN, top / height, width / _WIDTH_IN, _MEMORY_IN / height))
        draw_memory(axes, held, scale)
        _time_axis(axes, f"time ({name})")
    if coarse:
        axes.annotate("ops too narrow for a box: height is their share, paler where partly idle", (1.0, 0.0), xycoords="axes fraction",
                      xytext=(0, -22), textcoords="offset points", ha="right", va="top", fontsize=LABEL_PT,
                      color=FAINT_INK)  # fmt: skip
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=-(-len(entries) // lines),
                  fontsize=LABEL_PT + 1, frameon=False, borderaxespad=0.2, handlelength=1.6, columnspacing=1.6,
                  handler_map=_pairs())  # fmt: skip
    return figure


def _head(axes: Axes, band: Bands, title: str, note: str) -> None:
    above = 1.0 + 0.06 / band.total_in
    axes.text(0.0, above, title, transform=axes.transAxes, ha="left", va="bottom", fontsize=_TITLE_PT, color=INK,
              parse_math=False)  # fmt: skip
    axes.text(1.0, above, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=LABEL_PT, color=FAINT_INK)


def _note(chart: Chart) -> str:
    """What a reader could not guess: which ranks are left out, what a merged row holds."""
    notes = []
    if len(chart.shown_ranks) < chart.present_ranks:
        notes.append(f"{len(chart.shown_ranks)} of {chart.present_ranks} ranks shown")
    if any(row.family == COMMUNICATION for row in chart.rows):
        notes.append("of each rank: compute, below it communication")
    return "; ".join(notes)


def _time_axis(axes: Axes, label: str) -> None:
    axes.tick_params(axis="x", labelsize=LABEL_PT + 1, labelbottom=bool(label), color=FAINT_INK)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_xlabel(label, fontsize=LABEL_PT + 2)


def _label_width_in(chart: Chart) -> float:
    longest = max(len(label) for label in row_labels(chart, list(range(len(chart.rows)))))
    return 0.15 + longest * 0.6 * LABEL_PT / 72


def _legend_entries(charts: list[Chart]) -> list[tuple[Any, str]]:
    """A patch for each kind that is drawn, the two shades where they mean something, and idle."""
    from matplotlib.patches import Patch

    drawn = {chart.kinds[code] for chart in charts for code in np.unique(chart.boxes.kind).tolist()}
    kinds = [kind for kind in STYLES if kind in drawn] + sorted(drawn - set(STYLES))
    entries: list[tuple[Any, str]] = [(Patch(color=shades(kind)[0]), style(kind).label) for kind in kinds]
    shaded = sorted({chart.shaded_by for chart in charts} - {""})
    if shaded:
        dark, light = shades(next(kind for kind in kinds if shades(kind)[0] != shades(kind)[1]))
        entries.append(((Patch(color=dark), Patch(color=light)), f"alternate {' or '.join(f'{name}s' for name in shaded)}"))
    return [*entries, (Patch(color=IDLE), "idle")]


def _pairs() -> dict[type, Any]:
    from matplotlib.legend_handler import HandlerTuple

    return {tuple: HandlerTuple(ndivide=None, pad=0.0)}
