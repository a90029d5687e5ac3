"""Static memory of each pipeline rank: sizes that hold for the whole step, and the most activations in flight."""

from __future__ import annotations

from clustersim.experiment import Experiment
from clustersim.model.memory import head_activation_bytes, layer_activation_bytes, layer_working_bytes, state_bytes
from clustersim.program.build import rank_layer_parameters
from clustersim.schedule.actions import most_in_flight
from clustersim.schedule.strategy import parameter_buffers


def static_memory(experiment: Experiment) -> list[dict[str, int]]:
    """By pipeline rank: bytes of weights, gradients, optimizer state, parameter or gradient buffers, activations.

    Partitioning (ZeRO, arXiv 1910.02054) divides the optimizer's state, then the gradients, then the weights over the
    data-parallel ranks; whole layers are then held only in buffers. Activations are those of the most forwards in flight. Where
    steps run into each other without a flush, a second version of the weights is kept (PipeDream-2BW, arXiv 2006.09503).
    """
    model, schedule, strategy, data = experiment.model, experiment.schedule, experiment.strategy, experiment.grid.data
    tensor, micro_batch, sequence = experiment.grid.tensor, experiment.micro_batch, experiment.sequence
    state = state_bytes(experiment.precision)
    counts = rank_layer_parameters(experiment)
    per_stage = model.layers // schedule.stages
    kept = layer_activation_bytes(model, micro_batch, sequence, tensor, experiment.recompute, experiment.precision)
    working = 0
    if experiment.recompute == "full":
        working = layer_working_bytes(model, micro_batch, sequence, tensor, experiment.precision)
    head = head_activation_bytes(model, micro_batch, sequence, tensor, experiment.precision)

    def divided(size: int, *partitions: str) -> int:
        return -(-size // data) if strategy.partition in partitions else size

    reduced = per_stage if strategy.timing == "layer" else 1  # layers whose gradients add up at a time
    versions = 1 if schedule.flushes else 2
    ranks = []
    for rank, in_flight in enumerate(most_in_flight(schedule)):
        layers = [
            layer
            for stage, place in enumerate(schedule.placement)
            if place == rank
            for layer in range(stage % schedule.stages * per_stage, (stage % schedule.stages + 1) * per_stage)
        ]
        parameters = sum(counts[layer] for layer in layers)
        largest = max(counts[layer] for layer in layers)
        buffers = 0
        if data > 1 and strategy.partition == "parameters":
            held = min(len(layers), parameter_buffers(strategy, model.layers, schedule))
            buffers = largest * (held * state.weights + reduced * state.gradients)
        elif data > 1 and strategy.partition == "gradients":
            buffers = largest * reduced * state.gradients
        last = schedule.placement[-1] == rank
        ranks.append(
            {
                "weights": divided(versions * state.weights * parameters, "parameters"),
                "gradients": divided(state.gradients * parameters, "parameters", "gradients"),
                "optimizer": divided(state.optimizer * parameters, "parameters", "gradients", "optimizer"),
                "buffers": buffers,
                "activations": -(-in_flight * per_stage * kept // schedule.slices) + working + (head if last else 0),
            }
        )
    return ranks
