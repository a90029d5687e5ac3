"""The least memory that a candidate can need, from the sizes of one micro-batch and the state: no simulation.

The fullest rank holds its share of the state, what the forwards in flight keep, and what is there while a backward runs: what its layer
computes again, the layer's gathered weights and its gradients on their way, and on the last rank the logits. CUDA and NCCL come on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clustersim.experiment import Experiment, parse
from clustersim.model.memory import state_bytes
from clustersim.planner.facts import Facts
from clustersim.planner.space import Candidate, Space, roots
from clustersim.program.grid import Grid
from clustersim.program.memory import memory_sizes, rank_layer_parameters, reserve_bytes, state_of
from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import PIPES, PLACEMENTS
from clustersim.schedule.strategy import OPTIMIZER_AWAY, PRESETS
from clustersim.sweeps.points import Base, resolved

ACTIVATIONS_AWAY = ("activations", "all")
WHOLE_BACKWARDS = ("1f1b", "eager-1f1b", "interleaved-1f1b", "gpipe", "layered", "breadth-first", "hanayo")
"""Orders without weight gradients of their own, which nothing waits for and which need no gathered weights."""
_ALL_IN_FLIGHT = ("gpipe", "layered", "breadth-first")
_STATE = ("weights", "gradients", "optimizer")
_PARTED = {"none": (), "optimizer": ("optimizer",), "gradients": ("optimizer", "gradients"), "parameters": _STATE}


class Memory:
    """The least bytes that candidates need; what several have in common is computed once."""

    def __init__(self, base: Base) -> None:
        self.one = alone(base)
        self._sizes: dict[tuple[Any, ...], Sizes] = {}
        self._shares: dict[tuple[Any, ...], Shares | None] = {}
        self._cuda: dict[tuple[Any, ...], int] = {}

    def sizes(self, candidate: Candidate) -> Sizes:
        key = pass_key(candidate)
        if key not in self._sizes:
            self._sizes[key] = sizes_of(self.one, candidate)
        return self._sizes[key]

    def shares(self, candidate: Candidate) -> Shares | None:
        key = pipeline_key(candidate)
        if key not in self._shares:
            self._shares[key] = shares_of(self.sizes(candidate), candidate.strategy, candidate.pipeline, candidate.chunks)
        return self._shares[key]

    def needs_bytes(self, candidate: Candidate, facts: Facts | None = None) -> float:
        """With CUDA and NCCL."""
        degrees = candidate.tensor, candidate.context, candidate.data, candidate.expert
        key = *(degree > 1 for degree in degrees), min(candidate.pipeline, 3)  # which communicators there are
        if key not in self._cuda:
            self._cuda[key] = cuda_bytes(self.one, candidate)
        return memory_bound_bytes(self.sizes(candidate), self.shares(candidate), candidate, facts) + self._cuda[key]

    def least_bytes(self, space: Space) -> float:
        """Of all candidates of a space, whatever they do to save memory; infinite where there are none."""
        spaces = (replace(space, recompute=(recompute,), offload=space.offload[-1:]) for recompute in space.recompute)
        return min((self.needs_bytes(one) for each in spaces for one in roots(each)), default=math.inf)


def alone(base: Base) -> Experiment:
    """The whole model on one GPU with one micro-batch, from which the sizes of all candidates follow."""
    one = Candidate(1, 1, 1, 1, 1, 1, 1, "standard", 1, False)
    return parse(resolved(base, one.assignments()), base.near)


def pass_key(candidate: Candidate) -> tuple[Any, ...]:
    """What one micro-batch of a candidate depends on."""
    return candidate.tensor, candidate.context, candidate.expert, candidate.micro, candidate.recompute, candidate.sequence_parallel


@dataclass(frozen=True)
class Sizes:
    """Bytes of one micro-batch on one rank of a tensor, context and expert group that holds the whole model. Arrays are by layer.

    ``kept`` stays from the forward to the backward; ``working`` is the least that any layer has besides while its backward runs, ``head``
    what the logits take. ``dense`` and ``experts`` are parameters, of which each has bytes of ``state`` by kind, of ``gathered`` weights
    and of a ``reduced`` gradient. ``master``: gathered weights are cast from the optimizer's copy and have no part of their own; ``ahead``:
    they are gathered before the layer in front of theirs is done.
    """

    kept: np.ndarray
    working: int
    head: int
    dense: np.ndarray
    experts: np.ndarray
    state: Mapping[str, int]
    gathered: int
    reduced: int
    master: bool
    ahead: bool


def sizes_of(one: Experiment, candidate: Candidate) -> Sizes:
    """For the degrees of a candidate, from the same on one GPU (:func:`alone`)."""
    at = placed(one, candidate, data=candidate.expert, pipeline=1)
    memory, (state, reduced) = memory_sizes(at), state_of(at)
    dense, experts = (np.array(column, dtype=float) for column in zip(*rank_layer_parameters(at), strict=True))
    return Sizes(
        np.array(memory.kept_bytes, dtype=float), min(memory.working_bytes), memory.head_bytes + memory.loss_bytes, dense, experts,
        state._asdict(), state_bytes(at.precision).weights, reduced,
        at.calibration is not None and at.calibration.software.memory.gathers_master, at.strategy.overlap and at.strategy.prefetch > 0,
    )  # fmt: skip


def placed(one: Experiment, candidate: Candidate, data: int, pipeline: int) -> Experiment:
    """The sizes and costs of a rank follow from it; the schedule is still that of one GPU."""
    grid = Grid(candidate.tensor, data, pipeline, candidate.context, candidate.expert)
    return replace(
        one, grid=grid, micro_batch=candidate.micro, recompute=candidate.recompute, sequence_parallel=candidate.sequence_parallel
    )


def layer_bytes(one: Experiment, candidate: Candidate) -> float:
    """What a rank holds at least of one micro-batch, which has a layer or more."""
    sizes = sizes_of(one, candidate)
    return sizes.working + (0.0 if candidate.offload in ACTIVATIONS_AWAY else float(sizes.kept.min()))


def cuda_bytes(one: Experiment, candidate: Candidate) -> int:
    """What CUDA and NCCL take of a GPU."""
    return reserve_bytes(placed(one, candidate, candidate.data, candidate.pipeline))


def pipeline_key(candidate: Candidate) -> tuple[Any, ...]:
    """What the stages of a candidate depend on."""
    return *pass_key(candidate), candidate.strategy, candidate.pipeline, candidate.chunks


@dataclass(frozen=True)
class Shares:
    """By rank of a pipeline: parameters, and bytes that a micro-batch keeps in all of its chunks, in the smallest, in the largest layer.

    ``last`` is the rank of the last stage.
    """

    dense: np.ndarray
    experts: np.ndarray
    kept: np.ndarray
    least_chunk: np.ndarray
    largest_layer: np.ndarray
    last: int


def shares_of(sizes: Sizes, strategy: str, pipeline: int, chunks: int) -> Shares | None:
    """None where micro-batches take two ways, the model being on the ranks twice, or travel in slices."""
    preset = PRESETS[strategy]
    if preset.placement in PIPES or ORDERS[preset.order].slices > 1:
        return None
    rank = np.array(PLACEMENTS[preset.placement](pipeline, chunks))
    by_stage = sizes.kept.reshape(len(rank), -1)
    stage_kept, stage_largest = by_stage.sum(axis=1), by_stage.max(axis=1)
    least, largest = np.full(pipeline, np.inf), np.zeros(pipeline)
    np.minimum.at(least, rank, stage_kept)
    np.maximum.at(largest, rank, stage_largest)
    dense, experts = (np.bincount(rank, each.reshape(len(rank), -1).sum(axis=1)) for each in (sizes.dense, sizes.experts))
    return Shares(dense, experts, np.bincount(rank, stage_kept), least, largest, int(rank[-1]))


def memory_bound_bytes(sizes: Sizes, shares: Shares | None, candidate: Candidate, facts: Facts | None = None) -> float:
    """No rank that is the fullest holds less: see the head of this file, without CUDA and NCCL.

    Without ``facts`` in flight is what the order is known to have at least.
    """
    if shares is None:
        return _state_bytes(sizes, candidate, sizes.dense.sum(), sizes.experts.sum()) / candidate.pipeline
    held = _state_bytes(sizes, candidate, shares.dense, shares.experts)
    gathered, reduced = _gathered_bytes(sizes, candidate), _reduced_bytes(sizes, candidate)
    order, m, last = PRESETS[candidate.strategy].order, candidate.micro_batches, shares.last
    beside = gathered + (reduced if order in WHOLE_BACKWARDS else 0.0)
    if candidate.offload in ACTIVATIONS_AWAY:
        return float(held.max() + beside.min() + sizes.working)
    first = shares.least_chunk[last]
    if order in _ALL_IN_FLIGHT:
        kept = m * shares.kept
        first = kept[last]
    elif facts is not None:
        kept = np.maximum(np.array(facts.in_flight) * shares.least_chunk, shares.kept)
    elif order == "1f1b":
        kept = np.minimum(m, candidate.pipeline - np.arange(candidate.pipeline)) * shares.kept
    else:
        kept = shares.kept
    # Before the first backward of all, of the last layer, no reduction holds up the gather of the rank's next layer.
    ahead = gathered.min() if sizes.ahead and candidate.pipeline < len(gathered) else 0.0
    at_first = held[last] + first + beside[-1] + ahead + max(sizes.head, sizes.working)
    return float(max((held + kept).max() + beside.min() + sizes.working, at_first))


def _state_bytes(sizes: Sizes, candidate: Candidate, dense: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """Of so many parameters: ZeRO divides the optimizer's state, then gradients, then weights over the copies of the model."""
    copies, parted = candidate.data * candidate.context, _PARTED[candidate.partition]
    divided = dense / copies + experts / (copies // candidate.expert)
    extra = sizes.state["gradients"] * divided if sizes.master and candidate.partition == "optimizer" else 0.0
    away = {"optimizer"} if candidate.offload in OPTIMIZER_AWAY else set()
    away |= {"weights"} if sizes.master and candidate.partition == "parameters" else set()
    return extra + sum(sizes.state[what] * (divided if what in parted else dense + experts) for what in _STATE if what not in away)


def _gathered_bytes(sizes: Sizes, candidate: Candidate) -> np.ndarray:
    """By layer its whole weights, where they are partitioned over several copies."""
    copies = candidate.data * candidate.context
    gathers = copies > 1 and candidate.partition == "parameters"
    return sizes.gathered * gathers * (sizes.dense + sizes.experts * (copies > candidate.expert))


def _reduced_bytes(sizes: Sizes, candidate: Candidate) -> np.ndarray:
    """By layer its whole gradients, where they are partitioned over several copies."""
    scatters = candidate.data * candidate.context > 1 and candidate.partition in ("gradients", "parameters")
    return sizes.reduced * scatters * (sizes.dense + sizes.experts)
