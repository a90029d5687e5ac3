"""What one layer and pass costs on one rank: compute segments in picoseconds, from the model or fixed by the user."""

from __future__ import annotations

from collections.abc import Mapping
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


Segments = tuple[Segment, ...]


@dataclass(frozen=True)
class Costs:
    """Segments of one layer by the kind of action, backwards with their recompute first, and of the logits and the loss.

    ``reduce_ps`` and ``gather_ps`` fix the time of one layer's gradient reduction and parameter gather; None leaves it to the links.
    """

    layer: Mapping[str, Segments]
    head: Mapping[str, Segments]
    reduce_ps: int | None = None
    gather_ps: int | None = None

    def segments(self, kind: str, head: bool) -> Segments:
        """Of an action F, B, I or W through one layer; with ``head`` also the logits and the loss, behind or before it."""
        layer = self.layer[kind]
        if not head:
            return layer
        return layer + self.head[kind] if kind == "F" else self.head[kind] + layer


def fixed_costs(
    forward_s: float, backward_s: float, input_s: float, weight_s: float, reduce_s: float | None, gather_s: float | None, tensor: int
) -> Costs:
    """Costs given as times; the backward includes any recompute. With tensor parallelism an all-reduce follows each half.

    >>> [s.duration_ps for s in fixed_costs(1e-12, 3e-12, 2e-12, 1e-12, None, None, tensor=2).layer["B"]]
    [1, 2]
    """

    def halves(kind: str, duration_ps: int, *parts: str) -> Segments:
        if tensor == 1:
            return (Segment(kind, "", duration_ps, 0.0, False),)
        half = duration_ps // 2
        return Segment(kind, parts[0], half, 0.0, True), Segment(kind, parts[1], duration_ps - half, 0.0, True)

    layer = {
        "F": halves("forward", to_ps(forward_s), "attention", "mlp"),
        "B": halves("backward", to_ps(backward_s), "mlp", "attention"),
        "I": halves("input", to_ps(input_s), "mlp", "attention"),
        "W": (Segment("weight", "", to_ps(weight_s), 0.0, False),),
    }
    return Costs(
        layer, dict.fromkeys("FBIW", ()), None if reduce_s is None else to_ps(reduce_s), None if gather_s is None else to_ps(gather_s)
    )


def computed_costs(
    attention: float, core: float, mlp: float, head: float, recompute: str, tensor: int, flop_s: float, kept: bool = False
) -> Costs:
    """Costs from the forward FLOPs of one rank (``attention`` includes its ``core``, the scores and the context), at ``flop_s``.

    The backward is twice the forward: once for the gradients of the inputs, once for those of the weights, of which the core has
    none. ``recompute`` repeats the core (selective) or the layer, its all-reduces too (full), before the backward; a backward in two
    parts repeats the layer before each, unless what the first computed is ``kept``.

    >>> costs = computed_costs(3.0, 1.0, 2.0, 0.0, "full", 1, 1e12)
    >>> [[(s.kind, s.duration_ps) for s in costs.layer[kind]] for kind in "BIW"]
    [[('recompute', 5), ('backward', 10)], [('recompute', 5), ('input', 6)], [('recompute', 5), ('weight', 4)]]
    """

    def segment(kind: str, part: str, flops: float, all_reduce: bool) -> Segment:
        return Segment(kind, part, to_ps(flops / flop_s), flops, all_reduce and tensor > 1)

    def layer(kind: str, attention_flops: float, mlp_flops: float, all_reduce: bool = True) -> Segments:
        if tensor == 1:
            return (segment(kind, "", attention_flops + mlp_flops, False),)
        parts = [segment(kind, "attention", attention_flops, all_reduce), segment(kind, "mlp", mlp_flops, all_reduce)]
        return tuple(parts if kind in ("forward", "recompute") else reversed(parts))

    whole = layer("recompute", attention, mlp)
    repeated = {"none": (), "selective": (segment("recompute", "core", core, False),), "full": whole}[recompute]
    repeated_for_weights = whole if recompute == "full" and not kept else ()
    products = attention - core
    by_kind = {
        "F": layer("forward", attention, mlp),
        "B": repeated + layer("backward", 2 * attention, 2 * mlp),
        "I": repeated + layer("input", products + 2 * core, mlp),
        "W": repeated_for_weights + layer("weight", products, mlp, all_reduce=False),
    }
    heads = {"F": ("forward", 1), "B": ("backward", 2), "I": ("input", 1), "W": ("weight", 1)}
    return Costs(
        layer=by_kind,
        head={letter: (segment(kind, "head", times * head, False),) if head else () for letter, (kind, times) in heads.items()},
    )
