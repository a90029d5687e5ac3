"""The figures of a report as plain plotly values, ``{"data": [...], "layout": {...}}``: pure functions, nothing is drawn here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.analysis.activity import EXPOSED, IDLE
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_text import CAUSE_WORDS, family_words, percent
from clustersim.analysis.link_bins import link_bins
from clustersim.plots.memory import Holdings, in_window
from clustersim.plots.style import CAUSE_STYLES, INK, family_colour, memory_style, style
from clustersim.plots.utilization import part_look
from clustersim.reports.pack import axis_unit, escaped, packed
from clustersim.units import PS_PER_S

Figure = dict[str, Any]
LINKS_OF_A_KIND = 8
_BINS = 1_000
_FAR = 2.0  # a limit more than so many times above the memory in use is only told
_BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def base_layout(height: int, **more: Any) -> dict[str, Any]:
    """What all figures share."""
    return {
        "height": height, "margin": {"l": 120, "r": 40, "t": 10, "b": 45}, "modebar": {"orientation": "v"},
        "paper_bgcolor": "#FFFFFF", "plot_bgcolor": "#FFFFFF",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK}, "hoverlabel": {"align": "left", "namelength": -1},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "traceorder": "normal"}, **more,
    }  # fmt: skip


def time_axis(window: tuple[int, int], **more: Any) -> dict[str, Any]:
    unit, size = axis_unit(window[1] - window[0])
    return {"title": {"text": f"time ({unit})"}, "range": [window[0] / size, window[1] / size], "zeroline": False, **more}


def split_figure(analysis: Analysis, ranks: tuple[int, ...]) -> Figure:
    """Compute, exposed communication by kind and idle by cause: the mean over ranks on top, then each of ``ranks``."""
    unit, size = axis_unit(analysis.window_ps)
    labels = ["mean", *(f"rank {rank}" for rank in ranks)]
    data = []
    for name, look, mean, by_rank in _parts(analysis):
        ps = np.array([mean, *by_rank.reindex(list(ranks), fill_value=0)], dtype=float)
        texts = [f"{label}: {name}<br>{units.time_text(t / PS_PER_S)}, {percent(t / analysis.window_ps)} of the window"
                 for label, t in zip(labels, ps, strict=True)]  # fmt: skip
        data.append(
            {"type": "bar", "orientation": "h", "name": name, "y": labels, "x": (ps / size).tolist(), "marker": look, "hovertext": texts,
             "hoverinfo": "text"}
        )  # fmt: skip
    step = 26 if len(labels) <= 20 else 14
    layout = base_layout(80 + 20 * len(data) + step * len(labels), barmode="stack", bargap=0.2)
    layout["xaxis"] = {"title": {"text": f"time ({unit})"}, "range": [0, analysis.window_ps / size]}
    layout["yaxis"] = {"autorange": "reversed", "automargin": True, "type": "category"}
    return {"data": data, "layout": layout}


def _parts(analysis: Analysis) -> list[tuple[str, dict[str, Any], float, pd.Series]]:
    """Name, look, mean over all ranks in ps, and ps by rank of what the window is made of."""
    ranks = analysis.ranks.set_index("rank")
    found: list[tuple[str, dict[str, Any], float, pd.Series]] = []
    found.append(("compute", {"color": style("forward").colour}, analysis.mean("compute_ps"), ranks["compute_ps"]))
    for family, mean in analysis.exposed().items():
        mine = analysis.families[analysis.families["family"] == family].groupby("rank")["exposed_ps"].sum()
        if mean:
            found.append((f"exposed {family_words(analysis, family)}", {"color": family_colour(family)}, mean, mine))
    causes = analysis.causes.set_index("rank")
    for cause, mean in analysis.idle().items():
        style_of = CAUSE_STYLES[cause]
        pattern, line = {"shape": style_of.hatch, "fgcolor": style_of.colour, "size": 6}, {"color": style_of.colour, "width": 1}
        look: dict[str, Any] = {"color": "#FFFFFF" if style_of.hatch else style_of.colour, "pattern": pattern, "line": line}
        if mean:
            found.append((f"idle: {CAUSE_WORDS[cause]}", look, mean, causes[cause]))
    return found


def activity_figure(analysis: Analysis, edges: np.ndarray, shares: pd.DataFrame) -> Figure:
    """The share of the ranks that compute, communicate exposed, or idle, over time: what :func:`~clustersim.analysis.activity.activity`
    gives, stacked to 100 %.
    """
    _, size = axis_unit(int(edges[-1] - edges[0]))
    data = []
    for column in shares:
        colour, shape = part_look(column)
        name = _part_name(analysis, column)
        values = 100 * np.append(shares[column], shares[column].iloc[-1])
        data.append(
            {"type": "scatter", "mode": "lines", "name": name, "stackgroup": "shares", "x": packed(edges / size, "f8"),
             "y": packed(values, "f4"), "fillcolor": "#FFFFFF" if shape else colour,
             "fillpattern": {"shape": shape, "fgcolor": colour, "bgcolor": "#FFFFFF", "size": 6} if shape else {},
             "line": {"shape": "hv", "width": 0.5, "color": colour}, "hovertemplate": f"{name}: %{{y:.1f}} %<extra></extra>"}
        )  # fmt: skip
    layout = base_layout(360, hovermode="x unified", xaxis=time_axis((int(edges[0]), int(edges[-1]))))
    layout["yaxis"] = {"title": {"text": "share of the ranks (%)"}, "range": [0, 100], "fixedrange": True}
    return {"data": data, "layout": layout}


def _part_name(analysis: Analysis, column: str) -> str:
    if column.startswith(EXPOSED):
        return f"exposed {family_words(analysis, column.removeprefix(EXPOSED))}"
    return f"idle: {CAUSE_WORDS[column.removeprefix(IDLE)]}" if column.startswith(IDLE) else column


def memory_figure(held: Holdings, window: tuple[int, int]) -> Figure:
    """What the rank holds, kinds stacked, and the memory of its GPU where it is near."""
    _, size = axis_unit(window[1] - window[0])
    times, by_kind = in_window(held, *window, _BINS * 2)
    x = np.append(times, window[1]) / size
    top = int(by_kind.sum(axis=0).max(initial=0))
    unit, scale = next(((name, one) for name, one in _BYTES if top >= one), ("B", 1.0))
    data: list[dict[str, Any]] = []
    for kind, values in zip(held.kinds, by_kind, strict=True):
        look, name = memory_style(kind), escaped(memory_style(kind).label)
        values = np.append(values, values[-1:])
        data.append(
            {"type": "scatter", "mode": "lines", "name": name, "stackgroup": "held",
             "x": packed(x, "f8"), "y": packed(values / scale, "f8"), "fillcolor": look.colour,
             "line": {"shape": "hv", "width": 0.5, "color": look.colour},
             "hovertemplate": f"{name}: %{{y:.4g}} {unit}<extra></extra>"}
        )  # fmt: skip
    limit = held.capacity_bytes
    if limit is not None and limit > _FAR * max(top, 1):
        limit = None
    if limit is not None:
        line = {"color": INK, "width": 2, "dash": "dash"}
        data.append({"type": "scatter", "mode": "lines", "name": f"memory of the GPU, {units.size_text(limit)}", "line": line,
                     "x": [window[0] / size, window[1] / size], "y": [limit / scale] * 2, "hoverinfo": "skip"})  # fmt: skip
    layout = base_layout(340, hovermode="x unified", xaxis=time_axis(window))
    highest = max(top, limit or 0, 1) * 1.08 / scale
    layout["yaxis"] = {"title": {"text": f"memory ({unit})"}, "range": [0, highest], "fixedrange": True}
    return {"data": data, "layout": layout}


def busiest_links(analysis: Analysis) -> pd.DataFrame:
    """Rows of ``analysis.links``: of each kind at most LINKS_OF_A_KIND, the busiest first, kinds together."""
    assert analysis.links is not None  # there is traffic to draw
    table = analysis.links.sort_values(["kind", "mean_utilization", "link"], ascending=[True, False, True])
    return table.groupby("kind", sort=False).head(LINKS_OF_A_KIND)


def links_figure(analysis: Analysis, links: pd.DataFrame, totals: pd.DataFrame) -> Figure:
    """A heat map: a row for each of the busiest links of each kind, utilization over time."""
    rows = busiest_links(analysis)
    names = rows["link"].tolist()
    capacity = totals.assign(link=totals["link"].astype(str)).drop_duplicates("link").set_index("link")["capacity_bytes_s"]
    _, size = axis_unit(analysis.window_ps)
    labels = [f"{escaped(_short(name))} ({escaped(kind)})" for name, kind in zip(names, rows["kind"], strict=True)]
    labels = [label if labels.count(label) == 1 else f"{label} #{place}" for place, label in enumerate(labels)]
    share = 100 * link_bins(links, capacity, names, analysis.window, _BINS)
    begin, end = analysis.window
    heat = {
        "type": "heatmap", "x": packed(np.linspace(begin, end, _BINS + 1) / size, "f8"), "y": labels, "z": packed(share, "f4"), "zmin": 0,
        "zmax": 100, "colorscale": "Cividis", "ygap": 1, "colorbar": {"title": {"text": "utilization (%)"}, "thickness": 12},
        "hovertemplate": f"%{{y}}<br>at %{{x:.6g}} {axis_unit(analysis.window_ps)[0]}: %{{z:.1f}} %<extra></extra>",
    }  # fmt: skip
    layout = base_layout(130 + 20 * len(names), xaxis=time_axis(analysis.window))
    layout["yaxis"] = {"autorange": "reversed", "type": "category", "automargin": True, "fixedrange": True}
    return {"data": [heat], "layout": layout}


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:18] + "…" + name[-21:]
