"""What would make a job fit that does not: changes tried one at a time, then together, each by a simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim import units
from clustersim.errors import InputError
from clustersim.experiment import Experiment
from clustersim.schedule.strategy import OPTIMIZER_AWAY

Load = Callable[[Sequence[str]], Experiment]
"""The experiment with more overrides."""
Summary = dict[str, Any]
_PARTITIONS = ("none", "optimizer", "gradients", "parameters")
_ENOUGH = 2


@dataclass(frozen=True)
class Change:
    """Keys and values as ``--set`` takes them."""

    overrides: tuple[str, ...]

    @property
    def keys(self) -> set[str]:
        return {override.partition("=")[0] for override in self.overrides}

    def __str__(self) -> str:
        return " ".join(f"--set {override}" for override in self.overrides)


def needed_bytes(summary: Summary) -> int:
    """Tensors, and what is in use beside them."""
    return summary["peak_memory_bytes"] + summary["reserve_bytes"]


def changes(experiment: Experiment) -> list[Change]:
    """What can be changed in this job, first what costs least time. Some may not be possible, which is seen when they are loaded."""
    grid, strategy = experiment.grid, experiment.strategy
    found: list[tuple[str, ...]] = []
    if grid.tensor > 1 and not experiment.sequence_parallel:
        found.append(("parallel.sequence_parallel=true",))
    if experiment.recompute == "none":
        found.append(("recompute=selective",))
    if grid.copies > 1:
        found += [(f"strategy.partition={name}",) for name in _PARTITIONS[_PARTITIONS.index(strategy.partition) + 1 :]]
    if experiment.recompute != "full":
        found.append(("recompute=full",))
    if experiment.micro_batch % 2 == 0:
        found.append((f"batch.micro={experiment.micro_batch // 2}",))
    for name, degree in (("pipeline", grid.pipeline), ("tensor", grid.tensor)):
        if grid.data % 2 == 0:
            found.append((f"parallel.{name}={2 * degree}", f"parallel.data={grid.data // 2}"))
    if strategy.offload == "none":
        found += [("strategy.offload=optimizer",), ("strategy.offload=activations",)]
    elif strategy.offload in OPTIMIZER_AWAY:
        found.append(("strategy.offload=all",))
    return [Change(overrides) for overrides in found]


def memory_advice(experiment: Experiment, load: Load, summary_of: Callable[[Experiment], Summary]) -> str:
    """One or two sentences: the first changes that make the job fit, each alone; else several together, or that they do not suffice.

    ``summary_of`` simulates.
    """
    tried: list[tuple[Change, Summary]] = []
    fitting: list[tuple[Change, Summary]] = []
    for change in changes(experiment):
        summary = _try(load, summary_of, change)
        if summary is None:
            continue
        tried.append((change, summary))
        if summary["fits"]:
            fitting.append((change, summary))
        if len(fitting) == _ENOUGH:
            break
    if fitting:
        return "It fits with " + ", or with ".join(f"{change} ({_needs(summary)})" for change, summary in fitting) + "."
    return _together(tried, load, summary_of)


def _together(tried: Sequence[tuple[Change, Summary]], load: Load, summary_of: Callable[[Experiment], Summary]) -> str:
    """Changes of different keys, most effective first, until they suffice."""
    joined, least = Change(()), None
    for change, _ in sorted(tried, key=lambda pair: needed_bytes(pair[1])):
        wider = Change((*joined.overrides, *change.overrides))
        if joined.keys & change.keys:
            continue
        summary = _try(load, summary_of, wider)
        if summary is None or (least is not None and needed_bytes(summary) >= needed_bytes(least)):
            continue
        joined, least = wider, summary
        if summary["fits"]:
            return f"No single change is enough; it fits with {joined} ({_needs(summary)})."
    if least is None:
        return "Nothing that was tried makes it fit: use more GPUs, or GPUs with more memory."
    return f"Even {joined} leaves {_needs(least)} a GPU: use more GPUs, or GPUs with more memory."


def _try(load: Load, summary_of: Callable[[Experiment], Summary], change: Change) -> Summary | None:
    """None where the job cannot be changed so."""
    try:
        return summary_of(load(change.overrides))
    except InputError:
        return None


def _needs(summary: Summary) -> str:
    return units.size_text(needed_bytes(summary))
