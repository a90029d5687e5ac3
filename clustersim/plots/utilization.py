"""What the ranks do over time, stacked: compute, exposed communication by kind, idle by cause; together they are always 100 %."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustersim.analysis.activity import COMPUTE, EXPOSED, IDLE
from clustersim.analysis.answer_text import CAUSE_WORDS, FAMILY_WORDS, percent
from clustersim.plots.files import DPI, checked, save
from clustersim.plots.gantt import time_unit
from clustersim.plots.panel import LABEL_PT, TITLE_LINE_IN, TITLE_PT, title_lines
from clustersim.plots.style import CAUSE_STYLES, FAINT_INK, INK, family_colour, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 400
_SIZE_IN = (12.0, 4.4)
_LEFT_IN, _RIGHT_IN, _TOP_IN, _BOTTOM_IN = 0.75, 3.7, 0.4, 0.55
_LEGEND_CHARACTERS = 42
_LEAST = 0.001


def utilization_chart(edges: np.ndarray, shares: pd.DataFrame, path: str | Path, *, title: str, ranks: str) -> None:
    """Draw what :func:`~clustersim.analysis.activity.activity` gives into a .png, .svg or .pdf file.

    ``ranks`` says whose time it is. InputError for another format.
    """
    path = checked(path)
    save(path, lambda: _figure(edges, shares, title, ranks))


def part_words(column: str) -> str:
    """
    >>> part_words("exposed:pipeline"), part_words("idle:nothing"), part_words("compute")
    ('exposed pipeline messages', 'idle: nothing to do', 'compute')
    """
    if column.startswith(EXPOSED):
        return f"exposed {FAMILY_WORDS.get(column.removeprefix(EXPOSED), 'data-parallel communication')}"
    return f"idle: {CAUSE_WORDS[column.removeprefix(IDLE)]}" if column.startswith(IDLE) else column


def part_look(column: str) -> tuple[str, str]:
    """Colour (``#RRGGBB``) and hatching; what is hatched is white between its lines."""
    if column.startswith(IDLE):
        look = CAUSE_STYLES[column.removeprefix(IDLE)]
        return look.colour, look.hatch
    return (style("forward").colour if column == COMPUTE else family_colour(column.removeprefix(EXPOSED))), ""


def _figure(edges: np.ndarray, shares: pd.DataFrame, title: str, ranks: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    lines = title_lines(title, _SIZE_IN[0] - _LEFT_IN)
    top_in = _TOP_IN + TITLE_LINE_IN * (len(lines) - 1)
    width, height = _SIZE_IN[0], _SIZE_IN[1] + top_in - _TOP_IN
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    size = (width - _LEFT_IN - _RIGHT_IN) / width, (height - top_in - _BOTTOM_IN) / height
    axes = figure.add_axes((_LEFT_IN / width, _BOTTOM_IN / height, *size))
    unit, unit_ps = time_unit(int(edges[0]), int(edges[-1]))
    below, patches = np.zeros(len(edges)), []
    means = np.average(shares.to_numpy(), axis=0, weights=np.diff(edges))
    for column, mean in zip(shares, means.tolist(), strict=True):
        colour, hatch = part_look(column)
        look = {"facecolor": "white" if hatch else colour, "edgecolor": colour, "hatch": hatch * 4, "linewidth": 0.0}
        top = below + 100 * np.append(shares[column], shares[column].iloc[-1])
        axes.fill_between(edges / unit_ps, below, top, step="post", label=column, **look)
        share = percent(mean) if mean >= _LEAST else f"< {percent(_LEAST)}"
        label = textwrap.fill(f"{share} {part_words(column)}", _LEGEND_CHARACTERS, subsequent_indent="    ")
        patches.append(Patch(label=label, **look))
        below = top
    axes.set_xlim(edges[0] / unit_ps, edges[-1] / unit_ps)
    axes.set_ylim(0, 100)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_xlabel(f"time ({unit})", fontsize=LABEL_PT + 2)
    axes.set_ylabel(f"share of {ranks} (%)", fontsize=LABEL_PT + 2)
    axes.tick_params(labelsize=LABEL_PT + 1, color=FAINT_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title("\n".join(lines), loc="left", fontsize=TITLE_PT, color=INK, parse_math=False)
    # From top to bottom as they are stacked.
    axes.legend(handles=patches[::-1], loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=LABEL_PT + 1, frameon=False,
                borderaxespad=0.0, handlelength=2.2, handleheight=1.3, title="mean over the time shown:", title_fontsize=LABEL_PT,
                alignment="left")  # fmt: skip
    return figure
