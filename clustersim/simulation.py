"""From an experiment to its trace and summary: the whole flow in one place."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.summary import Capacity, StepFacts, link_totals, summarize
from clustersim.engine.simulate import Progress
from clustersim.engine.simulate import simulate as run_program
from clustersim.errors import InputError
from clustersim.experiment import Experiment
from clustersim.model.flops import hardware_flops, model_flops
from clustersim.program.build import build_program
from clustersim.program.memory import reserve_bytes
from clustersim.program.program import Program
from clustersim.read_cost import FixedCost
from clustersim.trace.files import table_writer, text_writer, trace_writers, write_all
from clustersim.trace.granularity import coarsened
from clustersim.trace.trace import Trace, from_outcome
from clustersim.units import PS_PER_S

_LONGEST_DAYS = 2**63 // PS_PER_S // 86_400


@dataclass(frozen=True)
class Run:
    """One simulated step: what was asked, what happened, the figures, and those of each link (:func:`link_totals`).

    ``ranks`` has for each rank of the job the one that was simulated for it (rank, simulated_as).
    """

    experiment: Experiment
    trace: Trace
    links: pd.DataFrame
    ranks: pd.DataFrame
    summary: dict[str, Any]

    @property
    def stands_for(self) -> dict[int, int]:
        """By simulated rank, for how many ranks of the job it stands."""
        counts = self.ranks["simulated_as"].value_counts()
        return dict(zip(counts.index.tolist(), counts.tolist(), strict=True))

    @property
    def title(self) -> str:
        """One line for pictures: strategy, model, cluster and degrees."""
        return title(self.experiment)


def simulate(experiment: Experiment, fold: bool = True, progress: Progress | None = None) -> Run:
    """Simulate one step. With ``fold`` plainly identical replicas are simulated once; the figures are the same.

    DeadlockError when the schedule can make no progress; InputError when the job is too large, or longer than the clock counts.
    """
    begin = time.perf_counter()
    try:
        program = build_program(experiment, fold)
        outcome = run_program(program, progress)
    except InputError as error:
        raise type(error)(f"{experiment.document.source}: {error}") from None
    except OverflowError:
        raise InputError(
            f"{experiment.document.source}: the step takes longer than the clock counts ({_LONGEST_DAYS} days);"
            " use faster GPUs and links, shorter times or less work"
        ) from None
    trace = coarsened(from_outcome(program, outcome), experiment.granularity)
    facts = _facts(experiment, program)
    ranks = pd.DataFrame({"rank": np.arange(len(program.simulated_as)), "simulated_as": program.simulated_as})
    summary = summarize(trace, facts, outcome.events, time.perf_counter() - begin)
    summary["symmetry_broken_by"] = list(program.apart)
    return Run(experiment, trace, link_totals(trace, facts), ranks, summary)


def title(experiment: Experiment) -> str:
    grid = experiment.grid
    named = ("data", "pipeline", "context", "expert", "tensor")
    degrees = ", ".join(f"{name} {getattr(grid, name)}" for name in named if getattr(grid, name) > 1)
    batches = f"{experiment.micro_batches} micro-batches"
    parts = [experiment.model.name, experiment.cluster.name, degrees or "1 GPU", batches]
    return f"{experiment.strategy.name}: {', '.join(parts)}"


def write_run(run: Run, folder: Path) -> list[Path]:
    """The tables, with ``link_totals.parquet`` and ``ranks.parquet``, ``summary.json``, ``manifest.json``; the paths.

    The picture is drawn by :mod:`clustersim.plots`.
    """
    tables = {"link_totals": run.links, "ranks": run.ranks}
    documents = {"summary.json": run.summary, "manifest.json": manifest(run.experiment)}
    texts = {name: json.dumps(content, indent=2, sort_keys=name == "manifest.json") + "\n" for name, content in documents.items()}
    return write_all(
        trace_writers(run.trace, folder)
        | {folder / f"{name}.parquet": table_writer(table) for name, table in tables.items()}
        | {folder / name: text_writer(text) for name, text in texts.items()}
    )


def release() -> str:
    """The version of the product."""
    try:
        return version("clustersim")
    except PackageNotFoundError:
        return "not installed"


def manifest(experiment: Experiment) -> dict[str, Any]:
    """What is needed to run it again: the inputs with all overrides in, the version, and the seed of the noise where there is any."""
    return {
        "experiment": experiment.document.source,
        "inputs": experiment.document.data,
        "title": title(experiment),
        "version": release(),
        "seed": experiment.variability.seed if experiment.variability.jitter else None,
    }


def _executed_flops(experiment: Experiment, program: Program) -> float:
    """FLOP of all ranks in a step, recomputation included: those of the ops, or of the model where times were given."""
    if isinstance(experiment.cost, FixedCost):
        return float(hardware_flops(experiment.model, experiment.global_batch, experiment.sequence, experiment.recompute))
    stands_for = np.bincount(program.simulated_as, minlength=int(program.rank.max(initial=0)) + 1)
    return float(program.flops @ stands_for[program.rank]) / experiment.schedule.steps


def _above_diagonal(experiment: Experiment) -> float:
    """FLOP of a step, recomputation included, that a causal mask leaves out."""
    work = experiment.model, experiment.global_batch, experiment.sequence, experiment.recompute
    return float(hardware_flops(*work) - hardware_flops(*work, causal=True))


def _facts(experiment: Experiment, program: Program) -> StepFacts:
    model, batch, sequence = experiment.model, experiment.global_batch, experiment.sequence
    gpu, links, calibration = experiment.cluster.gpu, program.links, experiment.calibration
    fixed, unused = isinstance(experiment.cost, FixedCost), calibration.software.memory.unused if calibration else 0.0
    return StepFacts(
        multiplicity=program.multiplicity,
        tokens=batch * sequence,
        model_flops=float(model_flops(model, batch, sequence)),
        hardware_flops=_executed_flops(experiment, program),
        model_flops_causal=float(model_flops(model, batch, sequence, causal=True)),
        hardware_flops_causal=_executed_flops(experiment, program) - _above_diagonal(experiment),
        peak_flop_s=None if fixed else gpu.peak_flop_s[experiment.precision],
        memory=Capacity(gpu.memory_bytes, gpu.usable_memory_bytes, reserve_bytes(experiment), unused),
        link_kinds=dict(zip(links.names, links.kinds, strict=True)),
        link_capacities_bytes_s=dict(zip(links.names, links.capacities_bytes_s, strict=True)),
        link_bytes=dict(zip(links.names, program.link_bytes(), strict=True)),
        steps=experiment.schedule.steps,
        passes=experiment.schedule.passes,
        link_multiplicity=dict(zip(links.names, links.multiplicity, strict=True)),
    )
