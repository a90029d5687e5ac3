"""All schedules of the catalogue at equal work, with and without delay between ranks.

    python results/schedules/make.py

writes ``README.md``, ``table.csv``, ``delays.csv``, ``delay.png`` and ``memory.png`` beside this file, in some two minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from labels import labelled, spread
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clustersim.plots.files import save
from clustersim.plots.style import FAINT_INK, INK
from clustersim.schedule.strategy import build_named
from clustersim.schedule_run import Times, measure, run_alone
from clustersim.trace.files import write_whole
from clustersim.units import PS_PER_S

FOLDER = Path(__file__).resolve().parent
P = 8
MICRO_BATCHES = (16, 32)
DELAYS_S = tuple(number / 16 for number in range(9))
"""From one rank to the next; a rank takes 1 s for a forward, 2 s for a backward (1 s each for its halves)."""

# Chunks a rank, where the schedule leaves a choice. `standard` has the actions of 1f1b.
SCHEDULES = {
    "gpipe": None, "1f1b": None, "eager-1f1b": None, "interleaved-1f1b": 4, "breadth-first": 4, "mpp": 4, "lga": 4, "terapipe": None,
    "zb-h1": None, "zb-h2": None, "interleaved-zb": 4, "zb-v": None, "v-half": None, "v-min": None, "dualpipe": None, "dualpipe-v": None,
    "hanayo": 4, "chimera": None, "pipedream-2bw": None,
}  # fmt: skip


_README = """\
# All schedules at equal work

```sh
python results/schedules/make.py
```

makes this page, its tables ([without delay](table.csv), [with](delays.csv)) and pictures in some two minutes. Every rank takes 1 s
for the forward and 2 s for the backward of a micro-batch through all its stages (1 s each for the gradients of inputs and of
weights), whatever the schedule; chunks take their part. A message arrives after the delay and does not hold up its sender.
`clustersim schedule compare -p 8 -m 16 -v 4 -c 0.5` is one point of it.

![Makespan against delay](delay.png)

Without delay interleaving (4 chunks a rank) cuts the bubble of 1F1B to a quarter. It pays with 4.4 times the messages, each of
which is waited for: from a delay of {interleaved-1f1b 16} s ({interleaved-1f1b 32} s with 32 micro-batches) it is slower than 1F1B,
with a backward in two halves already from {interleaved-zb 16} s ({interleaved-zb 32} s). Breadth-first and GPipe send while others
compute, and pay 2(p-1) delays and no more (breadth-first as long as (m-p)F/v covers p delays); for this they hold the activations of
all micro-batches.

![Bubble against activations](memory.png)

{table}
* *Among other steps* is what a further step adds where nothing is done between two. ZB-H2 and ZB-V have no bubble then;
  PipeDream-2BW has no flush, and its other columns are that too.
* Activations are the most of any rank, in micro-batches through all its stages; weights in copies of its share; messages of
  TeraPipe are slices.
* `standard` has the actions of `1f1b`. `lga` over contiguous stages is never a good idea, and left out of the pictures.
* The closed forms that these figures meet are in `tests/results/test_schedules.py` and `tests/golden/`.
"""


def table(micro_batches: Iterable[int] = MICRO_BATCHES) -> pd.DataFrame:
    """Without delay: ``schedule, v, m, makespan_s, steady_s, bubble_of_total, bubble_of_ideal, peak_activations, weights,

    pipeline_messages``. ``steady_s`` is what a further step adds where nothing is done between; of a schedule without a flush the
    makespan is that.
    """
    rows = []
    for m in micro_batches:
        for name, v in SCHEDULES.items():
            one = measure(name, P, v, m, Times())
            rows.append({
                "schedule": name, "v": one.v, "m": m, "makespan_s": one.makespan_s, "steady_s": one.steady_s,
                "bubble_of_total": one.bubble_of_total, "bubble_of_ideal": one.bubble_of_ideal, "peak_activations": one.peak_activations,
                "weights": one.weights, "pipeline_messages": one.pipeline_messages,
            })  # fmt: skip
    return pd.DataFrame(rows).round(6)


def makespan_s(name: str, m: int, delay_s: float) -> float:
    """Of one step; without a flush, of one among others.

    >>> makespan_s("1f1b", 16, 0.5)
    89.0
    """
    times = Times(delay_s=delay_s)
    schedule = build_named(name, P, SCHEDULES[name], m)
    return run_alone(schedule, times).makespan_ps / PS_PER_S if schedule.flushes else measure(name, P, SCHEDULES[name], m, times).makespan_s


def delays(micro_batches: Iterable[int] = MICRO_BATCHES) -> pd.DataFrame:
    """``schedule, m, delay_s, makespan_s``."""
    rows = [(name, m, delay_s, makespan_s(name, m, delay_s)) for m in micro_batches for name in SCHEDULES for delay_s in DELAYS_S]
    return pd.DataFrame(rows, columns=["schedule", "m", "delay_s", "makespan_s"]).round(6)


def markdown(rows: pd.DataFrame, delayed: pd.DataFrame) -> str:
    """The tables of the README, fastest first."""
    heads = (
        "schedule", "chunks", "makespan (s)", "delay 0.25 s", "0.5 s", "among other steps (s)", "bubble / step", "/ compute",
        "activations", "weights", "messages",
    )  # fmt: skip
    late = delayed.pivot(index=["m", "schedule"], columns="delay_s", values="makespan_s")
    lines = []
    for m, part in rows.groupby("m"):
        lines += [f"p = {P}, m = {m}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for row in part.sort_values(["makespan_s", "peak_activations", "schedule"]).itertuples():
            times = [row.makespan_s, *late.loc[(m, row.schedule)][[0.25, 0.5]], row.steady_s]
            cells = [row.schedule, row.v, *(f"{time_s:g}" for time_s in times)]
            cells += [f"{100 * share:.1f} %" for share in (row.bubble_of_total, row.bubble_of_ideal)]
            cells += [f"{row.peak_activations:g}", row.weights, f"{row.pipeline_messages:,}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    return "\n".join(lines)


# Okabe and Ito's colours; three lines tell the story, the others are thinner.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#000000", "#E69F00")
_STORY = {"1f1b": "#000000", "interleaved-1f1b": "#D55E00", "breadth-first": "#0072B2"}
_OFF_THE_PICTURE = ("lga",)  # four times as long


def draw_delays(delayed: pd.DataFrame, path: Path) -> None:
    """Makespan against delay; schedules of the same line share a label."""

    def picture() -> Figure:
        figure = Figure(figsize=(13, 7), layout="constrained")
        for axes, (m, part) in zip(figure.subplots(1, delayed["m"].nunique()), delayed.groupby("m"), strict=True):
            curves = part[~part["schedule"].isin(_OFF_THE_PICTURE)].pivot(index="delay_s", columns="schedule", values="makespan_s")
            alike: dict[tuple[float, ...], list[str]] = {}
            for name in SCHEDULES:
                if name in curves:
                    alike.setdefault(tuple(curves[name]), []).append(name)
            groups = sorted(alike.items(), key=lambda item: item[0][-1])
            places = spread([values[-1] for values, _ in groups], apart=0.024 * (groups[-1][0][-1] - groups[0][0][0]))
            for (values, names), place in zip(groups, places, strict=True):
                story = next((name for name in names if name in _STORY), None)
                colour = _STORY[story] if story else _COLOURS[list(SCHEDULES).index(names[0]) % len(_COLOURS)]
                look, width, front = ("-", 2.6, 4) if story else ("--", 1.1, 3)
                axes.plot(curves.index, values, look, color=colour, linewidth=width, zorder=front)
                axes.plot([0.505, 0.525], [values[-1], place], color=colour, linewidth=0.7, clip_on=False)
                axes.text(0.53, place, ", ".join(names), color=colour, fontsize=8.5, va="center", weight="bold" if story else "normal")
            axes.set(xlim=(0, 0.5), xlabel="delay between ranks (s)", ylabel="makespan (s)")
            axes.set_title(f"p = {P}, m = {m}; a rank and micro-batch: F 1 s, B 2 s", loc="left", fontsize=10, color=INK)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25, color=FAINT_INK)
        return figure

    save(path, picture)


def draw_memory(rows: pd.DataFrame, path: Path) -> None:
    """The bubble against the activations that a rank holds; hollow where it holds its weights twice."""

    def picture() -> Figure:
        figure = Figure(figsize=(13, 6), layout="constrained")
        for axes, (m, part) in zip(figure.subplots(1, rows["m"].nunique()), rows.groupby("m"), strict=True):
            _scatter(axes, part[~part["schedule"].isin(_OFF_THE_PICTURE)])
            axes.set_title(f"p = {P}, m = {m}, no delay; hollow: weights held twice", loc="left", fontsize=10, color=INK)
        figure.draw_without_rendering()  # texts have a size only when the axes have theirs
        for axes in figure.axes:
            labelled(axes)
        return figure

    save(path, picture)


def _scatter(axes: Axes, part: pd.DataFrame) -> None:
    ticks = [4, 5, 8, 10, 16, 32]
    for (held, bubble), alike in part.groupby(["peak_activations", "bubble_of_total"]):
        twice = (alike["weights"] > 1).all()
        story = next((name for name in alike["schedule"] if name in _STORY), None)
        colour = _STORY.get(story, "#8A6D00")
        face, names = "white" if twice else colour, ", ".join(alike["schedule"])
        axes.plot(held, 100 * bubble, "o", color=colour, markerfacecolor=face, markersize=7, gid=names)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set(xlim=(3, 2.7 * part["peak_activations"].max()), ylim=(-2, 108 * part["bubble_of_total"].max()))
    axes.set(xlabel="most activations of a rank (micro-batches through all its stages)", ylabel="bubble (% of the step)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, color=FAINT_INK)


def main() -> None:
    rows, delayed = table(), delays()
    write_whole(FOLDER / "table.csv", lambda path: rows.to_csv(path, index=False))
    write_whole(FOLDER / "delays.csv", lambda path: delayed.to_csv(path, index=False))
    write_whole(FOLDER / "README.md", lambda path: path.write_text(page(rows, delayed), encoding="utf-8"))
    draw_delays(delayed, FOLDER / "delay.png")
    draw_memory(rows, FOLDER / "memory.png")
    print(markdown(rows, delayed))


def page(rows: pd.DataFrame, delayed: pd.DataFrame) -> str:
    """The README."""
    text = _README.replace("{table}", markdown(rows, delayed))
    for name in ("interleaved-1f1b", "interleaved-zb"):
        for m in MICRO_BATCHES:
            text = text.replace(f"{{{name} {m}}}", f"{slower_from_s(delayed, name, m):.2f}")
    return text


def slower_from_s(delayed: pd.DataFrame, name: str, m: int) -> float:
    """The delay from which a schedule is slower than 1F1B, between two delays of the table on a straight line.

    >>> times = {"schedule": ["1f1b", "a"] * 2, "m": 8, "delay_s": [0.0, 0.0, 0.5, 0.5], "makespan_s": [6.0, 5.0, 6.0, 9.0]}
    >>> slower_from_s(pd.DataFrame(times), "a", 8)
    0.125
    """
    curves = delayed[delayed["m"] == m].pivot(index="delay_s", columns="schedule", values="makespan_s")
    lead_s = curves["1f1b"] - curves[name]
    after = int((lead_s < 0).to_numpy().argmax())
    (before_s, after_s), (ahead_s, behind_s) = lead_s.index[after - 1 : after + 1], lead_s.iloc[after - 1 : after + 1]
    return float(before_s + (after_s - before_s) * ahead_s / (ahead_s - behind_s))


if __name__ == "__main__":
    main()
