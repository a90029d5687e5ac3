"""Time against GPUs: the plans that were simulated, the lower bounds of all others, and the front that nothing beats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clustersim.planner.answer import Answer
from clustersim.planner.search import Found
from clustersim.plots.style import FAINT_INK, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, one a strategy, each with its own marker.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A6D00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_TIMES_BEST = 50  # bounds of what takes so many times longer are left out


def pareto(answer: Answer) -> Figure:
    """Draw all simulated plans that fit, by strategy, and a dot for each lower bound."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.2), layout="constrained")
    axes = figure.add_subplot()
    _bounds(axes, answer)
    strategies = list(dict.fromkeys(found.candidate.strategy for found in answer.result.plans))
    for number, name in enumerate(strategies):
        points = [_point(answer, found) for found in (*answer.result.plans, *answer.front) if found.candidate.strategy == name]
        axes.plot(
            *zip(*points, strict=True), _MARKERS[number % len(_MARKERS)], color=_COLOURS[number % len(_COLOURS)],
            markeredgecolor="white",
            markersize=8, zorder=10 - number, label=f"{name}, simulated",
        )  # fmt: skip
    front = _front([_point(answer, found) for found in (*answer.result.plans, *answer.front)])
    axes.step(*zip(*front, strict=True), where="post", color=INK, linewidth=1.4, zorder=3, label="nothing simulated is better in both")
    gpus, days = _point(answer, answer.plans[0])
    said = f"best: {gpus:,} GPUs, {days:.3g} days"
    axes.plot([gpus], [days], "o", color=INK, markerfacecolor="none", markersize=15, zorder=20, label=said)
    axes.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="training time (days)")
    _plain_numbers(axes)
    axes.grid(alpha=0.3, which="both")
    question = answer.question
    axes.set_title(
        f"{question.model.name} on {question.cluster.name}, {question.space.batch[1]:,} sequences a step", loc="left", fontsize=11
    )
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _point(answer: Answer, found: Found) -> tuple[int, float]:
    days = answer.question.bill(found.candidate, found.step_s)["days"]
    assert days is not None  # only a cost can be unknown
    return found.candidate.gpus, days


def _front(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Fewest GPUs first, each faster than all with fewer.

    >>> _front([(8, 1.0), (4, 3.0), (6, 3.5), (2, 9.0)])
    [(2, 9.0), (4, 3.0), (8, 1.0)]
    """
    found: list[tuple[int, float]] = []
    for gpus, days in sorted(points):
        if not found or days < found[-1][1]:
            found.append((gpus, days))
    return found


def _bounds(axes: Axes, answer: Answer) -> None:
    training = answer.question.training
    steps = training.steps(answer.question.space.batch[1])
    bounds = np.array(answer.result.candidates, dtype=float)
    bounds = np.unique(np.round(bounds, 4), axis=0)
    days = bounds[:, 1] * steps / 86400
    near = days < _TIMES_BEST * _point(answer, answer.plans[0])[1]
    axes.plot(bounds[near, 0], days[near], ".", color=FAINT_INK, markersize=2.5, markeredgewidth=0, alpha=0.7, zorder=1, rasterized=True)
    axes.plot([], [], ".", color=FAINT_INK, label="lower bound of a candidate")


def _plain_numbers(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    for axis, places in ((axes.xaxis, LogLocator(2, numticks=12)), (axes.yaxis, LogLocator(subs=(1.0, 2.0, 5.0)))):
        axis.set_major_locator(places)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
