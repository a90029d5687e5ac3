"""Where the planner looks: every way to lay a training out that its limits allow, and what saves memory where that is short.

>>> space = Space(layers=8, gpus=(1, 8), batch=(8, 8), tensor=(1, 2), strategies=("standard", "mpp"), micro=(1,))
>>> len(list(roots(space)))
65
>>> first = next(roots(space))
>>> [(one.recompute, one.partition) for one in savers(first, space)]
[('selective', 'none')]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import PIPES
from clustersim.schedule.strategy import PRESETS, Strategy


@dataclass(frozen=True)
class Candidate:
    """One way to train: degrees, micro-batches (``micro`` sequences each, ``micro_batches`` a replica), strategy and its options."""

    data: int
    pipeline: int
    tensor: int
    context: int
    expert: int
    micro: int
    micro_batches: int
    strategy: str
    chunks: int
    sequence_parallel: bool
    partition: str = "none"
    recompute: str = "none"
    offload: str = "none"

    @property
    def gpus(self) -> int:
        return self.data * self.pipeline * self.tensor * self.context

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.data * self.micro * self.micro_batches

    def sections(self) -> dict[str, Any]:
        """What it puts into an experiment, as the file has it."""
        degrees = {name: getattr(self, name) for name in ("data", "pipeline", "tensor", "context", "expert")}
        return {
            "parallel": {**degrees, "sequence_parallel": self.sequence_parallel},
            "strategy": {"name": self.strategy, "chunks": self.chunks, "partition": self.partition, "offload": self.offload},
            "batch": {"global": self.batch, "micro": self.micro},
            "recompute": self.recompute,
        }

    def assignments(self) -> dict[str, str]:
        """The same by path, as texts."""
        sections = self.sections()
        nested = {f"{name}.{key}": value for name in ("strategy", "parallel", "batch") for key, value in sections[name].items()}
        return {path: str(value).lower() for path, value in (nested | {"recompute": self.recompute}).items()}

    def __str__(self) -> str:
        degrees = [
            f"{name} {getattr(self, name)}" for name in ("data", "pipeline", "tensor", "context", "expert") if getattr(self, name) > 1
        ]
        return f"{self.strategy}, {' x '.join(degrees) or '1 GPU'}"


@dataclass(frozen=True)
class Space:
    """What may be combined. ``gpus`` and ``batch`` (sequences) are the least and the most. A pipeline stage fills whole nodes of ``node``
    GPUs, or divides one; a job inside one node, or one without a pipeline on all GPUs that there are, may leave GPUs of its last node idle.

    Of ``recompute`` and ``offload`` the first that fits in memory is taken, and gradients are partitioned only where the optimizer's
    state alone is not enough: the later ones save memory and are never faster. Without a pipeline one micro-batch leaves no order to
    choose, and only the first strategy is looked at, unless the best of ``each`` is wanted.
    """

    layers: int
    gpus: tuple[int, int]
    batch: tuple[int, int]
    node: int = 1
    tensor: tuple[int, ...] = (1,)
    pipeline: tuple[int, ...] | None = None
    data: tuple[int, ...] | None = None
    context: tuple[int, ...] = (1,)
    expert: tuple[int, ...] = (1,)
    micro: tuple[int, ...] = (1, 2, 4)
    strategies: tuple[str, ...] = ("standard", "interleaved-1f1b", "mpp")
    chunks: tuple[int, ...] | None = None
    partition: tuple[str, ...] = ("none", "optimizer", "gradients", "parameters")
    recompute: tuple[str, ...] = ("none", "selective", "full")
    offload: tuple[str, ...] = ("none",)
    sequence_parallel: tuple[bool, ...] = (True,)
    each: bool = False

    @property
    def pipelines(self) -> tuple[int, ...]:
        return self.pipeline or divisors(self.layers)


def roots(space: Space) -> Iterator[Candidate]:
    """All candidates that save no memory by recomputing and the like; :func:`savers` leads on from there.

    There are at least as many micro-batches as stages: with fewer, ranks idle that fewer stages would not need. The batch is the
    largest multiple of what the replicas take at a time.
    """
    for tensor in space.tensor:
        for context in space.context:
            for pipeline in space.pipelines:
                for micro in space.micro:
                    for expert in space.expert:
                        for data, micro_batches in _replicas(space, pipeline, tensor * context, micro, expert):
                            for parallel in space.sequence_parallel if tensor > 1 else (False,):
                                for strategy, chunks in _orders(space, pipeline, micro_batches):
                                    bare = Candidate(
                                        data, pipeline, tensor, context, expert, micro, micro_batches, strategy, chunks, parallel,
                                        recompute=space.recompute[0], offload=space.offload[0],
                                    )  # fmt: skip
                                    yield from _partitioned(bare, space)


def _replicas(space: Space, pipeline: int, others: int, micro: int, expert: int) -> Iterator[tuple[int, int]]:
    """Replicas, and micro-batches of each: for any number of micro-batches the most replicas, as fewer take as long for less.

    Where those do not fill nodes, the most that do as well.
    """
    low, high = (limit / (pipeline * others) for limit in space.gpus)
    seen: set[tuple[int, bool]] = set()
    for data in sorted(space.data or range(1, min(int(high), space.batch[1] // micro) + 1), reverse=True):
        count = space.batch[1] // (data * micro)
        stage = data * others
        allowed = low <= data <= high and data % expert == 0 and data * micro * count >= space.batch[0]
        whole = stage % space.node == 0 or space.node % stage == 0
        placed = whole or pipeline * stage <= space.node or (pipeline == 1 and stage == space.gpus[1])
        if allowed and placed and count >= pipeline and not {(count, True), (count, whole)} & seen:
            yield data, count
            seen.add((count, whole))


def _orders(space: Space, pipeline: int, micro_batches: int) -> Iterator[tuple[str, int]]:
    """Strategies and their chunks."""
    for strategy in space.strategies:
        found = chunks_of(space, PRESETS[strategy], pipeline)
        yield from ((strategy, chunks) for chunks in found)
        if found and pipeline == micro_batches == 1 and not space.each:
            return


def _partitioned(bare: Candidate, space: Space) -> Iterator[Candidate]:
    """State is divided over the copies of the model, where there are several."""
    if bare.data * bare.context == 1:
        yield bare
        return
    first = [name for name in space.partition if name != "gradients" or "optimizer" not in space.partition]
    yield from (replace(bare, partition=name) for name in first)


def chunks_of(space: Space, strategy: Strategy, pipeline: int) -> tuple[int, ...]:
    """Stages per rank that a strategy can have, down to one layer a stage. Schedules that loop over the ranks need several.

    >>> space = Space(96, (1, 8), (8, 8))
    >>> chunks_of(space, PRESETS["interleaved-1f1b"], 8), chunks_of(space, PRESETS["mpp"], 8), chunks_of(space, PRESETS["standard"], 8)
    ((2, 3, 4, 6, 12), (12,), (1,))
    """
    own, pipes = ORDERS[strategy.order].chunks, PIPES.get(strategy.placement, 1)
    if space.layers % pipeline or (pipeline == 1 and own is not None and own > 1):
        return ()
    of_rank = space.layers // pipeline
    if own is None:
        return (of_rank,)
    fixed = own == 1 or strategy.placement != "modular"
    wanted = (own,) if fixed else space.chunks or divisors(of_rank)[1:]
    return tuple(chunks for chunks in wanted if of_rank * pipes % chunks == 0)


def savers(candidate: Candidate, space: Space) -> list[Candidate]:
    """The candidates that do one thing more to save memory."""
    changes: list[dict[str, Any]] = [
        {name: following}
        for name, choices in (("recompute", space.recompute), ("offload", space.offload))
        if (following := _following(choices, getattr(candidate, name))) is not None
    ]
    found = [replace(candidate, **change) for change in changes]
    if candidate.partition == "optimizer" and "gradients" in space.partition:
        found.append(replace(candidate, partition="gradients"))
    return found


def spenders(candidate: Candidate, space: Space) -> list[Candidate]:
    """The candidates that do one thing less: those of which this is one of the :func:`savers`."""
    changes: list[dict[str, Any]] = [
        {name: choices[choices.index(own) - 1]}
        for name, choices in (("recompute", space.recompute), ("offload", space.offload))
        if (own := getattr(candidate, name)) != choices[0]
    ]
    found = [replace(candidate, **change) for change in changes]
    if candidate.partition == "gradients" and "optimizer" in space.partition:
        found.append(replace(candidate, partition="optimizer"))
    return found


def _following(choices: tuple[str, ...], own: str) -> str | None:
    place = choices.index(own) + 1
    return choices[place] if place < len(choices) else None


def divisors(number: int) -> tuple[int, ...]:
    """
    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    return tuple(d for d in range(1, number + 1) if number % d == 0)
