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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.errors import InputError
from clustersim.plots.critical import LABEL, LINE_PT, Corners, corners, draw_path
from clustersim.plots.files import DPI, checked, save
from clustersim.plots.layout import COMMUNICATION, Chart, layout
from clustersim.plots.memory import Holdings, draw_memory, holdings
from clustersim.plots.panel import EM, LABEL_PT, TITLE_LINE_IN, TITLE_PT, Scale, draw_panel, mark_step_end, row_labels, title_lines
from clustersim.plots.placing import Bands, place_rows
from clustersim.plots.style import FAINT_INK, IDLE, INK, PROFILED_STYLES, STYLES, shades, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN, _RIGHT_IN = 12.0, 0.3
_ROOM_IN, _LEAST_ROOM_IN = 8.5, 2.8  # for the rows of all panels together, and of one
_MEMORY_IN = 1.4
_AXIS_IN, _LEGEND_LINE_IN, _BETWEEN_IN = 0.45, 0.22, 0.12
_LEGEND_COLUMNS = 7
_STEP_END_ROOM = 0.07  # of the width, right of the longest step, for its time
_FAR = 3.0  # a step so many times as long as the shorter ones would squeeze them


class _Panel(NamedTuple):
    """A chart with its title; where its time axis ends; the corners of its critical path, none where it is not marked."""

    title: str
    chart: Chart
    end_ps: int
    path: Corners | None = None


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
    copies: Mapping[int, int] | None = None,
    critical_path: pd.DataFrame | None = None,
) -> None:
    """Draw one trace into ``path``, a .png, .svg or .pdf file that appears whole or not at all.

    Under it, from the table ``memory``, what the fullest rank holds, beside ``capacity_bytes`` of its GPU. ``ranks`` are the ranks
    to show (all up to 64, an even sample of more), ``start_s`` and ``end_s`` the window in seconds, ``copies`` by rank how many of the
    job it stands for. ``critical_path`` (:func:`~clustersim.plots.critical.path_of`) is marked where it is given.
    InputError for another format, a rank that is not in the trace, an empty window, or a trace in which nothing takes time.
    """
    path = checked(path)
    begin_ps = None if start_s is None else units.to_ps(start_s)
    end_ps = None if end_s is None else units.to_ps(end_s)
    chart = layout(ops, ranks=ranks, begin_ps=begin_ps, end_ps=end_ps, copies=copies)
    held = None if memory is None else holdings(memory, capacity_bytes, ranks)
    line = None if critical_path is None else corners(critical_path, ops, chart)
    save(path, lambda: _figure([_Panel(title, chart, chart.end_ps, line)], compare=False, held=held))


def compare_gantt(runs: Sequence[tuple[str, pd.DataFrame]], path: str | Path) -> None:
    """Draw several traces, each with its title, above one another on one time axis; a line marks the end of each step.

    A step more than 3 times as long as all shorter ones has a time axis of its own, and says so.
    Files and errors as for ``gantt``; InputError when there is no run.
    """
    path = checked(path)
    if not runs:
        raise InputError("no runs to compare")
    charts = [(title, layout(ops)) for title, ops in runs]
    ends = [chart.step_end_ps for _, chart in charts]
    common = min(ends)
    for end in sorted(ends):
        common = end if end <= _FAR * common else common
    spans = [max(end, common) for end in ends]
    panels = [_Panel(title, chart, round(span * (1 + _STEP_END_ROOM))) for (title, chart), span in zip(charts, spans, strict=True)]
    save(path, lambda: _figure(panels, compare=True, held=None))


def time_unit(begin_ps: int, end_ps: int) -> tuple[str, float]:
    """Unit of the axis and its ps: the largest of s, ms, us, ns in which the window is at least 1 long.

    >>> time_unit(0, 250 * 10**9)
    ('ms', 1000000000.0)
    """
    span = end_ps - begin_ps
    return next(((name, ps) for name, ps in (("s", 1e12), ("ms", 1e9), ("us", 1e6)) if span >= ps), ("ns", 1e3))


def _figure(panels: list[_Panel], compare: bool, held: Holdings | None) -> Figure:
    """The page, built from the top downwards in inches: title and rows of each panel, its time axis, memory, legend."""
    from matplotlib.figure import Figure

    charts = [panel.chart for panel in panels]
    common = min(panel.end_ps for panel in panels)
    ends = [panel.end_ps for panel in panels]
    axis_under = [end != below for end, below in zip(ends, [*ends[1:], None], strict=True)]
    if held is not None:
        axis_under[-1] = False  # it stands under the memory
    room = max(_ROOM_IN / len(panels), _LEAST_ROOM_IN)
    bands = [place_rows(chart.rows, room) for chart in charts]
    notes = [_note(panel, common) for panel in panels]
    left = max(_label_width_in(chart) for chart in charts)
    width = _WIDTH_IN - left - _RIGHT_IN
    titles = [_title(panel.title, note, width) for panel, note in zip(panels, notes, strict=True)]
    heads = [TITLE_LINE_IN * (title.count("\n") + 1) + _BETWEEN_IN for title in titles]
    feet = [_AXIS_IN if under else 0.0 for under in axis_under]
    entries = _legend_entries(charts, any(panel.path is not None for panel in panels))
    lines = -(-len(entries) // _LEGEND_COLUMNS)
    legend = _LEGEND_LINE_IN * lines + 0.05
    under = _BETWEEN_IN + TITLE_LINE_IN + _MEMORY_IN + _AXIS_IN if held is not None else 0.0
    height = sum(heads) + sum(band.total_in for band in bands) + sum(feet) + under + legend
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=DPI, facecolor="white")

    top, coarse = height, False
    for panel, title, note, head, band, foot in zip(panels, titles, notes, heads, bands, feet, strict=True):
        top -= head + band.total_in
        axes = figure.add_axes((left / _WIDTH_IN, top / height, width / _WIDTH_IN, band.total_in / height))
        top -= foot
        unit, unit_ps = time_unit(panel.chart.begin_ps, panel.end_ps)
        scale = Scale(unit_ps, panel.chart.begin_ps, panel.end_ps, round(width * DPI))
        coarse |= draw_panel(axes, panel.chart, band, scale, DPI)
        if panel.path is not None:
            draw_path(axes, panel.path, panel.chart, band, scale)
        _head(axes, band, title, note)
        if compare:
            mark_step_end(axes, panel.chart, scale, units.time_text(panel.chart.step_end_ps / units.PS_PER_S))
        _time_axis(axes, f"time ({unit})" if foot else "", own=panel.end_ps > common)
    if held is not None:
        top -= under - _AXIS_IN
        axes = figure.add_axes((left / _WIDTH_IN, top / height, width / _WIDTH_IN, _MEMORY_IN / height))
        draw_memory(axes, held, scale)
        _time_axis(axes, f"time ({unit})")
    if coarse:
        axes.annotate("ops too narrow for a box: height is their share, paler where partly idle", (1.0, 0.0), xycoords="axes fraction",
                      xytext=(0, -22), textcoords="offset points", ha="right", va="top", fontsize=LABEL_PT,
                      color=FAINT_INK)  # fmt: skip
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=-(-len(entries) // lines),
                  fontsize=LABEL_PT + 1, frameon=False, borderaxespad=0.2, handlelength=1.6, columnspacing=1.6,
                  handler_map=_pairs())  # fmt: skip
    return figure


def _title(title: str, note: str, width_in: float) -> str:
    """In lines; an empty one at the end where the note has no room beside it.

    >>> _title("standard: step 3 s", "64 of 512 ranks shown", 10.0), _title("standard: step 3 s", "64 of 512 ranks shown", 2.0)
    ('standard: step 3 s', 'standard: step 3 s\\n')
    """
    lines = title_lines(title, width_in)
    taken_in = (len(lines[-1]) * TITLE_PT + len(note) * LABEL_PT) * EM / 72
    return "\n".join(lines + [""] * (bool(note) and taken_in > width_in))


def _head(axes: Axes, band: Bands, title: str, note: str) -> None:
    above = 1.0 + 0.06 / band.total_in
    axes.text(0.0, above, title, transform=axes.transAxes, ha="left", va="bottom", fontsize=TITLE_PT, color=INK,
              parse_math=False)  # fmt: skip
    axes.text(1.0, above, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=LABEL_PT, color=FAINT_INK)


def _note(panel: _Panel, common_ps: int) -> str:
    """What a reader could not guess: which ranks are left out, what a merged row holds, how many ranks one stands for, another scale."""
    chart, notes = panel.chart, []
    if panel.end_ps > common_ps:
        notes.append(f"a time axis of its own, {panel.end_ps / common_ps:.1f} times as long as that of the others")
    if len(chart.shown_ranks) < chart.present_ranks:
        notes.append(f"{len(chart.shown_ranks)} of {chart.present_ranks} ranks shown")
    if panel.path is not None and panel.path.hidden_ranks:
        hidden = panel.path.hidden_ranks
        several = f"ranks {', '.join(map(str, hidden[:3]))}{', ...' if len(hidden) > 3 else ''}" if len(hidden) > 1 else f"rank {hidden[0]}"
        notes.append(f"the critical path is also on {several}, not shown")
    if any(row.copies > 1 for row in chart.rows):
        notes.append("(x n): a rank that stands for n alike")
    if any(row.family == COMMUNICATION for row in chart.rows):
        notes.append("of each rank: compute, below it communication")
    return "; ".join(notes)


def _time_axis(axes: Axes, label: str, own: bool = False) -> None:
    axes.tick_params(axis="x", labelsize=LABEL_PT + 1, labelbottom=bool(label), color=FAINT_INK)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_xlabel(f"{label}, an axis of its own" if own else label, fontsize=LABEL_PT + 2, fontweight="bold" if own else "normal")


def _label_width_in(chart: Chart) -> float:
    longest = max(len(label) for label in row_labels(chart, list(range(len(chart.rows)))))
    return 0.15 + longest * 0.6 * LABEL_PT / 72


def _legend_entries(charts: list[Chart], path: bool) -> list[tuple[Any, str]]:
    """A patch for each kind that is drawn, the two shades where they mean something, idle, and the line of the critical path."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = {chart.kinds[code] for chart in charts for code in np.unique(chart.boxes.kind).tolist()}
    known = (*PROFILED_STYLES, *STYLES)
    kinds = [kind for kind in known if kind in drawn] + sorted(drawn - set(known))
    entries: list[tuple[Any, str]] = [(Patch(color=shades(kind)[0]), style(kind).label) for kind in kinds]
    shaded = sorted({chart.shaded_by for chart in charts} - {""})
    if shaded:
        dark, light = shades(next(kind for kind in kinds if shades(kind)[0] != shades(kind)[1]))
        entries.append(((Patch(color=dark), Patch(color=light)), f"alternate {' or '.join(f'{name}s' for name in shaded)}"))
    entries.append((Patch(color=IDLE), "idle"))
    return [*entries, (Line2D([], [], color=INK, linewidth=LINE_PT), LABEL)] if path else entries


def _pairs() -> dict[type, Any]:
    from matplotlib.legend_handler import HandlerTuple

    return {tuple: HandlerTuple(ndivide=None, pad=0.0)}
