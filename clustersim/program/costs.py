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


class Work(NamedTuple):
    """What one rank computes without a break, and how long it takes."""

    flops: float = 0.0
    seconds: float = 0.0


NOTHING = Work()


class Block(NamedTuple):
    """A part of a layer on one rank: its forward and the two halves of its backward.

    ``core`` is of the forward what has no weights, ``entry`` of ``weight`` what belongs to the matrices at the entry. ``enter`` and
    ``leave`` are the collectives before and behind it in the forward, and what they are in the backward, where the two change places;
    ``beside`` those beside its forward, and its backward.
    """

    part: str
    forward: Work
    input: Work
    weight: Work
    core: Work = NOTHING
    entry: Work = NOTHING
    enter: tuple[Names, Names] = ((), ())
    leave: tuple[Names, Names] = ((), ())
    beside: tuple[Names, Names] = ((), ())


@dataclass(frozen=True)
class Costs:
    """Segments by the kind of action, of each layer (backwards with their recompute first), of the logits and the loss, of the embedding.

    ``reduce_ps`` and ``gather_ps`` fix the time of one layer's gradient reduction and parameter gather; None leaves it to the links.
    ``optimizer_ps`` is by pipeline rank, of a step.
    """

    layers: tuple[Mapping[str, Segments], ...]
    head: Mapping[str, Segments]
    embedding: Mapping[str, Segments]
    reduce_ps: int | None = None
    gather_ps: int | None = None
    optimizer_ps: tuple[int, ...] = ()

    def segments(self, kind: str, layer: int) -> Segments:
        """Of an action F, B, I or W through one layer.

        The forward of the first begins with the embedding and its backward ends there; the backward of the last begins with the
        logits and the loss.
        """
        segments = self.layers[layer][kind]
        if layer == len(self.layers) - 1:
            segments = self.head[kind] + segments
        if layer == 0:
            segments = self.embedding[kind] + segments if kind == "F" else segments + self.embedding[kind]
        return segments


def fixed_layer(forward_s: float, backward_s: float, input_s: float, weight_s: float, *, halves: bool) -> dict[str, Segments]:
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


def layer_segments(blocks: Sequence[Block], recompute: str, kept: bool = False, beside_weights: bool = False) -> dict[str, Segments]:
    """The segments of a layer from its blocks.

    ``recompute`` repeats the core (selective) or the layer, its collectives too (full), before the backward; a backward in two parts
    repeats the layer before each, unless what the first computed is ``kept``. With ``beside_weights`` the collectives at the entry of
    a block go, in the backward, beside the gradients of the weights there, which do not need them. Blocks without collectives are one
    segment.

    >>> attention = Block("attention", Work(3.0, 3e-12), Work(4.0, 4e-12), Work(2.0, 2e-12), core=Work(1.0, 1e-12))
    >>> mlp = Block("mlp", Work(2.0, 2e-12), Work(2.0, 2e-12), Work(2.0, 2e-12))
    >>> layer = layer_segments([attention, mlp], "full")
    >>> [[(s.kind, s.duration_ps) for s in layer[kind]] for kind in "BIW"]
    [[('recompute', 5), ('backward', 10)], [('recompute', 5), ('input', 6)], [('recompute', 5), ('weight', 4)]]
    """
    whole = _forward(blocks, "recompute")
    core = tuple(_segment("recompute", "core", block.core) for block in blocks if block.core.seconds)
    repeated = {"none": (), "selective": core, "full": whole}[recompute]
    return {
        "F": _forward(blocks, "forward"),
        "B": repeated + _joined([part for block in reversed(blocks) for part in _both(block, beside_weights)]),
        "I": repeated + _joined([_backward(block, "input", block.input) for block in reversed(blocks)]),
        "W": (whole if recompute == "full" and not kept else ())
        + _joined([_segment("weight", block.part, block.weight) for block in reversed(blocks)]),
    }


def head_segments(block: Block) -> dict[str, Segments]:
    """The logits and the loss.

    They run with the backward, so that one micro-batch's logits are there at a time.

    >>> segments = head_segments(Block("head", Work(1.0, 1e-12), Work(1.0, 1e-12), Work(1.0, 1e-12)))
    >>> [[s.kind for s in segments[kind]] for kind in "FBIW"]
    [[], ['forward', 'backward'], ['forward', 'input'], ['weight']]
    """
    if not block.forward.seconds:
        return dict.fromkeys("FBIW", ())
    before = _forward([block], "forward")
    return {
        "F": (),
        "B": (*before, _backward(block, "backward", together(block.input, block.weight))),
        "I": (*before, _backward(block, "input", block.input)),
        "W": (_segment("weight", block.part, block.weight),),
    }


def embedding_segments(block: Block) -> dict[str, Segments]:
    """The look-up, and in the backward the sums of the rows' gradients, which count with the weights."""
    if not block.forward.seconds:
        return dict.fromkeys("FBIW", ())
    summed = {kind: (_segment(name, block.part, block.weight),) for kind, name in (("B", "backward"), ("W", "weight"))}
    return {"F": _forward([block], "forward"), "I": (), **summed}


def together(*works: Work) -> Work:
    """One after another."""
    return Work(sum(work.flops for work in works), sum(work.seconds for work in works))


def _segment(kind: str, part: str, work: Work, before: Names = (), beside: Names = (), after: Names = ()) -> Segment:
    return Segment(kind, part, to_ps(work.seconds), work.flops, before, beside, after)


def _forward(blocks: Sequence[Block], kind: str) -> Segments:
    return _joined([_segment(kind, block.part, block.forward, block.enter[0], block.beside[0], block.leave[0]) for block in blocks])


def _backward(block: Block, kind: str, work: Work) -> Segment:
    return _segment(kind, block.part, work, block.leave[1], block.beside[1], block.enter[1])


def _both(block: Block, beside_weights: bool) -> tuple[Segment, ...]:
    """A whole backward: at once, or with the gradients of the entry's weights beside the collectives of those of the inputs."""
    whole = together(block.input, block.weight)
    if not (beside_weights and block.enter[1] and block.entry.seconds):
        return (_backward(block, "backward", whole),)
    first = Work(whole.flops - block.entry.flops, whole.seconds - block.entry.seconds)
    return (
        _segment("backward", block.part, first, block.leave[1], block.beside[1]),
        _segment("backward", block.part, block.entry, beside=block.enter[1]),
    )


def _joined(segments: Sequence[Segment]) -> Segments:
    """One segment where nothing communicates."""
    if len(segments) < 2 or any(segment.before or segment.beside or segment.after for segment in segments):
        return tuple(segments)
    return (Segment(segments[0].kind, "", sum(s.duration_ps for s in segments), sum(s.flops for s in segments)),)


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
