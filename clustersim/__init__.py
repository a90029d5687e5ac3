"""clustersim: a discrete-event simulator of GPU clusters that train transformers.

>>> import clustersim
>>> experiment = clustersim.load("gpt3-175b", ["nodes=8", "parallel.data=1", "batch.global=96"])
>>> run = clustersim.simulate(experiment)
>>> 0 < run.summary["mfu"] < 1
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clustersim.analysis.answer import Analysis
    from clustersim.experiment import Experiment
    from clustersim.simulation import Run
    from clustersim.trace.trace import Trace

__all__ = ["analyze", "gantt", "load", "simulate"]

# The functions import what they need when called: `clustersim --help` must not load numpy and its kin.


def load(reference: str | Path, overrides: Sequence[str] = (), strategy: str | None = None) -> Experiment:
    """Read an experiment file, or a shipped one by name; see :func:`clustersim.experiment.load`."""
    from clustersim.experiment import load as load_experiment

    return load_experiment(reference, overrides, strategy)


def simulate(experiment: Experiment, fold: bool = True) -> Run:
    """Simulate one optimizer step; see :func:`clustersim.simulation.simulate`."""
    from clustersim.simulation import simulate as simulate_experiment

    return simulate_experiment(experiment, fold)


def gantt(run: Run, path: str | Path) -> None:
    """Draw a run as a Gantt chart, ``.png``, ``.svg`` or ``.pdf``."""
    from pathlib import Path

    from clustersim.plots.gantt import gantt as draw

    draw(run.trace.ops, Path(path), title=run.title, memory=run.trace.memory, capacity_bytes=run.summary["gpu_memory_bytes"])


def analyze(trace: Trace, window_ps: tuple[int, int] | None = None) -> Analysis:
    """Where the time of a trace goes, as :mod:`clustersim.analysis.answer` finds it; ``run.trace`` is one."""
    from clustersim.analysis.answer import analyze as analyze_trace

    return analyze_trace(trace, window_ps)
