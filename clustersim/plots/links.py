"""How busy the links are over time: a heat map, links grouped by kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustersim.analysis.link_bins import LinkRow, busiest, link_bins, link_rows
from clustersim.errors import InputError
from clustersim.plots.files import DPI, checked, save
from clustersim.plots.gantt import time_unit
from clustersim.plots.panel import LABEL_PT, TITLE_LINE_IN, TITLE_PT, title_lines
from clustersim.plots.style import FAINT_INK, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 60
"""With more links neighbours share a row."""

BINS = 1_000
COLOURS = "cividis"
_WIDTH_IN, _RIGHT_IN, _TOP_IN, _BOTTOM_IN = 12.0, 1.0, 0.48, 0.5
_ROW_IN, _GAP_IN, _LEAST_IN = 0.15, 0.2, 0.9
_LABEL_PT = 6.5
_LONGEST = 44


def links_chart(links: pd.DataFrame, totals: pd.DataFrame | None, window: tuple[int, int], path: str | Path, *, title: str) -> None:
    """Draw the table ``links`` of a trace in a window in ps into a .png, .svg or .pdf file; ``totals``: kind and capacity of each.

    InputError for another format, for a trace that counts no traffic on links, and for a window without time.
    """
    path = checked(path)
    known = None if totals is None else totals[totals["link"].astype(str).isin(set(links["link"].astype(str)))].drop_duplicates("link")
    if known is None or not len(known):
        raise InputError("the trace counts no traffic on links: there is no chart of them")
    if window[0] >= window[1]:
        raise InputError("no op of the trace takes time, there is nothing to draw")
    rows = link_rows(known, MAX_ROWS)
    names = [name for row in rows for name in row.links]
    capacity = known.assign(link=known["link"].astype(str)).set_index("link")["capacity_bytes_s"]
    share = busiest(link_bins(links, capacity, names, window, BINS), names, rows)
    save(path, lambda: _figure(rows, 100 * share, window, title))


def row_label(row: LinkRow) -> str:
    """
    >>> row_label(LinkRow("nvlink", ("gpu0>switch", "gpu1>switch"), 4)), row_label(LinkRow("nvlink", ("gpu0>switch",), 1))
    ('gpu0>switch ... gpu1>switch (4)', 'gpu0>switch')
    """
    ends = [row.links[0]] if len(row.links) == 1 else [row.links[0], row.links[-1]]
    longest = _LONGEST // len(ends)
    text = " ... ".join(name if len(name) <= longest else f"{name[: longest // 2 - 1]}..{name[1 - longest // 2 :]}" for name in ends)
    return text if row.copies == 1 else f"{text} ({row.copies:,})"


def _figure(rows: list[LinkRow], percent: np.ndarray, window: tuple[int, int], title: str) -> Figure:
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row.kind for row in rows))
    labels = [row_label(row) for row in rows]
    left = 0.2 + max(map(len, labels)) * 0.6 * _LABEL_PT / 72
    heights = [_ROW_IN * sum(row.kind == kind for row in rows) for kind in kinds]
    panels = max(sum(heights) + _GAP_IN * len(kinds), _LEAST_IN)
    width = _WIDTH_IN - left - _RIGHT_IN
    lines = title_lines(title, _WIDTH_IN - left)
    top_in = _TOP_IN + TITLE_LINE_IN * (len(lines) - 1)
    height = panels + top_in + _BOTTOM_IN
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=DPI, facecolor="white")
    unit, unit_ps = time_unit(*window)
    top = height - top_in
    for kind, tall in zip(kinds, heights, strict=True):
        mine = [place for place, row in enumerate(rows) if row.kind == kind]
        top -= _GAP_IN + tall
        axes = figure.add_axes((left / _WIDTH_IN, top / height, width / _WIDTH_IN, tall / height), label=kind)
        extent = (window[0] / unit_ps, window[1] / unit_ps, len(mine) - 0.5, -0.5)
        image = axes.imshow(percent[mine], extent=extent, aspect="auto", interpolation="none", cmap=COLOURS, vmin=0, vmax=100)
        for line in range(1, len(mine)):
            axes.axhline(line - 0.5, color="white", linewidth=0.6)
        axes.set_yticks(range(len(mine)), [labels[place] for place in mine], fontsize=_LABEL_PT, color=INK)
        axes.tick_params(axis="y", length=0, pad=4)
        last = kind == kinds[-1]
        axes.tick_params(axis="x", labelsize=LABEL_PT + 1, labelbottom=last, color=FAINT_INK)
        axes.ticklabel_format(axis="x", style="plain", useOffset=False)
        axes.set_title(f"{kind} links", loc="left", fontsize=LABEL_PT + 1, color=INK, pad=3, parse_math=False)
        for side in axes.spines.values():
            side.set_visible(False)
    axes.set_xlabel(f"time ({unit})", fontsize=LABEL_PT + 2)
    tall = min(panels - _GAP_IN, 4.0)
    place = (_WIDTH_IN - _RIGHT_IN + 0.25) / _WIDTH_IN, (height - top_in - _GAP_IN - tall) / height
    bar = figure.add_axes((*place, 0.15 / _WIDTH_IN, tall / height))
    figure.colorbar(image, cax=bar).set_label("utilization (%)", fontsize=LABEL_PT + 1)
    bar.tick_params(labelsize=LABEL_PT)
    figure.text(left / _WIDTH_IN, 1 - 0.1 / height, "\n".join(lines), fontsize=TITLE_PT, color=INK, va="top", parse_math=False)
    figure.text(left / _WIDTH_IN, 1 - (top_in - 0.07) / height, _note(rows), fontsize=LABEL_PT, color=FAINT_INK, va="center")
    return figure


def _note(rows: list[LinkRow]) -> str:
    notes = ["bytes moved in each column, of what the link could have moved; one direction each"]
    if any(len(row.links) > 1 for row in rows):
        notes.append("links that share a row: the busiest of them at each time")
    if any(row.copies > 1 for row in rows):
        notes.append("(n): stands for n links")
    return "; ".join(notes)
