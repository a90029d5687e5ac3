"""What one layer and micro-batch costs on one rank: compute segments in picoseconds, from the model or fixed by the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clustersim.units import to_ps


class Segment(NamedTuple):
    """Compute without a break on one rank; ``all_reduce`` says whether a tensor-parallel all-reduce follows."""

    kind: str
    part: str
    duration_ps: int
    flops: float
    all_reduce: bool


@dataclass(frozen=True)
class Costs:
    """Segments of one layer and micro-batch: the forward, and the backward with its recompute first.

    ``head_forward`` and ``head_backward`` are the logits and the loss, after and before the last layer. ``reduce_ps`` and
    ``gather_ps`` fix the time of one layer's gradient reduction and parameter gather; None leaves it to the links.
    """

    forward: tuple[Segment, ...]
    backward: tuple[Segment, ...]
    head_forward: tuple[Segment, ...] = ()
    head_backward: tuple[Segment, ...] = ()
    reduce_ps: int | None = None
    gather_ps: int | None = None


def fixed_costs(forward_s: float, backward_s: float, reduce_s: float | None, gather_s: float | None, tensor: int) -> Costs:
    """Costs given as times; the backward includes any recompute. With tensor parallelism an all-reduce follows each half.

    >>> [s.duration_ps for s in fixed_costs(1e-12, 3e-12, None, None, tensor=2).backward]
    [1, 2]
    """

    def halves(kind: str, duration_ps: int, parts: tuple[str, str]) -> tuple[Segment, ...]:
        if tensor == 1:
            return (Segment(kind, "", duration_ps, 0.0, False),)
        half = duration_ps // 2
        return Segment(kind, parts[0], half, 0.0, True), Segment(kind, parts[1], duration_ps - half, 0.0, True)

    return Costs(
        forward=halves("forward", to_ps(forward_s), ("attention", "mlp")),
        backward=halves("backward", to_ps(backward_s), ("mlp", "attention")),
        reduce_ps=None if reduce_s is None else to_ps(reduce_s),
        gather_ps=None if gather_s is None else to_ps(gather_s),
    )


def computed_costs(
    attention: float, core: float, mlp: float, head: float, recompute: str, tensor: int, flop_s: float
) -> Costs:
    """Costs from the forward FLOPs of one rank (``attention`` includes its ``core``, the scores and the context), at ``flop_s``.

    The backward is twice the forward; ``recompute`` repeats the core (selective) or the layer, its all-reduces too (full).

    >>> [(s.kind, s.duration_ps) for s in computed_costs(3.0, 1.0, 2.0, 0.0, "full", 1, 1e12).backward]
    [('recompute', 5), ('backward', 10)]
    """

    def segment(kind: str, part: str, flops: float, all_reduce: bool) -> Segment:
        return Segment(kind, part, to_ps(flops / flop_s), flops, all_reduce)

    def layer(kind: str, factor: int, reverse: bool) -> tuple[Segment, ...]:
        if tensor == 1:
            return (segment(kind, "", factor * (attention + mlp), False),)
        parts = [segment(kind, "attention", factor * attention, True), segment(kind, "mlp", factor * mlp, True)]
        return tuple(reversed(parts) if reverse else parts)

    repeated = {
        "none": (),
        "selective": (segment("recompute", "core", core, False),),
        "full": layer("recompute", 1, reverse=False),
    }
    return Costs(
        forward=layer("forward", 1, reverse=False),
        backward=(*repeated[recompute], *layer("backward", 2, reverse=True)),
        head_forward=(segment("forward", "head", head, False),) if head else (),
        head_backward=(segment("backward", "head", 2 * head, False),) if head else (),
    )
