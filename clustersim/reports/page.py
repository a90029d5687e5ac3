"""The page: one HTML document with the script, the data and the plotting library inside; it asks the network for nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from clustersim import units
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_text import limits
from clustersim.plots.memory import Holdings, holdings
from clustersim.plots.style import style
from clustersim.reports.figures import (
    LINKS_OF_A_KIND,
    Figure,
    activity_figure,
    base_layout,
    links_figure,
    memory_figure,
    split_figure,
    time_axis,
)
from clustersim.reports.pack import axis_unit, escaped, json_text, kind_colours, narrowest, packed, paler
from clustersim.reports.script import SCRIPT
from clustersim.reports.timeline import LEVELS, NARROW, Timeline, opacity
from clustersim.reports.words import Row, analysis_rows, summary_rows
from clustersim.trace.run import Run
from clustersim.units import PS_PER_S

MAX_BARS = 5_000
"""Ops drawn one by one at a time."""

MAX_CORNERS = 300
"""With more corners in view, the critical path stays on the first row of each rank."""

_FEW_ROWS = 40
_HOW = (
    "Drag to zoom, double-click to see the whole again; point at a box for its details. Grey is idle. The black line is the critical path:"
    " it goes from what ends last back through whatever made each op begin."
)
_SLACK = " Slack is how much later an op could end without making the step longer."
_OVER_TIME = (
    "In each of the narrow columns of time, the share of the ranks that compute, that communicate and do not compute (exposed), and that do"
    " neither, by what they wait for. The shares add up to 100 %; their areas are the parts of the first bar above."
)
_MEASURED = (
    "A kernel that communicates counts whole, waiting for other ranks included. The files do not say what an op waited for, so there is no"
    " slack, nor what memory and links did."
)
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;margin:0 auto;padding:16px 24px;max-width:1500px}
h1{font-size:22px;margin:.2em 0;overflow-wrap:anywhere}h2{font-size:18px;margin:1.6em 0 .2em}p{margin:.3em 0;max-width:105ch}
.answer{font-size:18px;border-left:5px solid #004488;padding:.4em .8em;background:#eef3f9;margin:.8em 0}
.note{color:#555}
table{border-collapse:collapse;margin:.6em 0}td{padding:3px 14px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}
td:nth-child(2){white-space:nowrap;font-variant-numeric:tabular-nums}td:nth-child(3){color:#555}
@media(max-width:1000px){td:nth-child(2){white-space:normal;min-width:11em}body{padding:12px}}
pre{background:#f5f5f5;padding:10px;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px}
"""


def page(run: Run, analysis: Analysis, chart: Timeline, over_time: tuple[np.ndarray, pd.DataFrame]) -> str:
    """The report as text of HTML; ``over_time``: what :func:`~clustersim.analysis.activity.activity` gives."""
    from plotly.offline import get_plotlyjs

    figures: dict[str, Figure] = {"split": split_figure(analysis, chart.chart.shown_ranks)}
    figures["activity"] = activity_figure(analysis, *over_time)
    held = holdings(run.data.trace.memory, run.gpu_memory_bytes)
    if held is not None:
        figures["memory"] = memory_figure(held, analysis.window)
    if analysis.links is not None and len(analysis.links):
        figures["links"] = links_figure(analysis, run.data.trace.links, run.data.link_totals)
    gantt = _gantt(chart)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">',
            f"<title>{escaped(run.title)}</title><style>{_STYLE}</style></head><body>",
            *_body(run, analysis, chart, figures, held, gantt),
            f"<script>{get_plotlyjs()}</script>",
            f'<script type="application/json" id="data">{json_text({"figures": figures, "gantt": gantt})}</script>',
            f"<script>{SCRIPT}</script></body></html>\n",
        ]
    )  # fmt: skip


def _body(run: Run, analysis: Analysis, chart: Timeline, figures: dict[str, Figure], held: Holdings | None, gantt: Figure) -> list[str]:
    answer = limits(analysis)
    parts = [
        f"<h1>{escaped(run.title)}</h1>", f'<p class="answer">{escaped(answer[0].upper() + answer[1:])}.</p>', "<h2>The figures</h2>",
        _table(analysis_rows(analysis)),
    ]  # fmt: skip
    whole = summary_rows(run.data.summary)
    if whole:
        parts += ["<h2>The whole step</h2>", _table(whole)]
    parts += [
        "<h2>What runs when</h2>", f"<p>{_sample(chart)}{_HOW}{'' if analysis.slack is None else _SLACK}</p>",
        '<p class="note" id="gantt-note"></p>', _room("gantt", gantt),
        "<h2>Where the time goes</h2>", "<p>Each bar is the whole window. Exposed: communication while the rank does not compute.</p>",
        _room("split", figures["split"]),
        "<h2>What the ranks do over time</h2>", f"<p>{_OVER_TIME}{_weights(run)}</p>", _room("activity", figures["activity"]),
    ]  # fmt: skip
    parts += _memory_part(held, figures) + _links_part(figures, analysis)
    return parts + _source_part(run)


def _source_part(run: Run) -> list[str]:
    """Where the trace comes from: the experiment, or the profiler files and what was left out of them."""
    if run.notes is not None:
        notes = "".join(f"<li>{escaped(note)}</li>" for note in run.notes)
        text = f"Profiler trace {escaped(run.name)}: measured, not simulated. {_MEASURED}"
        return ["<h2>The trace</h2>", f"<p>{text}</p>", f"<ul>{notes}</ul>"]
    manifest = run.data.manifest
    version = escaped(manifest.get("version", "not recorded"))
    inputs = escaped_block(manifest) if manifest else "not recorded: the run folder has no manifest.json"
    return ["<h2>The experiment</h2>", f"<p>clustersim {version}, run folder {escaped(run.name)}</p>", f"<pre>{inputs}</pre>"]


def _weights(run: Run) -> str:
    folded = any(count > 1 for count in run.stands_for.values())
    return f" Ranks: {run.ranks:,}.{' Each counts for all those that it was simulated for.' if folded else ''}"


def _room(name: str, figure: Figure) -> str:
    """Where a figure goes, as high as it will be."""
    return f'<div id="{name}" style="height:{figure["layout"]["height"]}px"></div>'


def escaped_block(value: Any) -> str:
    """A document as indented text of HTML."""
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    return "\n".join(escaped(line) for line in lines)


def _table(rows: list[Row]) -> str:
    cells = ("".join(f"<td>{escaped(cell)}</td>" for cell in row) for row in rows)
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _sample(chart: Timeline) -> str:
    shown, present = len(chart.chart.shown_ranks), chart.chart.present_ranks
    ranks = "" if shown == present else f"{shown:,} of {present:,} ranks are shown. "
    if chart.path.hidden_ranks:
        ranks += "The critical path is left out where its rank is not shown. "
    if len(chart.ops) == chart.ops_in_window:
        return ranks
    return f"{ranks}Of {chart.ops_in_window:,} ops the {len(chart.ops):,} longest can be seen one by one, the others only merged. "


def _memory_part(held: Holdings | None, figures: dict[str, Figure]) -> list[str]:
    if held is None:
        return ["<h2>Memory</h2>", "<p>The trace counts no memory.</p>"]
    text = f"Rank {held.rank} holds most: {units.size_text(held.peak_bytes)} at {units.time_text(held.peak_ps / PS_PER_S)}."
    if held.capacity_bytes is not None:
        fits = "it fits" if held.peak_bytes <= held.capacity_bytes else "it does NOT fit"
        text += f" Its GPU has {units.size_text(held.capacity_bytes)}: {fits}."
    return [f"<h2>Memory of the fullest rank</h2><p>{text}</p>", _room("memory", figures["memory"])]


def _links_part(figures: dict[str, Figure], analysis: Analysis) -> list[str]:
    if "links" not in figures or analysis.links is None:
        return ["<h2>Links</h2>", "<p>The trace counts no traffic on links.</p>"]
    text = f"The busiest links, at most {LINKS_OF_A_KIND} of each kind, of {len(analysis.links):,} in use; one direction each."
    if (analysis.links["links"] > 1).any():
        text += " A link may stand for others that carry the same."
    return [f"<h2>Links over time</h2><p>{text}</p>", _room("links", figures["links"])]


def _gantt(chart: Timeline) -> dict[str, Any]:
    """The data that the script draws the chart from."""
    window, ops = (chart.chart.begin_ps, chart.chart.end_ps), chart.ops
    labels = [escaped(row.label) for row in chart.chart.rows]
    unit, size = axis_unit(window[1] - window[0])
    kinds = [{"label": escaped(style(kind).label), "colours": kind_colours(kind)} for kind in chart.chart.kinds]
    name, names = pd.factorize(ops["name"])
    stream, streams = pd.factorize(ops["stream"])
    columns = ops.assign(name=name, stream=stream)
    first = {row.rank: place for place, row in reversed(list(enumerate(chart.chart.rows)))}
    return {
        "rows": labels, "kinds": kinds, "names": [escaped(one) for one in names], "streams": [escaped(one) for one in streams],
        "ops": {key: packed(columns[key].to_numpy(), narrowest(columns[key])) for key in columns},
        "known": len(ops), "total": chart.ops_in_window, "begin_ps": window[0], "end_ps": window[1], "unit": unit, "unit_ps": size,
        "begin_end": [time / size for time in window], "narrow": NARROW, "max_bars": MAX_BARS, "max_corners": MAX_CORNERS,
        "merged": packed(chart.merged.ravel() + 1, "u2"), "busy": packed((100 * chart.busy).round().ravel(), "u1"),
        "column_ps": chart.column_ps, "bins": chart.merged.shape[1], "levels": LEVELS, "scale": _scale(chart.chart.kinds),
        "gap": 4 if len(labels) <= _FEW_ROWS else 1, "first_row": [first[row.rank] for row in chart.chart.rows],
        "path_ps": packed(chart.path.time_ps, "f8"), "path_row": packed(chart.path.row, "i4"),
        "layout": _gantt_layout(chart, labels, window),
    }  # fmt: skip


def _scale(kinds: tuple[str, ...]) -> list[list[Any]]:
    """A colour for each kind and step of paleness, without passage from one to the next."""
    colours = [paler(kind, opacity(step)) for kind in kinds for step in range(LEVELS)]
    return [[(place + side) / len(colours), colour] for place, colour in enumerate(colours) for side in (0, 1)]


def _gantt_layout(chart: Timeline, labels: list[str], window: tuple[int, int]) -> dict[str, Any]:
    few = len(labels) <= _FEW_ROWS
    height = 110 + len(labels) * (22 if few else 11)
    layout = base_layout(max(height, 260), barmode="overlay", bargap=0, hovermode="closest", dragmode="zoom", xaxis=time_axis(window))
    layout["legend"] |= {"itemclick": False, "itemdoubleclick": False}
    axis = {"type": "category", "categoryorder": "array", "categoryarray": labels, "range": [len(labels) - 0.5, -0.5], "automargin": True,
            "fixedrange": few, "showgrid": False}  # fmt: skip
    if not few:
        first = {row.rank: label for row, label in reversed(list(zip(chart.chart.rows, labels, strict=True)))}
        ranks = {row.rank: row.rank_label for row in chart.chart.rows}
        axis |= {"tickvals": list(first.values()), "ticktext": list(ranks.values()), "tickfont": {"size": 9}}
    return {**layout, "yaxis": axis, "plot_bgcolor": "#F1F1F1"}
