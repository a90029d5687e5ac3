"""From an experiment to its program: costs, payloads, lowering, placement on the cluster."""

from __future__ import annotations

from clustersim.experiment import Experiment, FixedCost
from clustersim.model.flops import head_forward_flops, layer_forward_flops
from clustersim.model.memory import state_bytes
from clustersim.model.spec import parameters_per_rank
from clustersim.program.costs import Costs, computed_costs, fixed_costs
from clustersim.program.instantiate import instantiate
from clustersim.program.lower import lower
from clustersim.program.program import Program
from clustersim.program.traffic import Traffic


def build_program(experiment: Experiment, fold: bool = True) -> Program:
    """What the engine runs; with ``fold`` plainly identical replicas are simulated once.

    InputError when the job is too large.
    """
    template = lower(
        experiment.schedule, experiment.strategy, build_costs(experiment), build_traffic(experiment), experiment.grid.data
    )
    return instantiate(template, experiment.grid, experiment.cluster, experiment.collectives, fold)


def build_costs(experiment: Experiment) -> Costs:
    """Times of one layer and pass (a micro-batch, or a slice of one) on one rank."""
    cost, tensor, slices = experiment.cost, experiment.grid.tensor, experiment.schedule.slices
    if isinstance(cost, FixedCost):
        forward, backward, input_, weight = (
            time_s / slices for time_s in (cost.forward_s, cost.backward_s, cost.input_s, cost.weight_s)
        )
        return fixed_costs(forward, backward, input_, weight, cost.reduce_s, cost.gather_s, tensor)
    gpu = experiment.cluster.gpu
    efficiency = 1.0 if cost == "peak" else gpu.efficiency
    layer = layer_forward_flops(experiment.model, experiment.micro_batch, experiment.sequence)
    return computed_costs(
        attention=layer.attention / tensor / slices,
        core=layer.attention_core / tensor / slices,
        mlp=layer.mlp / tensor / slices,
        head=head_forward_flops(experiment.model, experiment.micro_batch, experiment.sequence) / tensor / slices,
        recompute=experiment.recompute,
        tensor=tensor,
        flop_s=gpu.peak_flop_s[experiment.precision] * efficiency,
    )


def build_traffic(experiment: Experiment) -> Traffic:
    """Payloads of one rank: b s h elements between layers, the embedding with the first layer, the head with the last.

    With scatter-gather 1/t of the elements go to the next stage (arXiv 2104.04473, section 4.1).
    """
    element = state_bytes(experiment.precision).weights
    activation = -(-experiment.micro_batch * experiment.sequence * experiment.model.hidden * element // experiment.schedule.slices)
    message = -(-activation // experiment.grid.tensor) if experiment.strategy.scatter_gather else activation
    return Traffic(activation, message, tuple(element * count for count in rank_layer_parameters(experiment)))


def rank_layer_parameters(experiment: Experiment) -> list[int]:
    """Parameters that one tensor rank holds with each layer.

    A tied output matrix is held a second time where the last layer is not on the rank of the first.
    """
    piece = parameters_per_rank(experiment.model, experiment.grid.tensor)
    counts = [piece.layer] * experiment.model.layers
    counts[0] += piece.embedding
    tied_copy = piece.tokens if experiment.model.tied and experiment.grid.pipeline > 1 else 0
    counts[-1] += piece.final_norm + piece.head + tied_copy
    return counts
