"""A strategy: where the stages lie, in which order they run, when data-parallel traffic goes. Every name is a preset of the three.

>>> schedule = build(PRESETS["mpp"], layers=4, pipeline=2, micro_batches=2)
>>> schedule.placement, schedule.chunks
((0, 1, 0, 1), 2)
"""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.schedule.actions import Schedule, contiguous, modular
from clustersim.schedule.orders import ORDERS, SINGLE_STAGE_ORDERS

PLACEMENTS = {"contiguous": contiguous, "modular": modular}
TIMINGS = ("micro_batch", "layer")
PARTITIONS = ("none", "optimizer", "gradients", "parameters")


@dataclass(frozen=True)
class Strategy:
    """The three choices, and the options of the data-parallel traffic.

    ``timing`` says how often a layer's partitioned parameters are gathered and its gradients scattered: for every micro-batch,
    or once for all micro-batches that follow one another in that layer. ``chunks`` are the stages per rank, None for the order's own.
    ``prefetch`` is the number of layers whose parameters are gathered ahead of use. With ``scatter_gather`` each tensor rank
    sends its part of a pipeline message, and the receivers gather the whole.
    """

    name: str
    placement: str
    order: str
    timing: str
    chunks: int | None = None
    partition: str = "none"
    overlap: bool = True
    prefetch: int = 1
    scatter_gather: bool = False


PRESETS = {
    "standard": Strategy("standard", placement="contiguous", order="1f1b", timing="micro_batch"),
    "lga": Strategy("lga", placement="contiguous", order="layered", timing="layer"),
    "mpp": Strategy("mpp", placement="modular", order="layered", timing="layer"),
}


def chunks_of(strategy: Strategy, layers: int, pipeline: int) -> int:
    """Stages per rank: as asked, else one for 1F1B and GPipe, one layer a stage for the layered order."""
    if strategy.chunks is not None:
        return strategy.chunks
    return 1 if strategy.order in SINGLE_STAGE_ORDERS else max(1, layers // pipeline)


def build(strategy: Strategy, layers: int, pipeline: int, micro_batches: int) -> Schedule:
    """The schedule of a strategy. ValueError, with what is allowed, when the numbers do not fit it."""
    v = chunks_of(strategy, layers, pipeline)
    if strategy.order in SINGLE_STAGE_ORDERS and v != 1:
        raise ValueError(f"order {strategy.order} has one stage per rank, got chunks: {v}; allowed: chunks: 1, or order: layered")
    if layers % pipeline:
        raise ValueError(f"{layers} layers do not divide into {pipeline} pipeline stages{_divisors(layers, 'pipeline')}")
    if layers % (pipeline * v):
        per_rank = layers // pipeline
        raise ValueError(f"{per_rank} layers per rank do not divide into {v} chunks{_divisors(per_rank, 'chunks')}")
    placement = PLACEMENTS[strategy.placement](pipeline, v)
    return Schedule(strategy.name, micro_batches, placement, ORDERS[strategy.order](placement, micro_batches))


def _divisors(number: int, what: str) -> str:
    divisors = [str(d) for d in range(1, number + 1) if number % d == 0]
    return f"; allowed for {what}: {', '.join(divisors)}"
