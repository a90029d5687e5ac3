"""What is timed of a simulated experiment: its step, or one layer of it."""

from __future__ import annotations

from clustersim.experiment import Experiment
from clustersim.simulation import simulate
from clustersim.units import PS_PER_S

STEP, LAYER_FORWARD, LAYER_BACKWARD = "step", "layer_forward", "layer_backward"
QUANTITIES = (STEP, LAYER_FORWARD, LAYER_BACKWARD)
_LEAST_LAYERS = 3


def times_s(experiment: Experiment, quantity: str) -> dict[str, float]:
    """Seconds by quantity, the one asked for and what comes with it."""
    if quantity == STEP:
        return {STEP: simulate(experiment).summary["step_time_s"]}
    return middle_layer_s(experiment)


def middle_layer_s(experiment: Experiment) -> dict[str, float]:
    """``layer_forward`` and ``layer_backward`` of the second layer, with its collectives and its recompute.

    From its first op to the first of the layer that follows. InputError where it has no neighbours on its rank, or there is more than
    one pass through it.
    """
    check_layers(experiment)
    ops = simulate(experiment).trace.ops
    ops = ops[ops["stream"] == "compute"]
    forward = ops["kind"] == "forward"
    ways = (ops[forward], ops[~forward & (ops["kind"] != "optimizer")])
    up, down = (way.groupby("layer", observed=True)["start_ps"].min() for way in ways)
    return {LAYER_FORWARD: float(up[2] - up[1]) / PS_PER_S, LAYER_BACKWARD: float(down[0] - down[1]) / PS_PER_S}


def check_layers(experiment: Experiment) -> None:
    """InputError when no layer can be timed."""
    read = experiment.document
    if experiment.model.layers < _LEAST_LAYERS:
        read.error("model", f"{experiment.model.layers} layers; allowed for the time of one: {_LEAST_LAYERS} or more")
    if experiment.grid.pipeline > 1:
        read.error("parallel.pipeline", f"{experiment.grid.pipeline} stages; allowed for the time of one layer: 1")
    if experiment.micro_batches * experiment.schedule.steps > 1:
        read.error("batch.global", f"{experiment.micro_batches} micro-batches; allowed for the time of one layer: 1, in one step")
    if experiment.granularity != "kernel":
        read.error("granularity", f"{experiment.granularity}; allowed for the time of one layer: kernel")
