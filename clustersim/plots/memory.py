"""The panel under a Gantt chart: what one rank holds over time, its kinds stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.analysis.memory import fullest_rank, peaks, timeline
from clustersim.plots.panel import LABEL_PT, Scale
from clustersim.plots.style import FAINT_INK, INK, MEMORY_STYLES, memory_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FAR = 2.0  # a GPU with more than so many times the memory in use is a line too far up
_HEADROOM = 1.12
_TITLE_PT = 8.5


@dataclass(frozen=True)
class Holdings:
    """What a rank holds: ``held[k, i]`` bytes of ``kinds[k]`` from ``time_ps[i]`` on; its peak, and the memory of its GPU if known."""

    rank: int
    kinds: tuple[str, ...]
    time_ps: np.ndarray
    held: np.ndarray
    peak_bytes: int
    peak_ps: int
    capacity_bytes: int | None


def holdings(memory: pd.DataFrame, capacity_bytes: int | None = None, ranks: Sequence[int] | None = None) -> Holdings | None:
    """Those of the rank with the highest peak (of ``ranks``, all where None); None where the trace counts no memory.

    >>> changes = pd.DataFrame({"rank": [0, 1, 1], "time_ps": [0, 0, 4], "bytes": [9, 9, 3], "what": ["weights"] * 2 + ["buffers"]})
    >>> fullest = holdings(changes)
    >>> fullest.rank, fullest.kinds, fullest.held.tolist(), fullest.peak_bytes, fullest.peak_ps
    (1, ('weights', 'buffers'), [[9, 9], [0, 3]], 12, 4)
    """
    if ranks is not None:
        memory = memory[np.isin(memory["rank"], ranks)]
    if not len(memory):
        return None
    rank = fullest_rank(peaks(memory))
    held = timeline(memory, rank)
    held = held.reindex(held.index.union([0]), fill_value=0)  # nothing before the first change
    kinds = [kind for kind in MEMORY_STYLES if kind in held] + [kind for kind in held if kind not in MEMORY_STYLES]
    total = held.sum(axis=1)
    return Holdings(
        rank, tuple(kinds), held.index.to_numpy(), held[kinds].to_numpy().T, int(total.max()), int(total.idxmax()), capacity_bytes
    )


def in_window(of: Holdings, begin_ps: int, end_ps: int, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and, from each of them on, bytes by kind; where changes are denser than the bins the fullest instant of each bin.

    >>> saw = Holdings(0, ("buffers",), np.arange(8), np.array([[0, 5, 0, 7, 1, 2, 1, 0]]), 7, 3, None)
    >>> [column.tolist() for column in in_window(saw, 2, 6, 100)], [column.tolist() for column in in_window(saw, 0, 8, 2)]
    ([[2, 3, 4, 5], [[0, 7, 1, 2]]], [[0.0, 4.0], [[7, 2]]])
    """
    rows = np.arange(np.searchsorted(of.time_ps, begin_ps, side="right") - 1, np.searchsorted(of.time_ps, end_ps, side="left"))
    if len(rows) <= bins:
        return np.maximum(of.time_ps[rows], begin_ps), of.held[:, rows]
    edges = np.linspace(begin_ps, end_ps, bins + 1)[:-1]
    # What is held as a bin begins counts in it too.
    begun = np.searchsorted(of.time_ps, edges, side="right") - 1
    bin_ = np.clip(np.searchsorted(edges, of.time_ps[rows], side="right") - 1, 0, None)
    rows, bin_ = np.concatenate([rows, begun]), np.concatenate([bin_, np.arange(bins)])
    order = np.lexsort((of.held.sum(axis=0)[rows], bin_))
    fullest = np.append(np.flatnonzero(np.diff(bin_[order])), len(order) - 1)
    return edges, of.held[:, rows[order[fullest]]]


def draw_memory(axes: Axes, of: Holdings, scale: Scale) -> None:
    """Stacked areas from ``scale.begin_ps`` to ``scale.end_ps``, and a line at the memory of the GPU where it is near."""
    from matplotlib.patches import Patch

    time_ps, held = in_window(of, scale.begin_ps, scale.end_ps, scale.pixels)
    name, unit = _unit(int(held.sum(axis=0).max()))
    edges = scale.axis(np.append(time_ps, scale.end_ps))
    tops = np.cumsum(held, axis=0) / unit
    tops = np.concatenate([tops, tops[:, -1:]], axis=1)
    below = np.zeros(len(edges))
    patches = []
    for kind, top, shown in zip(of.kinds, tops, np.any(held, axis=1), strict=True):
        look = memory_style(kind)
        if shown:
            axes.fill_between(edges, below, top, step="post", facecolor=look.colour, edgecolor="white", hatch=look.hatch, linewidth=0.0,
                              label=kind)  # fmt: skip
            patches.append(Patch(facecolor=look.colour, edgecolor="white", hatch=look.hatch, linewidth=0.0, label=look.label))
        below = top
    limit = below.max() or 1.0  # of nothing held at all
    if of.capacity_bytes is not None and of.capacity_bytes <= _FAR * held.sum(axis=0).max():
        line = of.capacity_bytes / unit
        limit = max(limit, line)
        axes.axhline(line, color=INK, linewidth=1.0, linestyle=(0, (5, 2)))
        axes.annotate(f"memory of the GPU, {units.size_text(of.capacity_bytes)}", (1.0, line), xycoords=("axes fraction", "data"),
                      xytext=(-3, 2), textcoords="offset points", ha="right", va="bottom", fontsize=LABEL_PT, color=INK)  # fmt: skip
    axes.set_xlim(scale.axis(scale.begin_ps), scale.axis(scale.end_ps))
    axes.set_ylim(0.0, limit * _HEADROOM)
    axes.set_ylabel(name, fontsize=LABEL_PT + 1, color=INK)
    axes.locator_params(axis="y", nbins=5)
    axes.tick_params(axis="y", labelsize=LABEL_PT, color=FAINT_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(_title(of), loc="left", fontsize=_TITLE_PT, color=INK, pad=4)
    axes.legend(handles=patches, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(patches), fontsize=LABEL_PT, frameon=False,
                borderaxespad=0.1, handlelength=2.2, columnspacing=1.2)  # fmt: skip


def _title(of: Holdings) -> str:
    peak = f"memory of rank {of.rank}: peak {units.size_text(of.peak_bytes)} at {units.time_text(of.peak_ps / units.PS_PER_S)}"
    if of.capacity_bytes is None:
        return peak
    return f"{peak}, {'of' if of.peak_bytes <= of.capacity_bytes else 'more than'} {units.size_text(of.capacity_bytes)}"


def _unit(size_bytes: int) -> tuple[str, float]:
    """Unit of the axis and its bytes."""
    return next(((name, unit) for name, unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if size_bytes >= unit), ("B", 1.0))
