"""Sizes of what a rank holds, from the experiment."""

from __future__ import annotations

from clustersim.experiment import Experiment
from clustersim.model.memory import head_activation_bytes, layer_activation_bytes, layer_working_bytes, state_bytes
from clustersim.model.spec import parameters_per_rank
from clustersim.program.memory_pass import Sizes
from clustersim.schedule.strategy import OPTIMIZER_AWAY


def memory_sizes(experiment: Experiment) -> Sizes:
    """Weights, gradients and optimizer's state by pipeline rank, and the activations of one pass.

    A slice of a micro-batch, and a context rank, have their part of the activations.
    """
    shape = experiment.model, experiment.micro_batch, experiment.sequence, experiment.grid.tensor
    precision, recompute = experiment.precision, experiment.recompute

    def of_a_pass(size_bytes: int) -> int:
        return -(-size_bytes // (experiment.schedule.slices * experiment.grid.context))

    parallel = experiment.sequence_parallel
    kept = {moe: of_a_pass(layer_activation_bytes(*shape, recompute, precision, parallel, moe)) for moe in (False, True)}
    working = {
        moe: of_a_pass(layer_working_bytes(*shape, precision, parallel, moe)) if recompute == "full" else 0 for moe in (False, True)
    }
    return Sizes(
        state=[_state(experiment, rank) for rank in range(experiment.schedule.ranks)],
        kept_bytes=tuple(kept[experiment.model.is_moe(layer)] for layer in range(experiment.model.layers)),
        working_bytes=tuple(working[experiment.model.is_moe(layer)] for layer in range(experiment.model.layers)),
        head_bytes=of_a_pass(head_activation_bytes(*shape, precision)),
        keeps_working=experiment.strategy.keep_recomputed,
    )


def rank_layer_parameters(experiment: Experiment) -> list[tuple[int, int]]:
    """Parameters that one tensor rank holds with each layer, and of its routed experts.

    A tied output matrix is held a second time where the last layer is not on the rank of the first.
    """
    model = experiment.model
    piece = parameters_per_rank(model, experiment.grid.tensor, experiment.grid.expert)
    counts = [piece.moe_layer if model.is_moe(layer) else piece.layer for layer in range(model.layers)]
    counts[0] += piece.embedding
    placement, last = experiment.schedule.placement, experiment.schedule.stages - 1
    tied_copy = piece.tokens if model.tied and placement[0] != placement[last] else 0
    counts[-1] += piece.final_norm + piece.head + tied_copy
    return [(count, piece.experts if model.is_moe(layer) else 0) for layer, count in enumerate(counts)]


def rank_parameters(experiment: Experiment, rank: int) -> tuple[int, int]:
    """Parameters that a tensor rank of a pipeline rank holds, and of routed experts; both copies of the model where there are two."""
    counts, schedule = rank_layer_parameters(experiment), experiment.schedule
    stages = [stage % schedule.stages for stage, place in enumerate(schedule.placement) if place == rank]
    held = [counts[layer] for stage in stages for layer in experiment.stage_layers[stage]]
    return sum(dense for dense, _ in held), sum(experts for _, experts in held)


def _state(experiment: Experiment, rank: int) -> dict[str, int]:
    """Bytes of the training state on a pipeline rank.

    Partitioning (ZeRO, arXiv 1910.02054) divides the optimizer's state, then the gradients, then the weights over the
    data-parallel ranks; whole layers are then held only in buffers. Where steps run into each other without a flush, a second
    version of the weights is kept (PipeDream-2BW, arXiv 2006.09503).
    """
    partition, state, (dense, experts) = experiment.strategy.partition, state_bytes(experiment.precision), rank_parameters(experiment, rank)

    def divided(per_parameter: int, *partitions: str) -> int:
        if partition not in partitions:
            return per_parameter * (dense + experts)
        return -(-per_parameter * dense // experiment.grid.shards) - (-per_parameter * experts // experiment.grid.size("expert_data"))

    return {
        "weights": divided(state.weights * (1 if experiment.schedule.flushes else 2), "parameters"),
        "gradients": divided(state.gradients, "parameters", "gradients"),
        "optimizer": 0 if experiment.strategy.offload in OPTIMIZER_AWAY else divided(state.optimizer, "parameters", "gradients", "optimizer"),
    }
