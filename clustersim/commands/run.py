"""``clustersim run`` and ``clustersim compare``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from clustersim import units
from clustersim.commands.advice import memory_advice, needed_bytes
from clustersim.commands.arguments import output_folder
from clustersim.commands.output import ProgressLine, console, print_files, print_json, print_warnings
from clustersim.document import clipped, nearest, shown
from clustersim.errors import InputError
from clustersim.experiment import Experiment, check_unfolded, load
from clustersim.read_strategy import FILE_SUFFIX
from clustersim.schedule.strategy import PRESETS
from clustersim.simulation import Run, simulate, title, write_run

_PICTURE = "gantt.png"


def run(options: argparse.Namespace) -> None:
    """Simulate one experiment, write its run folder, print its figures."""
    experiment = load(options.experiment, options.overrides)
    folder = _prepared([experiment], options, "")
    done = _simulate(experiment, options)
    if not done.summary["fits"]:
        done.summary["memory_advice"] = _advice(experiment, options)
    paths = write_run(done, folder)
    (folder / _PICTURE).unlink(missing_ok=True)  # of another run
    if not options.no_plot and _takes_time([done], folder / _PICTURE):
        paths.append(_draw(done, folder))
    if options.json:
        print_json(done.summary)
        return
    _print_table([done])
    print_files(paths)


def compare(options: argparse.Namespace) -> None:
    """The same work under several strategies: a run folder each, one table, one picture."""
    from clustersim.plots.gantt import compare_gantt

    names = _strategy_names(options.strategies)
    experiments = [load(options.experiment, options.overrides, strategy=name) for name in names]
    folder = _prepared(experiments, options, "-compare")
    runs, paths = [], []
    for experiment in experiments:
        done = _simulate(experiment, options)
        runs.append(done)
        paths += write_run(done, folder / done.experiment.strategy.name)
    picture = folder / "comparison.png"
    picture.unlink(missing_ok=True)  # of another run
    if _takes_time(runs, picture):
        compare_gantt([(_headline(done), done.trace.ops) for done in runs], picture)
        paths.append(picture)
    if options.json:
        print_json({"runs": [{"strategy": done.experiment.strategy.name, **done.summary} for done in runs]})
        return
    _print_table(runs)
    print_files(paths)


def _strategy_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    known = tuple(PRESETS)
    for name in names:
        if name not in known and not name.endswith(FILE_SUFFIX):
            raise InputError(f"--strategies: unknown strategy {shown(name)}{nearest(name, known)}; allowed: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise InputError(f"--strategies: {clipped(text)} names one twice; allowed: different names, for example {','.join(known)}")
    return names


def _prepared(experiments: list[Experiment], options: argparse.Namespace, suffix: str) -> Path:
    """What is checked before long work: the size without folding, the output folder. Prints the warnings; returns the folder."""
    if options.no_fold:
        for experiment in experiments:
            check_unfolded(experiment)
    folder = _folder(options, suffix)
    print_warnings(warning for experiment in experiments for warning in experiment.warnings)
    return folder


def _folder(options: argparse.Namespace, suffix: str) -> Path:
    name = Path(options.experiment).name.removesuffix(".yaml").removesuffix(".yml")
    return output_folder(options.output, f"runs/{name}{suffix}")


def _simulate(experiment: Experiment, options: argparse.Namespace) -> Run:
    progress = ProgressLine(experiment.strategy.name)
    try:
        return simulate(experiment, fold=not options.no_fold, progress=progress)
    finally:
        progress.close()


def _advice(experiment: Experiment, options: argparse.Namespace) -> str:
    def changed(more: Sequence[str]) -> Experiment:
        return load(options.experiment, [*options.overrides, *more])

    return memory_advice(experiment, changed, lambda other: _simulate(other, options).summary)


def _takes_time(runs: Sequence[Run], picture: Path) -> bool:
    """Whether there is anything to draw."""
    if any(done.summary["step_time_s"] > 0 for done in runs):
        return True
    print(f"note: {picture} is not drawn: nothing in the step takes any time", file=sys.stderr)
    return False


def _draw(done: Run, folder: Path) -> Path:
    from clustersim.plots.gantt import gantt

    path = folder / _PICTURE
    gantt(
        done.trace.ops, path, title=_headline(done), memory=done.trace.memory, capacity_bytes=done.summary["gpu_memory_bytes"],
        copies=done.stands_for,
    )
    return path


def _headline(done: Run) -> str:
    return f"{title(done.experiment)}: step {units.time_text(done.summary['step_time_s'])}"


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.1f} %"


def _both(full: float | None, causal: float | None) -> str:
    return "none" if full is None else f"{_percent(full)} (attention causal: {_percent(causal)})"


def _rows(summary: dict[str, Any]) -> dict[str, str]:
    """The figures people ask for first, each with its unit."""
    time, size = units.time_text, units.size_text
    links = summary["links"]
    traffic = {kind: units.decimal_size_text(value) for kind, value in summary["communication_bytes"].items() if value}
    return {
        "step time": time(summary["step_time_s"]),
        "tokens per second": f"{summary['tokens_per_s']:,.0f}" if summary["tokens_per_s"] is not None else "none",
        "model FLOP/s per GPU": units.flops_text(summary["model_flops_per_gpu_s"] or 0),
        "MFU (recompute not counted)": _both(summary["mfu"], summary["mfu_causal"]),
        "HFU (recompute counted)": _both(summary["hfu"], summary["hfu_causal"]),
        "compute": f"{time(summary['ideal_compute_s'])} ({_percent(summary['compute_utilization'])} of the step)",
        "exposed communication": time(summary["exposed_communication_s"]),
        "idle": f"{time(summary['idle_s'])} (waiting for peers {time(summary['wait_s'])})",
        "bubble, of the step": _percent(summary["bubble_of_total"]),
        "bubble, of the compute": _percent(summary["bubble_of_ideal"]),
        "communication hidden (overlap)": _percent(summary["overlap"]),
        "bytes sent": ", ".join(f"{kind} {value}" for kind, value in traffic.items()) or "none",
        "links used (mean, peak)": ", ".join(
            f"{kind} {_percent(link['mean_utilization'])}, {_percent(link['peak_utilization'])}" for kind, link in links.items()
        )
        or "none",
        "peak memory": f"{size(summary['peak_memory_bytes'])}, {'fits' if summary['fits'] else 'DOES NOT FIT'}",
        "with CUDA and NCCL": f"{size(needed_bytes(summary))} of {size(summary['usable_memory_bytes'])}",
        **({"to make it fit": summary["memory_advice"]} if "memory_advice" in summary else {}),
        "GPUs (simulated)": f"{summary['ranks']:,} ({summary['simulated_ranks']:,})",
        **({"not alike because": "\n".join(summary["symmetry_broken_by"])} if summary["symmetry_broken_by"] else {}),
        "simulated in": f"{time(summary['wall_s'])}, {summary['events']:,} events",
    }


def _print_table(runs: list[Run]) -> None:
    experiment = runs[0].experiment
    table = Table(title=title(experiment).partition(": ")[2], title_justify="left", title_style="bold")
    table.add_column("mean over ranks")
    columns = [_rows(done.summary) for done in runs]
    for done in runs:
        table.add_column(done.experiment.strategy.name, justify="right")
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    console().print(table)
