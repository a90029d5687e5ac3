"""The pictures of this folder, from its tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from configurations import MEMORY, PEAK, usable_bytes
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from clustersim.plots.style import FAINT_INK, INK, MEMORY_STYLES

LOOKS = {"baseline": ("#D55E00", "s"), "improved": ("#0072B2", "o")}
PARTS = {
    "compute_s": ("#0072B2", "compute"),
    "exposed_communication_s": ("#E69F00", "exposed communication"),
    "idle_s": ("#DDDDDD", "idle"),
}


def comparison(table: pd.DataFrame) -> Figure:
    """Parts of the step, a panel a cost, a bar a configuration, its days beside it."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (cost, of) in zip(panels, table.groupby("cost", sort=False), strict=True):
        places = [2.6 * (number // 2) + number % 2 for number in range(len(of))]
        left = pd.Series(0.0, index=of.index)
        for part, (colour, _) in PARTS.items():
            width = 100 * of[part] / of["step_time_s"]
            axes.barh(places, width, left=left, height=0.85, color=colour, edgecolor="white", linewidth=0.6)
            left += width
        for place, days, gpus in zip(places, of["days"], of["gpus"], strict=True):
            axes.text(102, place, f"{days:#,.3g} days, {gpus:,} GPUs".replace(". ", " "), va="center", fontsize=8, color=INK)
        axes.set_yticks(places, [f"{name}: {method}" for name, method in zip(of["dimensions"], of["method"], strict=True)], fontsize=8.5)
        axes.set(xlim=(0, 150), xticks=range(0, 101, 25), xlabel="share of the step (%)")
        axes.set_title("every FLOP at peak" if cost == PEAK else f"calibrated A100, {cost}", loc="left", fontsize=10)
        _bare(axes)
    panels[0].invert_yaxis()
    handles = [panels[0].barh([0], [0], color=colour, label=label) for colour, label in PARTS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def sizes(table: pd.DataFrame) -> Figure:
    """Days and memory of the shortest training against x."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    time, memory = figure.subplots(1, 2)
    for method, of in table.groupby("method", sort=False):
        colour, marker = LOOKS[method]
        time.plot(of["x"], of["days"], marker=marker, color=colour, label=method, markersize=5)
        memory.plot(of["x"], of["peak_memory_bytes"] / 1e9, color=colour, linewidth=1.2, label=method)
        away = of["offload"] != "none"
        for kept, face in ((of[~away], colour), (of[away], "white")):
            memory.plot(kept["x"], kept["peak_memory_bytes"] / 1e9, marker, color=colour, markerfacecolor=face, markersize=6)
    memory.plot([], [], "o", color=FAINT_INK, markerfacecolor="white", label="activations on the host")
    memory.axhline(usable_bytes() / 1e9, color=FAINT_INK, linestyle="--", linewidth=1, label="usable memory of a GPU")
    time.set(yscale="log", ylabel="shortest training (days)")
    memory.set(yscale="log", ylabel="memory of the fullest GPU (GB)")
    for axes in (time, memory):
        axes.set(xscale="log", xlabel="x (12 $x^5$ parameters)")
        _plain_ticks(axes, (32, 64, 96, 128, 160, 224, 320))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=9)
        _bare(axes)
    return figure


def networks(table: pd.DataFrame, nodes: pd.DataFrame) -> Figure:
    """Days of X_160 by network, and by GPUs of a node."""
    figure = Figure(figsize=(10, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(table["network"]))
    for place, (case, method) in enumerate((case, method) for case in dict.fromkeys(table["case"]) for method in LOOKS):
        of = table[(table["case"] == case) & (table["method"] == method)].set_index("network").loc[names]
        colour, fixed = LOOKS[method][0], case != "shortest"
        at = [number + 0.2 * (place % 2 * 2 + (not fixed) - 1.5) for number in range(len(names))]
        label = f"{method}, {'as on InfiniBand' if fixed else 'best for this network'}"
        left.bar(at, of["days"], 0.18, color="white" if fixed else colour, edgecolor=colour, linewidth=1.2, label=label)
        for where, days in zip(at, of["days"], strict=True):
            left.text(where, days, f"{days:#.3g}", ha="center", va="bottom", fontsize=7.5, color=INK)
    rates = {"NVLink": "300 GB/s", "InfiniBand": "200 Gb/s", "Ethernet": "25 Gb/s"}
    left.set_xticks(range(len(names)), [f"{name}\n{rates[name]} a GPU" for name in names])
    left.set(ylabel="training of X_160 (days)", ylim=(0, None))
    left.legend(frameon=False, fontsize=8.5, loc="upper left")
    for method, of in nodes.groupby("method", sort=False):
        colour, marker = LOOKS[method]
        right.plot(of["node"], of["days"], marker=marker, color=colour, label=method)
    right.set(xscale="log", ylim=(0, None), xlabel="GPUs of a node", ylabel="training of X_160 (days)")
    _plain_ticks(right, sorted(set(nodes["node"])))
    right.grid(alpha=0.25)
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        _bare(axes)
    return figure


def memory(table: pd.DataFrame) -> Figure:
    """What the fullest GPU holds, by kind, a bar a partition and offload."""
    figure = Figure(figsize=(10, 0.8 + 0.27 * len(table)), layout="constrained")
    axes = figure.subplots()
    groups = table["partition"].where(table["method"] == "improved", "baseline")
    places = [number + 0.7 * (groups.iloc[: number + 1].nunique() - 1) for number in range(len(table))]
    left = pd.Series(0.0, index=table.index)
    for kind in MEMORY:
        look, width = MEMORY_STYLES[kind], table[f"{kind}_bytes"] / 1e9
        axes.barh(
            places, width, left=left, height=0.85, color=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0.4, label=look.label
        )
        left += width
    for place, total, days in zip(places, table["peak_memory_bytes"] / 1e9, table["days"], strict=True):
        label = axes.text(total + 1, place, f"{total:.1f} GB, {days:.2f} days", va="center", fontsize=8, color=INK)
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.axvline(usable_bytes() / 1e9, color=INK, linestyle="--", linewidth=1, zorder=0)
    axes.text(usable_bytes() / 1e9, -0.8, "usable memory of a GPU ", ha="right", va="bottom", fontsize=8, color=INK)
    names = [f"{row.method}: partition {row.partition}, offload {row.offload}" for row in table.itertuples()]
    axes.set_yticks(places, names, fontsize=8)
    axes.set(xlabel="memory of the fullest GPU (GB)")
    axes.set_ylim(places[-1] + 0.8, -0.9)
    axes.margins(x=0.18)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    _bare(axes)
    return figure


def _plain_ticks(axes: Axes, places: Sequence[int]) -> None:
    """At these places of a logarithmic axis, and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _bare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)
