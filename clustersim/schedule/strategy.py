"""A strategy: where the stages lie, in which order they run, when data-parallel traffic goes. Every name is a preset of the three.

>>> schedule = build(PRESETS["mpp"], layers=4, pipeline=2, micro_batches=2)
>>> schedule.placement, schedule.chunks
((0, 1, 0, 1), 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType

from clustersim.schedule.actions import Action, Overlap, Schedule
from clustersim.schedule.catalogue import ORDERS, check_others, run_order
from clustersim.schedule.order import Order
from clustersim.schedule.placements import PIPES, PLACEMENTS

TIMINGS = ("micro_batch", "layer")
SENDS = ("asynchronous", "blocking")
OPTIMIZER_AWAY = ("optimizer", "all")
MOST_ACTIONS = 2_000_000
OFFLOADS = ("none", "activations", "optimizer", "all")
RECEIVES = ("early", "late")
PARTITIONS = ("none", "optimizer", "gradients", "parameters")


@dataclass(frozen=True)
class Strategy:
    """The three choices, and the options of the data-parallel traffic.

    ``timing`` says how often a layer's partitioned parameters are gathered and its gradients scattered: for every micro-batch,
    or once for all micro-batches that follow one another in that layer. ``chunks`` are the stages per rank, None for the order's own.
    ``prefetch`` is the number of layers whose parameters are gathered ahead of use. With ``scatter_gather`` each tensor rank
    sends its part of a pipeline message, and the receivers gather the whole. ``group`` and ``slices`` are options of some orders,
    None for the order's own. Without ``flushes`` the next step begins before this one has drained. ``sends`` and ``receives`` say
    whether compute waits for a send, and when a receive is posted. A backward in two parts recomputes twice, unless it is kept.
    ``stages`` are the layers of each, None for equal ones. ``partition_group`` neighbouring copies (or those of a ``node``) divide the
    partitioned state, None for all. Gradients are reduced in buckets of ``bucket_bytes``, None for layer by layer. With
    ``async_tensor`` tensor-parallel collectives run beside the products that they serve. ``offload`` says what lies in the memory of
    the host while it is not needed.
    """

    name: str
    placement: str
    order: str
    timing: str = "layer"
    chunks: int | None = None
    partition: str = "none"
    overlap: bool = True
    prefetch: int = 1
    scatter_gather: bool = False
    group: int | None = None
    slices: int | None = None
    flushes: bool = True
    sends: str = "asynchronous"
    receives: str = "early"
    keep_recomputed: bool = False
    stages: tuple[int, ...] | None = None
    partition_group: int | str | None = None
    bucket_bytes: int | None = None
    async_tensor: bool = False
    offload: str = "none"


def _presets() -> dict[str, Strategy]:
    presets = [
        Strategy("standard", "contiguous", "1f1b", timing="micro_batch"),
        Strategy("lga", "contiguous", "layered"),
        Strategy("mpp", "modular", "layered"),
        *(Strategy(name, order.placement, name) for name, order in ORDERS.items() if name != "layered"),
        Strategy("pipedream-2bw", "contiguous", "1f1b", flushes=False),
    ]
    return {preset.name: preset for preset in presets}


PRESETS = MappingProxyType(_presets())


def chunks_of(strategy: Strategy, layers: int, pipeline: int) -> int:
    """Stages per rank: as asked, else the order's own, which for the layered order is one layer a stage."""
    if strategy.chunks is not None:
        return strategy.chunks
    own = ORDERS[strategy.order].chunks
    if strategy.stages is not None and own is None:
        return max(1, len(strategy.stages) // pipeline)
    return max(1, layers // pipeline) if own is None else own


def build(strategy: Strategy, layers: int, pipeline: int, micro_batches: int, steps: int = 1) -> Schedule:
    """The schedule of a strategy. ValueError, with what is allowed, when the numbers do not fit it."""
    v, order = chunks_of(strategy, layers, pipeline), ORDERS[strategy.order]
    pipes = PIPES.get(strategy.placement, 1)
    _check_division(strategy.stages, layers, pipeline, v, pipes)
    if PIPES.get(order.placement, 1) != pipes:
        raise ValueError(f"order {strategy.order} does not take its stages so; allowed: placement: {order.placement}")
    placement = PLACEMENTS[strategy.placement](pipeline, v)
    options, slices = _options(strategy, order)
    work = len(placement) * (micro_batches * slices + pipeline)
    if work > MOST_ACTIONS:
        raise ValueError(
            f"{len(placement):,} stages and {micro_batches * slices:,} micro-batches or slices are too many to lay out; allowed: stages x"
            f" (micro-batches + ranks) up to {MOST_ACTIONS:,}"
        )
    if strategy.flushes:
        schedule = Schedule(
            strategy.name, micro_batches, placement, run_order(strategy.order, placement, micro_batches, options), pipes, slices
        )
        check_others(strategy.order, schedule)
        return repeated(schedule, steps)
    actions = run_order(strategy.order, placement, micro_batches * steps, options)
    return Schedule(strategy.name, micro_batches, placement, actions, pipes, slices, flushes=False, steps=steps)


def repeated(schedule: Schedule, steps: int) -> Schedule:
    """A schedule of one step several times over, the micro-batches numbered on.

    >>> [str(action) for action in repeated(build_named("gpipe", 1, 1, 1), 2).actions[0]]
    ['0F0', '0B0', '0F1', '0B1']
    """
    rows = tuple(tuple(_later(one, step * schedule.passes) for step in range(steps) for one in row) for row in schedule.actions)
    return replace(schedule, actions=rows, steps=steps)


def _later(one: Action | Overlap, passes: int) -> Action | Overlap:
    if isinstance(one, Overlap):
        forward, backward = (action._replace(micro_batch=action.micro_batch + passes) for action in one)
        return Overlap(forward, backward)
    return one._replace(micro_batch=one.micro_batch + passes)


def stage_layers(strategy: Strategy, schedule: Schedule, layers: int) -> tuple[range, ...]:
    """The layers of each stage, first to last.

    >>> stage_layers(PRESETS["1f1b"], build_named("1f1b", 2, 1, 4), 6)
    (range(0, 3), range(3, 6))
    """
    sizes = strategy.stages or (layers // schedule.stages,) * schedule.stages
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


def _check_division(stages: tuple[int, ...] | None, layers: int, pipeline: int, v: int, pipes: int) -> None:
    if stages is not None:
        if len(stages) * pipes != pipeline * v:
            needed = pipeline * v // pipes
            raise ValueError(f"stages names {len(stages)}, but {pipeline} ranks with chunks: {v} have {needed}; allowed: so many")
        if sum(stages) != layers:
            raise ValueError(f"stages have {sum(stages)} layers in all, the model {layers}; allowed: as many")
        return
    if layers % pipeline:
        allowed = f"{_divisors(layers, 'pipeline')}, or strategy.stages"
        raise ValueError(f"{layers} layers do not divide into {pipeline} pipeline stages{allowed}")
    if layers * pipes % (pipeline * v):
        per_rank = layers * pipes // pipeline
        raise ValueError(f"{per_rank} layers per rank do not divide into {v} chunks{_divisors(per_rank, 'chunks')}, or strategy.stages")


def build_named(name: str, p: int, v: int | None, m: int, steps: int = 1) -> Schedule:
    """A preset for ``p`` ranks with ``v`` stages each (None: its own number, 2 where it has none), one layer a stage.

    ValueError, with what is allowed, when it cannot have these numbers.

    >>> build_named("interleaved-1f1b", 2, None, 4).placement
    (0, 1, 0, 1)
    """
    strategy = PRESETS[name]
    chunks = v or ORDERS[strategy.order].chunks or 2
    pipes = PIPES.get(strategy.placement, 1)
    if chunks % pipes:
        raise ValueError(f"chunks: {chunks} on {pipes} copies of the model; allowed: a multiple of {pipes}")
    return build(replace(strategy, chunks=chunks), p * chunks // pipes, p, m, steps)


def parameter_buffers(strategy: Strategy, layers: Sequence[range]) -> int:
    """Layers whose whole parameters a rank holds at a time when they are partitioned: those in use, and those gathered ahead.

    One is in use; where one gather serves several micro-batches, all ``layers`` of a stage are.
    """
    in_use = max(map(len, layers)) if strategy.timing == "layer" else 1
    return in_use + (strategy.prefetch if strategy.overlap else 0)


def slices_of(strategy: Strategy) -> int:
    """Slices of a micro-batch's sequence."""
    if strategy.slices is not None or strategy.order not in ORDERS:
        return strategy.slices or 1
    return ORDERS[strategy.order].slices


def _options(strategy: Strategy, order: Order) -> tuple[dict[str, int], int]:
    """The options that the order takes, and the slices of a micro-batch."""
    given = {"group": strategy.group, "slices": strategy.slices}
    for key, value in given.items():
        if value is not None and key not in order.options:
            having = ", ".join(name for name, one in ORDERS.items() if key in one.options)
            raise ValueError(f"order {strategy.order} has no {key}; allowed with order: {having}")
    slices = given["slices"] = slices_of(strategy)
    return {key: value for key, value in given.items() if value is not None and key in order.options}, slices


def _divisors(number: int, what: str) -> str:
    divisors = [str(d) for d in range(1, number + 1) if number % d == 0]
    return f"; allowed for {what}: {', '.join(divisors)}"
