"""All forwards before any backward: whole micro-batches or slices of them, through a rank's stages in turn."""

from __future__ import annotations

from clustersim.schedule.actions import Action, Actions
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import modular


def layered(placement: tuple[int, ...], m: int) -> Actions:
    """Layered order (LGA, arXiv 2106.02679): all micro-batches through a stage before the next one, micro-batches ascending both ways.

    On one rank it is layered gradient accumulation, on the modular placement with one layer a stage modular pipeline parallelism.
    On the contiguous placement the stages work one after another: (p(v-1)m + m + p - 1)(F+B)/v.

    >>> [" ".join(map(str, rank)) for rank in layered((0, 1, 0, 1), 2)]
    ['0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1', '1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1']
    """
    return _all_forwards_first(placement, range(m), range(m))


def gpipe(placement: tuple[int, ...], m: int) -> Actions:
    """GPipe (arXiv 1811.06965): one stage per rank, micro-batches ascending both ways.

    >>> [" ".join(map(str, rank)) for rank in gpipe((0, 1), 2)]
    ['0F0 0F1 0B0 0B1', '1F0 1F1 1B0 1B1']
    """
    expect_placement("gpipe", placement, modular(ranks_of(placement), 1), "chunks: 1, one stage per rank")
    return _all_forwards_first(placement, range(m), range(m))


def breadth_first(placement: tuple[int, ...], m: int) -> Actions:
    """Breadth-first pipeline (looped BFS, arXiv 2211.05953): as the layered order, with micro-batches reversed in the backward.

    >>> [" ".join(map(str, rank)) for rank in breadth_first((0, 1, 0, 1), 2)]
    ['0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0', '1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0']
    """
    p = ranks_of(placement)
    expect_placement("breadth-first", placement, modular(p, len(placement) // p), "placement: modular")
    return _all_forwards_first(placement, range(m), range(m)[::-1])


def terapipe(placement: tuple[int, ...], m: int, slices: int) -> Actions:
    """TeraPipe (arXiv 2102.07988): a micro-batch travels in slices of its sequence, forward from its first slice, backward from its last.

    A slice attends to those before it, so that they go first; its backward needs that of those behind it.

    >>> [" ".join(map(str, rank)) for rank in terapipe((0,), 2, slices=2)]
    ['0F0 0F1 0F2 0F3 0B1 0B0 0B3 0B2']
    """
    expect_placement("terapipe", placement, modular(ranks_of(placement), 1), "chunks: 1, one stage per rank")
    backward = [i * slices + j for i in range(m) for j in reversed(range(slices))]
    return _all_forwards_first(placement, range(m * slices), backward)


def _all_forwards_first(placement: tuple[int, ...], forward: range, backward: range | list[int]) -> Actions:
    ranks = []
    for r in range(ranks_of(placement)):
        stages = [stage for stage, rank in enumerate(placement) if rank == r]
        forwards = [Action("F", stage, i) for stage in stages for i in forward]
        backwards = [Action("B", stage, i) for stage in reversed(stages) for i in backward]
        ranks.append((*forwards, *backwards))
    return tuple(ranks)


LAYERED = {
    "layered": Order(
        layered, "arXiv 2106.02679 (LGA, MPP)", "((v-1) max(p,m) + m + p - 1)(F+B)/v on modular stages", "mv",
        chunks=None, placement="modular",
    ),
    "gpipe": Order(gpipe, "arXiv 1811.06965", "(m+p-1)(F+B)", "m"),
    "breadth-first": Order(breadth_first, "arXiv 2211.05953", "m(F+B) + (p-1)(F+B)/v for m >= p", "mv", chunks=2, placement="modular"),
    "terapipe": Order(
        terapipe, "arXiv 2102.07988", "(mn+p-1)(F+B)/n with n equal slices", "mn slices", options=("slices",), slices=4,
    ),
}  # fmt: skip
