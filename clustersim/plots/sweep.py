"""Pictures of a sweep: curves with one line a strategy, heat maps of two fields, a tornado of what matters most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clustersim.plots.files import save
from clustersim.plots.style import FAINT_INK, INK, ink_on
from clustersim.sweeps.knee import Knee
from clustersim.sweeps.tornado import Bar
from clustersim.sweeps.vary import Field

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

METRICS = {
    "step_time_s": ("step time (s)", 1.0),
    "slowdown": ("step time / that at infinite bandwidth", 1.0),
    "tokens_per_s": ("throughput (tokens/s)", 1.0),
    "exposed_communication_s": ("exposed communication (s)", 1.0),
    "overlap": ("communication hidden (%)", 0.01),
    "peak_memory_bytes": ("peak memory (GB)", 1e9),
}
"""The label of a figure of a step, and its unit in SI units. Any other is drawn under its own name."""

_SHARES = ("overlap",)  # 0 to 100 %, never logarithmic
MAX_LINES = 12
_LOG_SPAN = 8  # axes over at least so many times are logarithmic
# Okabe and Ito's colours. Lines that coincide differ in width and marker, so that the one on top leaves the other to be seen.
_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#8A6D00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES = ("-", "--", "-.", ":")


def label_of(metric: str) -> str:
    return METRICS.get(metric, (metric, 1.0))[0]


def axis_fields(fields: Sequence[Field]) -> list[Field]:
    """The fields that can be an axis: all values numbers, and more than one. Bandwidths, which have knees, come first."""
    found = [field for field in fields if field.numeric and len(field.distinct().values) > 1]
    return sorted(found, key=lambda field: not field.is_bandwidth)


def line_groups(frame: pd.DataFrame, fields: Sequence[Field], zipped: bool) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each line with its label: those that are alike in all but the first axis (where values go together: in the names).

    Infeasible points without figures belong to no line.
    """
    others = _naming(fields, zipped)
    if not others:
        return [("", frame)]
    groups = frame.groupby([field.path for field in others], sort=False, dropna=False)
    return [(_label(others, names), rows) for names, rows in groups]


def _naming(fields: Sequence[Field], zipped: bool) -> list[Field]:
    """The fields that name a line."""
    x = axis_fields(fields)[0]
    return [field for field in fields if field is not x and len(field.values) > 1 and not (zipped and field.numeric)]


def _label(fields: Sequence[Field], values: Iterable[Any]) -> str:
    return ", ".join(_said(field, value) for field, value in zip(fields, values, strict=True))


def curves(
    frame: pd.DataFrame, fields: Sequence[Field], path: Path, *, title: str, metrics: Iterable[str] = tuple(METRICS), zipped: bool = False,
    knees: Sequence[Knee] = (),
) -> Path:  # fmt: skip
    """A panel for each of the ``metrics`` that the table has, against the first bandwidth, or else the first numeric field.

    Hollow: does not fit in memory. The ``knees`` of that field are ticks in the colours of their lines.
    """
    x, groups = axis_fields(fields)[0], line_groups(frame, fields, zipped)
    numbers = {label: number for number, (label, _) in enumerate(groups)}
    naming = _naming(fields, zipped)
    marks = [
        (knee.high_bytes_s / x.scale, _colour(numbers[_label(naming, (knee.others[field.path].plain for field in naming))]))
        for knee in knees
        if knee.field == x.path and knee.high_bytes_s
    ]
    shown = [metric for metric in metrics if metric in frame and frame[metric].notna().any()]

    def draw() -> Figure:
        from matplotlib.figure import Figure

        columns = min(3, len(shown))
        rows = -(-len(shown) // columns)
        figure = Figure(figsize=(1.5 + 4.0 * columns, 1.2 + 3.1 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, metric in zip(panels, shown, strict=False):
            for number, (label, points) in enumerate(groups):
                _line(axes, points, x, metric, number, label)
            _dress(axes, frame, x, metric)
            if metric == "slowdown":
                _mark_knees(axes, marks, knees)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=INK)
        _legend(figure, panels[: len(shown)], bool((frame["status"] != "ok").any()))
        return figure

    save(path, draw)
    return path


def heat_maps(frame: pd.DataFrame, fields: Sequence[Field], path: Path, *, metric: str, title: str) -> Path:
    """``metric`` over the first two numeric fields, a map for each combination of the others; crossed out where there is no figure."""
    x, y = axis_fields(fields)[:2]
    others = [field for field in fields if field not in (x, y) and len(field.values) > 1]
    groups = list(frame.groupby([field.path for field in others], sort=False, dropna=False)) if others else [((), frame)]
    label, unit = METRICS.get(metric, (metric, 1.0))

    def draw() -> Figure:
        from matplotlib.colors import LogNorm, Normalize
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        values = frame[metric].astype(float) / unit
        norm = (LogNorm if _logarithmic(values.dropna()) else Normalize)(values.min(), values.max())
        columns = min(3, len(groups))
        rows = -(-len(groups) // columns)
        width, height = 1.6 + 0.62 * len(x.values), 1.2 + 0.42 * len(y.values)
        figure = Figure(figsize=(max(5.0, 1.4 + width * columns), 0.8 + height * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (names, points) in zip(panels, groups, strict=False):
            grid = points.pivot(index=y.path, columns=x.path, values=metric).astype(float) / unit
            grid = grid.reindex(index=_numbers(y), columns=_numbers(x))
            picture = axes.imshow(grid.to_numpy(), norm=norm, cmap="cividis", origin="lower", aspect="auto")
            _cells(axes, grid.to_numpy(), picture, roomy=len(x.values) <= 14)
            axes.set_xticks(range(len(x.values)), [x.bare(number) for number in _numbers(x)], rotation=45, ha="right", fontsize=8)
            axes.set_yticks(range(len(y.values)), [y.bare(number) for number in _numbers(y)], fontsize=8)
            axes.set_xlabel(_axis(x))
            axes.set_ylabel(_axis(y))
            axes.set_title(_label(others, names), fontsize=10, loc="left")
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        figure.colorbar(picture, ax=list(panels), label=label, format=FuncFormatter(_number))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=INK)
        return figure

    save(path, draw)
    return path


def tornado_chart(bars: Sequence[Bar], path: Path, *, title: str) -> Path:
    """A row for each parameter: by how much GPU time per token changes when it is halved and when it is doubled."""

    def draw() -> Figure:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        figure = Figure(figsize=(8.5, 1.6 + 0.42 * len(bars)), layout="constrained")
        axes = figure.add_subplot()
        for row, bar in enumerate(bars):
            changes = []
            for number, (value, colour, height) in enumerate(((bar.halved, _COLOURS[0], 0.7), (bar.doubled, _COLOURS[1], 0.4))):
                if value is None:
                    continue
                changes.append(change := 100 * (value / bar.gpu_s_per_token - 1))
                axes.barh(row, change, height=height, color=colour, zorder=2 + number)
            missing = [word for word, value in (("half", bar.halved), ("double", bar.doubled)) if value is None]
            text = f"{bar.swing:.1%}" + (f", no {' and no '.join(missing)}" if missing else "")
            axes.annotate(text, (max([0.0, *changes]), row), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
        axes.set_yticks(range(len(bars)), [f"{bar.path} ({bar.base_text})" for bar in bars])
        axes.invert_yaxis()
        axes.axvline(0, color=INK, linewidth=0.8, zorder=5)
        axes.margins(x=0.15)
        axes.set_xlabel("change of GPU time per token (%)")
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(title, loc="left", fontsize=11)
        handles = [Patch(color=_COLOURS[0], label="halved"), Patch(color=_COLOURS[1], label="doubled")]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        return figure

    save(path, draw)
    return path


def _line(axes: Axes, points: pd.DataFrame, x: Field, metric: str, number: int, label: str) -> None:
    known = points[points[metric].notna()].sort_values(x.path)
    across, up = known[x.path].astype(float) / x.scale, known[metric].astype(float) / METRICS.get(metric, ("", 1.0))[1]
    colour, marker = _colour(number), _MARKERS[number % len(_MARKERS)]
    width = max(1.2, 3.6 - 0.8 * number)
    axes.plot(across, up, _STYLES[number // len(_COLOURS) % 4], color=colour, linewidth=width, label=label or None, zorder=3 + number)
    for fits, face in ((True, colour), (False, "white")):
        part = (known["status"] == "ok") == fits
        axes.plot(across[part], up[part], marker, color=colour, markerfacecolor=face, markersize=max(4.0, 7.5 - number), zorder=3 + number)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _dress(axes: Axes, frame: pd.DataFrame, x: Field, metric: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, values, scale in ((axes.xaxis, frame[x.path], axes.set_xscale), (axes.yaxis, frame[metric].dropna(), axes.set_yscale)):
        if _logarithmic(values.astype(float)) and not (axis is axes.yaxis and metric in _SHARES):
            scale("log")
            wide = values.max() / values.min() > 100
            axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(_number))
    if metric in _SHARES:
        axes.set_ylim(-3, 103)
    elif axes.get_yscale() == "linear" and metric != "slowdown" and frame[metric].min() >= 0:
        axes.set_ylim(0, 1.08 * axes.dataLim.y1 or None)
    axes.set_xlabel(_axis(x))
    axes.set_title(label_of(metric), fontsize=10, loc="left", color=INK)
    axes.grid(alpha=0.3)


def _mark_knees(axes: Axes, marks: Sequence[tuple[float, str]], knees: Sequence[Knee]) -> None:
    if not marks:
        return
    level = 1 + knees[0].tolerance
    axes.axhline(level, color=FAINT_INK, linewidth=1, linestyle=":", zorder=2, label=f"{100 * knees[0].tolerance:g} % above, and the knees")
    for across, colour in marks:
        axes.plot([across], [level], "|", color=colour, markersize=18, markeredgewidth=2.4, zorder=20)


def _legend(figure: Figure, panels: Iterable[Axes], hollow: bool) -> None:
    from matplotlib.lines import Line2D

    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if hollow:
        text = "hollow: does not fit in memory"
        handles[text] = Line2D([], [], color=FAINT_INK, marker="o", markerfacecolor="white", linestyle="", label=text)
    if handles:
        columns = max(1, min(len(handles), 130 // (max(map(len, handles)) + 6)))
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, frameon=False)


def _cells(axes: Axes, values: np.ndarray, picture: AxesImage, roomy: bool) -> None:
    for (row, column), value in np.ndenumerate(values):
        if math.isnan(value):
            axes.plot(column, row, "x", color=FAINT_INK, markersize=7)
        elif roomy:
            colour = ink_on(picture.cmap(picture.norm(value))[:3])
            axes.text(column, row, f"{value:.3g}" if value < 1e5 else f"{value:.1e}", ha="center", va="center", fontsize=7, color=colour)


def _logarithmic(values: pd.Series) -> bool:
    return bool(len(values)) and values.min() > 0 and values.max() >= _LOG_SPAN * values.min()


def _axis(field: Field) -> str:
    return f"{field.path} ({field.unit})" if field.unit else field.path


def _said(field: Field, value: Any) -> str:
    """A value in words: a name by itself, a number with its field."""
    return f"{field.path} {field.shown(value)}" if field.numeric else str(value)


def _numbers(field: Field) -> list[float]:
    return [value.number for value in field.values if value.number is not None]


def _number(value: float, _: int) -> str:
    return f"{value:.4g}" if abs(value) < 1e3 else f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.3g}"
