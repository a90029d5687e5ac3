"""What one layer and pass costs on one rank: compute segments in picoseconds, from the model or fixed by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.units import to_ps


Names = tuple[str, ...]


class Segment(NamedTuple):
    """Compute without a break on one rank, and the names of the collectives that go before it, beside it, and after it."""

    kind: str
    part: str
    duration_ps: int
    flops: float
    before: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


Segments = tuple[Segment, ...]


class Block(NamedTuple):
    """A part of a layer: its forward FLOPs on one rank, and of these those without weights (the core of the attention).

    ``enter`` and ``leave`` are the collectives before and behind it in the forward, and what they are in the backward, where the
    two change places; ``beside`` those beside its forward, and its backward.
    """

    part: str
    flops: float
    core: float = 0.0
    enter: tuple[Names, Names] = ((), ())
    leave: tuple[Names, Names] = ((), ())
    beside: tuple[Names, Names] = ((), ())


@dataclass(frozen=True)
class Costs:
    """Segments by the kind of action, of each layer (backwards with their recompute first), and of the logits and the loss.

    ``reduce_ps`` and ``gather_ps`` fix the time of one layer's gradient reduction and parameter gather; None leaves it to the links.
    ``optimizer_ps`` is by pipeline rank, of a step.
    """

    layers: tuple[Mapping[str, Segments], ...]
    head: Mapping[str, Segments]
    reduce_ps: int | None = None
    gather_ps: int | None = None
    optimizer_ps: tuple[int, ...] = ()

    def segments(self, kind: str, layer: int) -> Segments:
        """Of an action F, B, I or W through one layer; the backward of the last begins with the logits and the loss."""
        own = self.layers[layer][kind]
        return own if layer < len(self.layers) - 1 else self.head[kind] + own


def fixed_layer(forward_s: float, backward_s: float, input_s: float, weight_s: float, halves: bool) -> dict[str, Segments]:
    """A layer given as times; the backward includes any recompute. With tensor parallelism an all-reduce follows each of its ``halves``.

    >>> [s.duration_ps for s in fixed_layer(1e-12, 3e-12, 2e-12, 1e-12, halves=True)["B"]]
    [1, 2]
    """

    def parts(kind: str, duration_ps: int, *names: str) -> Segments:
        if not halves:
            return (Segment(kind, "", duration_ps, 0.0),)
        half = duration_ps // 2
        return (
            Segment(kind, names[0], half, 0.0, after=("all_reduce",)),
            Segment(kind, names[1], duration_ps - half, 0.0, after=("all_reduce",)),
        )

    return {
        "F": parts("forward", to_ps(forward_s), "attention", "mlp"),
        "B": parts("backward", to_ps(backward_s), "mlp", "attention"),
        "I": parts("input", to_ps(input_s), "mlp", "attention"),
        "W": (Segment("weight", "", to_ps(weight_s), 0.0),),
    }


def layer_segments(blocks: Sequence[Block], recompute: str, flop_s: float, kept: bool = False) -> dict[str, Segments]:
    """A layer from the FLOPs of its blocks, at ``flop_s``.

    The backward is twice the forward: once for the gradients of the inputs, once for those of the weights, of which the core has
    none. ``recompute`` repeats the core (selective) or the layer, its collectives too (full), before the backward; a backward in
    two parts repeats the layer before each, unless what the first computed is ``kept``. Blocks without collectives are one segment.

    >>> layer = layer_segments([Block("attention", 3.0, 1.0), Block("mlp", 2.0)], "full", 1e12)
    >>> [[(s.kind, s.duration_ps) for s in layer[kind]] for kind in "BIW"]
    [[('recompute', 5), ('backward', 10)], [('recompute', 5), ('input', 6)], [('recompute', 5), ('weight', 4)]]
    """
    whole = _forward(blocks, "recompute", flop_s)
    core = tuple(Segment("recompute", "core", to_ps(block.core / flop_s), block.core) for block in blocks if block.core)
    repeated = {"none": (), "selective": core, "full": whole}[recompute]
    products = [(block, block.flops - block.core) for block in blocks]
    return {
        "F": _forward(blocks, "forward", flop_s),
        "B": repeated + _backward([(block, 2 * block.flops) for block in blocks], "backward", flop_s),
        "I": repeated + _backward([(block, flops + 2 * block.core) for block, flops in products], "input", flop_s),
        "W": (whole if recompute == "full" and not kept else ())
        + _joined([Segment("weight", block.part, to_ps(flops / flop_s), flops) for block, flops in reversed(products)], flop_s),
    }


def head_segments(flops: float, flop_s: float) -> dict[str, Segments]:
    """The logits and the loss, from their forward FLOPs on one rank.

    They run with the backward, so that one micro-batch's logits are there at a time.

    >>> [[s.kind for s in segments] for segments in head_segments(1.0, 1e12).values()]
    [[], ['forward', 'backward'], ['forward', 'input'], ['weight']]
    """
    kinds = {"F": (), "B": (("forward", 1), ("backward", 2)), "I": (("forward", 1), ("input", 1)), "W": (("weight", 1),)}
    return {
        letter: tuple(Segment(kind, "head", to_ps(times * flops / flop_s), times * flops) for kind, times in segments if flops)
        for letter, segments in kinds.items()
    }


def _forward(blocks: Sequence[Block], kind: str, flop_s: float) -> Segments:
    return _joined(
        [
            Segment(kind, block.part, to_ps(block.flops / flop_s), block.flops, block.enter[0], block.beside[0], block.leave[0])
            for block in blocks
        ],
        flop_s,
    )


def _backward(blocks: Sequence[tuple[Block, float]], kind: str, flop_s: float) -> Segments:
    return _joined(
        [
            Segment(kind, block.part, to_ps(flops / flop_s), flops, block.leave[1], block.beside[1], block.enter[1])
            for block, flops in reversed(blocks)
        ],
        flop_s,
    )


def _joined(segments: Sequence[Segment], flop_s: float) -> Segments:
    """One segment where nothing communicates."""
    if len(segments) < 2 or any(segment.before or segment.beside or segment.after for segment in segments):
        return tuple(segments)
    flops = sum(segment.flops for segment in segments)
    return (Segment(segments[0].kind, "", to_ps(flops / flop_s), flops),)


def overlapped(segments: Segments, parts: int, names: Sequence[str]) -> Segments:
    """Tensor-parallel collectives beside the products that they serve (async tensor parallelism), in so many parts.

    A gather before a segment goes beside it, since it begins with the part that is there; a reduction behind it goes beside all
    but its first part.

    >>> [(s.duration_ps, s.beside) for s in overlapped((Segment("forward", "mlp", 8, 8.0, after=("scatter",)),), 4, ["scatter"])]
    [(2, ()), (6, ('scatter',))]
    """
    found: list[Segment] = []
    for segment in segments:
        early = tuple(name for name in segment.before if name in names)
        late = tuple(name for name in segment.after if name in names)
        segment = segment._replace(
            before=tuple(name for name in segment.before if name not in early), beside=early + segment.beside,
            after=tuple(name for name in segment.after if name not in late),
        )  # fmt: skip
        if late:
            first_ps, first = segment.duration_ps // parts, segment.flops / parts
            found.append(segment._replace(duration_ps=first_ps, flops=first, after=()))
            rest = segment._replace(duration_ps=segment.duration_ps - first_ps, flops=segment.flops - first)
            segment = rest._replace(before=(), beside=late)
        found.append(segment)
    return tuple(found)
