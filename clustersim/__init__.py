"""clustersim: a discrete-event simulator of GPU clusters that train transformers.

>>> import clustersim
>>> experiment = clustersim.load("gpt3-175b", ["nodes=8", "parallel.data=1", "batch.global=96"])
>>> run = clustersim.simulate(experiment)
>>> 0 < run.summary["mfu"] < 1
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from clustersim.analysis.answer import Analysis
    from clustersim.experiment import Experiment
    from clustersim.simulation import Run
    from clustersim.trace.trace import Trace

__all__ = ["analyze", "gantt", "load", "plan", "simulate", "sweep"]

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

    memory, capacity_bytes = run.trace.memory, run.summary["gpu_memory_bytes"]
    draw(run.trace.ops, Path(path), title=run.title, memory=memory, capacity_bytes=capacity_bytes, copies=run.stands_for)


def analyze(trace: Trace, window_ps: tuple[int, int] | None = None) -> Analysis:
    """Where the time of a trace goes, as :mod:`clustersim.analysis.answer` finds it; ``run.trace`` is one."""
    from clustersim.analysis.answer import analyze as analyze_trace

    return analyze_trace(trace, window_ps)


def sweep(
    reference: str | Path, vary: Sequence[str] | Mapping[str, Any], overrides: Sequence[str] = (), *, zipped: bool = False,
    tolerance_percent: float | None = None, knees: bool = True, tornado: bool = False, jobs: int | None = None, dask: str | None = None,
    folder: str | Path | None = None,
) -> pd.DataFrame:  # fmt: skip
    """An experiment with the fields of ``vary`` in all combinations: a row each, as :func:`clustersim.sweeps.table.table` has them.

    ``vary`` maps a path to a list or a text of values as in :func:`clustersim.sweeps.vary.parse_field`. What is in the ``folder``
    already is not simulated again. ``attrs`` of the result has the ``units``, the ``knees`` and the ``tornado``.

    >>> table = sweep("pipeline-shapes", {"strategy.name": ["standard", "mpp"]}, jobs=1)
    >>> table[["strategy.name", "step_time_s", "status"]].values.tolist()
    [['standard', 176.0, 'ok'], ['mpp', 140.0, 'ok']]
    """
    from pathlib import Path

    from clustersim.sweeps.run import run, workers
    from clustersim.sweeps.settings import read_plan
    from clustersim.sweeps.table import table
    from clustersim.trace.files import check_writable

    settings = read_plan(
        reference, vary, overrides, zipped=zipped, tolerance_percent=tolerance_percent, knees=knees, tornado=tornado
    )
    if folder is not None:
        check_writable(Path(folder))
    return table(run(settings.plan, workers(settings.plan.base, jobs, dask), None if folder is None else Path(folder)))


def plan(model: str, cluster: str, *, jobs: int | None = None, **options: Any) -> pd.DataFrame:
    """The fastest configurations that fit, best first: a row each, as :func:`clustersim.planner.answer.table` has them.

    ``options`` are those of :func:`clustersim.planner.question.read_question`, for example ``gpus``, ``batch``, ``strategies``.

    >>> table = plan("x-32", "paper-a100", gpus=2, batch=8, micro_batch=1, tokens=1e9, top=2, jobs=1)
    >>> table[["gpus", "recompute"]].values.tolist(), table["lost_by"][0]
    ([[2, 'none'], [2, 'none']], 'the best')
    """
    from clustersim.planner.answer import answer_to, table
    from clustersim.planner.question import read_question

    return table(answer_to(read_question(model, cluster, **options), jobs))
