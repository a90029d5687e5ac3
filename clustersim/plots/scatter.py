"""Predicted against measured: a panel for each kind of quantity, with a band of 10 %."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clustersim.plots.files import picture_writer
from clustersim.plots.style import FAINT_INK, INK
from clustersim.trace.files import Write

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# By unit: the panel, and what turns the figure into the panel's own unit. Other units are counts, and not drawn.
_PANELS = {
    "s": ("time (s)", 1.0), "ms": ("time (s)", 1e-3), "us": ("time (s)", 1e-6),
    "tokens/s": ("throughput (tokens/s)", 1.0), "tokens/s per GPU": ("throughput (tokens/s)", 1.0),
    "samples/s per GPU": ("throughput of a GPU (samples/s)", 1.0),
    "TFLOP/s per GPU": ("throughput of a GPU (TFLOP/s)", 1.0),
    "% of one GPU": ("weak scaling (% of one GPU)", 1.0),
    "GB": ("peak memory (GB)", 1.0), "GiB": ("peak memory (GB)", 2**30 / 1e9),
}  # fmt: skip
BAND = 0.1
# Okabe and Ito's colours, each with a shape of its own.
_LOOKS = (
    ("#56B4E9", "o"), ("#E69F00", "s"), ("#0072B2", "^"), ("#009E73", "D"), ("#CC79A7", "v"), ("#D55E00", "P"), ("#000000", "X"),
    ("#8A6D00", "*"), ("#56B4E9", "^"), ("#E69F00", "v"), ("#0072B2", "s"),
)  # fmt: skip
_COLUMNS = 3


def scatter_writer(rows: pd.DataFrame) -> Write:
    """For :func:`~clustersim.trace.files.write_all`: a picture of rows of :func:`clustersim.published.report.table`.

    Rows of calibration are hollow, those of a test full.
    """
    drawn = rows[rows["unit"].isin(list(_PANELS))]
    panels = drawn["unit"].map(lambda unit: _PANELS[unit][0])
    scales = drawn["unit"].map(lambda unit: _PANELS[unit][1])
    drawn = drawn.assign(panel=panels, measured=drawn["measured"] * scales, predicted=drawn["predicted"] * scales)
    looks = {source: _LOOKS[number % len(_LOOKS)] for number, source in enumerate(dict.fromkeys(rows["source"]))}

    def draw() -> Figure:
        from matplotlib.figure import Figure

        names = list(dict.fromkeys(label for label, _ in _PANELS.values() if (drawn["panel"] == label).any()))
        columns = min(_COLUMNS, max(1, len(names)))
        lines = -(-len(names) // columns) or 1
        figure = Figure(figsize=(4.2 * columns, 0.9 + 4.0 * lines), layout="constrained")
        places = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes, name in zip(places, names, strict=False):
            _panel(axes, drawn[drawn["panel"] == name], name, looks)
        for axes in places[len(names) :]:
            axes.set_visible(False)
        _legend(figure, looks, drawn)
        return figure

    return picture_writer(draw)


def _panel(axes: Axes, points: pd.DataFrame, name: str, looks: dict[str, tuple[str, str]]) -> None:
    from matplotlib.ticker import FuncFormatter, LogFormatter

    both = points[["measured", "predicted"]].to_numpy()
    low, high = both.min() / 1.3, both.max() * 1.3
    line = [low, high]
    axes.fill_between(line, [(1 - BAND) * x for x in line], [(1 + BAND) * x for x in line], color="#DDDDDD", linewidth=0)
    axes.plot(line, line, color=FAINT_INK, linewidth=0.8)
    for (source, use), of in points.groupby(["source", "use"], sort=False):
        colour, marker = looks[source]
        face = "none" if use == "calibration" else colour
        axes.scatter(of["measured"], of["predicted"], s=24, marker=marker, facecolors=face, edgecolors=colour, linewidths=0.9, alpha=0.8)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set_title(name, loc="left", fontsize=10, color=INK)
    axes.set_xlabel("measured", fontsize=9)
    axes.set_ylabel("predicted", fontsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e4 else f"{value:,.0f}"))
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    axes.tick_params(which="both", labelsize=8)
    axes.grid(alpha=0.25)


def _legend(figure: Figure, looks: dict[str, tuple[str, str]], drawn: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def mark(colour: str, marker: str, label: str, hollow: bool = False) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, markerfacecolor="none" if hollow else colour, label=label)

    shown = set(drawn["source"])
    handles = [mark(*look, label=source) for source, look in looks.items() if source in shown]
    uses = set(drawn["use"])
    handles += [mark(FAINT_INK, "o", "calibration", hollow=True)] if "calibration" in uses else []
    handles += [mark(FAINT_INK, "o", "test")] if "test" in uses else []
    handles.append(Patch(color="#DDDDDD", label=f"within {100 * BAND:.0f} %"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
