"""Sizes of what a rank holds, from the experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.compute.footprint import Footprint
from clustersim.experiment import Experiment
from clustersim.model.memory import (
    LOGIT_BYTES,
    MASK_BYTES,
    NEEDED,
    Kept,
    StateBytes,
    gradient_bytes,
    head_activation_bytes,
    layer_activation_bytes,
    state_bytes,
)
from clustersim.model.spec import Model, parameters_per_rank, share
from clustersim.program.memory_pass import Sizes
from clustersim.schedule.strategy import OPTIMIZER_AWAY


def memory_sizes(experiment: Experiment) -> Sizes:
    """Weights, gradients and optimizer's state by pipeline rank, and the activations of one pass.

    A slice of a micro-batch, and a context rank, have their part of the activations. Where kernels are not known (no calibration) they are
    those of arXiv 2205.05198, with nothing beside what the backward needs.
    """
    pass_ = _Pass(experiment)
    return Sizes(
        state=[_state(experiment, rank) for rank in range(experiment.schedule.ranks)],
        kept_bytes=_kept_bytes(experiment, pass_),
        working_bytes=pass_.by_layer(pass_.working),
        head_bytes=pass_.head(pass_.footprint.logits_kept_bytes if pass_.footprint else LOGIT_BYTES),
        loss_bytes=pass_.loss(),
        keeps_working=experiment.strategy.keep_recomputed,
    )


@dataclass(frozen=True)
class _Pass:
    """Bytes of one pass on one rank."""

    experiment: Experiment

    @property
    def footprint(self) -> Footprint | None:
        return self.experiment.calibration.software.memory if self.experiment.calibration else None

    @property
    def _shape(self) -> tuple[Model, int, int, int]:
        return self.experiment.model, self.experiment.micro_batch, self.experiment.sequence, self.experiment.grid.tensor

    @property
    def _kernels(self) -> Kept:
        if self.experiment.calibration is None:
            return NEEDED
        software = self.experiment.calibration.software
        flash, products = software.attention == "flash", software.selective == "products"
        return Kept(flash, products, software.memory.keeps_outputs, software.memory.keeps_gathered)

    def part(self, size_bytes: int) -> int:
        """Of a micro-batch the part of a slice on a context rank."""
        return -(-size_bytes // (self.experiment.schedule.slices * self.experiment.grid.context))

    def by_layer(self, size: Callable[[bool], int]) -> tuple[int, ...]:
        of_kind, model = {moe: size(moe) for moe in (False, True)}, self.experiment.model
        return tuple(of_kind[model.is_moe(layer)] for layer in range(model.layers))

    def kept(self, moe: bool) -> int:
        return self.part(self._layer(self.experiment.recompute, moe))

    def working(self, moe: bool) -> int:
        """What a backward has beside what was kept: what it computes again and, where kernels are known, gradients."""
        experiment = self.experiment
        if self.footprint is None:
            return self.part(self._layer("none", moe)) if experiment.recompute == "full" else 0
        again = max(0, self._layer("none", moe) - self._layer(experiment.recompute, moe))
        return self.part(again + gradient_bytes(*self._shape, experiment.precision, moe, self._kernels))

    def hidden(self, element_bytes: int) -> int:
        """The hidden state with elements of this size."""
        experiment = self.experiment
        parts = experiment.grid.tensor if experiment.sequence_parallel else 1
        return self.part(element_bytes * share(experiment.micro_batch * experiment.sequence * experiment.model.hidden, parts))

    def head(self, logit_bytes: int) -> int:
        experiment = self.experiment
        given = experiment.precision, experiment.sequence_parallel, logit_bytes, self._kernels
        return self.part(head_activation_bytes(*self._shape, *given))

    def loss(self) -> int:
        """Copies of the logits that only the loss has.

        What a layer computes in stays beside them: logits are too large for the blocks that the allocator has free from it.
        """
        experiment = self.experiment
        if self.footprint is None or not experiment.model.vocab:
            return 0
        most = self.footprint.logits_parallel_bytes if experiment.grid.tensor > 1 else self.footprint.logits_most_bytes
        copies = self.head(most) - self.head(self.footprint.logits_kept_bytes)
        return copies + self.working(experiment.model.is_moe(experiment.model.layers - 1))

    def _layer(self, recompute: str, moe: bool) -> int:
        experiment = self.experiment
        return layer_activation_bytes(*self._shape, recompute, experiment.precision, experiment.sequence_parallel, moe, self._kernels)


def _kept_bytes(experiment: Experiment, pass_: _Pass) -> tuple[int, ...]:
    """By layer, from forward to backward. With the first goes the mask behind the embedding, with a stage's last what it has sent."""
    kept = list(pass_.by_layer(pass_.kept))
    if pass_.footprint is None:
        return tuple(kept)
    if experiment.model.dropout and experiment.model.vocab:
        kept[0] += pass_.hidden(MASK_BYTES)
    if pass_.footprint.keeps_sent and experiment.grid.pipeline > 1:
        for layers in experiment.stage_layers[:-1]:
            kept[layers[-1]] += pass_.hidden(state_bytes(experiment.precision).weights)
    return tuple(kept)


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


def rank_layers(experiment: Experiment, rank: int) -> list[int]:
    """Layers that a pipeline rank holds; those of both copies of the model where there are two."""
    schedule = experiment.schedule
    stages = [stage % schedule.stages for stage, place in enumerate(schedule.placement) if place == rank]
    return [layer for stage in stages for layer in experiment.stage_layers[stage]]


def rank_parameters(experiment: Experiment, rank: int) -> tuple[int, int]:
    """Parameters that a tensor rank of a pipeline rank holds, and of routed experts; both copies of the model where there are two."""
    counts = rank_layer_parameters(experiment)
    held = [counts[layer] for layer in rank_layers(experiment, rank)]
    return sum(dense for dense, _ in held), sum(experts for _, experts in held)


def state_of(experiment: Experiment) -> tuple[StateBytes, int]:
    """Bytes of a parameter, and of its gradient on the way to the other copies: the software's, or those of the ZeRO paper."""
    if experiment.calibration:
        return experiment.calibration.software.memory.of(experiment.precision)
    state = state_bytes(experiment.precision)
    return state, state.gradients


def _state(experiment: Experiment, rank: int) -> dict[str, int]:
    """Bytes of the training state on a pipeline rank.

    Partitioning (ZeRO, arXiv 1910.02054) divides the optimizer's state, then the gradients, then the weights over the
    data-parallel ranks; whole layers are then held only in buffers. Weights that are cast from the optimizer's master as they are
    gathered have no part of their own (FSDP); where they stay gathered, gradients add up whole and are divided besides. Where steps
    run into each other without a flush, a second version of the weights is kept (PipeDream-2BW, arXiv 2006.09503).
    """
    partition, (state, _), (dense, experts) = experiment.strategy.partition, state_of(experiment), rank_parameters(experiment, rank)
    master = experiment.calibration is not None and experiment.calibration.software.memory.gathers_master
    versions = 1 if experiment.schedule.flushes else 2

    def divided(per_parameter: int, *partitions: str) -> int:
        if partition not in partitions:
            return per_parameter * (dense + experts)
        return -(-per_parameter * dense // experiment.grid.shards) - (-per_parameter * experts // experiment.grid.size("expert_data"))

    gradients = divided(state.gradients, "parameters", "gradients")
    if master and partition == "optimizer":
        gradients += divided(state.gradients, "optimizer")
    optimizer = divided(state.optimizer, "parameters", "gradients", "optimizer")
    return {
        "weights": 0 if master and partition == "parameters" else divided(state.weights * versions, "parameters"),
        "gradients": gradients,
        "optimizer": 0 if experiment.strategy.offload in OPTIMIZER_AWAY else optimizer,
    }


def reserve_bytes(experiment: Experiment) -> int:
    """What a GPU has in use outside of PyTorch's allocator: CUDA with its libraries, NCCL's communicators. 0 where software is not known.

    Communicators are of the whole job, of each kind of group that the rank is in, and of the rank with each neighbour in the pipeline.
    """
    if experiment.calibration is None:
        return 0
    footprint, grid = experiment.calibration.software.memory, experiment.grid
    groups = sum(grid.size(kind) > 1 for kind in ("tensor", "context", "data", "expert"))
    communicators = groups + min(2, grid.pipeline - 1) + (grid.ranks > 1)
    return footprint.context_bytes + footprint.communicator_bytes * communicators
