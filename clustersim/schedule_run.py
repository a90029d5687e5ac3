"""A schedule alone: at given times of a pass through a rank, without model and network.

>>> figures = measure("gpipe", p=4, v=None, m=8, times=Times())
>>> figures.makespan_s, round(figures.bubble_of_total, 6), figures.peak_in_flight
(33.0, 0.272727, (8, 8, 8, 8))
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clustersim.analysis.ranks import rank_times
from clustersim.cluster.load import load_cluster
from clustersim.engine.simulate import simulate
from clustersim.program.costs import Costs, fixed_layer
from clustersim.program.grid import Grid
from clustersim.program.instantiate import instantiate
from clustersim.program.lower import lower
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.strategy import PRESETS, build_named
from clustersim.trace.trace import Trace, from_outcome
from clustersim.units import PS_PER_S, to_ps


@dataclass(frozen=True)
class Times:
    """Seconds of one micro-batch through all stages of a rank, and between two ranks, which does not block the sender."""

    forward_s: float = 1.0
    backward_s: float = 2.0
    input_s: float = 1.0
    weight_s: float = 1.0
    delay_s: float = 0.0


@dataclass(frozen=True)
class Figures:
    """A schedule at given times: a step by itself, and what a further step adds where nothing is done between (``steady_s``).

    ``flushes``: whether a step ends before the next begins; where not, ``makespan_s`` and the bubbles are of a step among others.
    ``peak_in_flight`` by rank, in forwards of one stage (a slice each, where there are slices). ``peak_activations`` is the most of
    any rank, in micro-batches through all stages of a rank; ``weights`` the copies of its share of the weights that a rank
    holds; ``pipeline_messages`` are those between ranks in a step, ``pipeline_traffic`` the same in whole micro-batches.
    """

    name: str
    p: int
    v: int
    m: int
    makespan_s: float
    steady_s: float
    flushes: bool
    bubble_of_total: float
    bubble_of_ideal: float
    peak_in_flight: tuple[int, ...]
    peak_activations: float
    weights: int
    pipeline_messages: int
    pipeline_traffic: float


def run_alone(schedule: Schedule, times: Times) -> Trace:
    """The trace of a schedule, each stage taking its part of a rank's time. A pair that runs as one takes a forward and a backward."""
    parts = schedule.stages / schedule.ranks * schedule.slices
    passes = (time / parts for time in (times.forward_s, times.backward_s, times.input_s, times.weight_s))
    layer = fixed_layer(*passes, halves=False)
    nothing = dict.fromkeys(layer, ())
    costs = Costs((layer,) * schedule.stages, nothing, nothing, reduce_ps=0, gather_ps=0)
    traffic = Traffic(message_bytes=1, layer_bytes=(1,) * schedule.stages)
    p = schedule.ranks
    cluster = load_cluster(
        "ideal", gpus=p, nodes=None, overrides={}, near=Path(), place="schedule", link_delay_ps=to_ps(times.delay_s)
    )
    strategy = PRESETS["standard"]  # there is no data-parallel traffic whose timing would matter
    stages, grid = [range(stage, stage + 1) for stage in range(schedule.stages)], Grid(tensor=1, data=1, pipeline=p)
    program = instantiate(lower(schedule, strategy, stages, costs, traffic, grid), grid, cluster)
    return from_outcome(program, simulate(program))


def measure(name: str, p: int, v: int | None, m: int, times: Times) -> Figures:
    """Figures of a schedule of the catalogue. ValueError, with the reason, when it cannot have these numbers."""
    schedule = build_named(name, p, v, m)
    trace = run_alone(schedule, times)
    busy_ps = float(rank_times(trace)["compute_ps"].mean())
    if not busy_ps:
        raise ValueError("the passes take no time; allowed: a forward or backward of more than 0 s")
    two, three = (run_alone(build_named(name, p, v, m, steps), times).makespan_ps for steps in (2, 3))
    makespan_ps = trace.makespan_ps if schedule.flushes else three - two
    messages = int((trace.ops["kind"] == "send").sum())
    in_flight = most_in_flight(schedule)
    return Figures(
        name=name,
        p=p,
        v=schedule.chunks,
        m=m,
        makespan_s=makespan_ps / PS_PER_S,
        steady_s=(three - two) / PS_PER_S,
        flushes=schedule.flushes,
        bubble_of_total=1 - busy_ps / makespan_ps,
        bubble_of_ideal=makespan_ps / busy_ps - 1,
        peak_in_flight=in_flight,
        peak_activations=max(in_flight) * p / schedule.stages / schedule.slices,
        weights=schedule.pipes if schedule.flushes else 2,
        pipeline_messages=messages,
        pipeline_traffic=messages / schedule.slices,
    )
