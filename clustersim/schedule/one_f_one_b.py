"""One forward, one backward: after a warm-up each rank alternates, so that few forwards are in flight."""

from __future__ import annotations

from clustersim.schedule.actions import Action, Actions
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import modular


def one_f_one_b(placement: tuple[int, ...], m: int) -> Actions:
    """1F1B (PipeDream-Flush, arXiv 2006.09503): min(m, p-1-r) warm-up forwards on rank r. With p = 1 it is standard accumulation.

    >>> [" ".join(map(str, rank)) for rank in one_f_one_b((0, 1), 3)]
    ['0F0 0F1 0B0 0F2 0B1 0B2', '1F0 1B0 1F1 1B1 1F2 1B2']
    """
    p = _one_stage_each("1f1b", placement)
    return tuple(_alternating([(r, i) for i in range(m)], [(r, i) for i in range(m)], p - 1 - r) for r in range(p))


def eager(placement: tuple[int, ...], m: int) -> Actions:
    """Eager 1F1B (arXiv 2211.05322): twice the warm-up, so that what travels between ranks for up to (F+B)/2 holds up nobody.

    >>> [" ".join(map(str, rank)) for rank in eager((0, 1), 3)]
    ['0F0 0F1 0F2 0B0 0B1 0B2', '1F0 1B0 1F1 1B1 1F2 1B2']
    """
    p = _one_stage_each("eager-1f1b", placement)
    return tuple(_alternating([(r, i) for i in range(m)], [(r, i) for i in range(m)], 2 * (p - 1 - r)) for r in range(p))


def interleaved(placement: tuple[int, ...], m: int, group: int | None = None) -> Actions:
    """Interleaved 1F1B (Megatron-LM, arXiv 2104.04473): groups of micro-batches go through all chunks of a rank in turn.

    2(p-r-1) + (v-1) x ``group`` warm-up forwards on rank r. Without ``group``: m micro-batches in max(1, m // p) equal groups, p each
    where m is a multiple of p. The last group may be smaller, but not smaller than p: a micro-batch would not be back in time.

    >>> [" ".join(map(str, rank)) for rank in interleaved((0, 1, 0, 1), 2)]
    ['0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1', '1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1']
    """
    p = ranks_of(placement)
    v = len(placement) // p
    expect_placement("interleaved-1f1b", placement, modular(p, v), "placement: modular")
    size = group_size(p, m) if group is None else _checked_group(p, m, group)
    ranks = []
    for r in range(p):
        stages = range(r, len(placement), p)
        forwards = _by_groups(stages, m, size)
        backwards = _by_groups(stages[::-1], m, size)
        ranks.append(_alternating(forwards, backwards, 2 * (p - 1 - r) + (v - 1) * size))
    return tuple(ranks)


def group_size(p: int, m: int) -> int:
    """Micro-batches in each of max(1, m // p) equal groups. ValueError when they are not equal.

    >>> group_size(4, 8), group_size(4, 6), group_size(4, 2)
    (4, 6, 2)
    """
    rounds = max(1, m // p)
    if m % rounds:
        near = f"{m // p * p} or {(m // p + 1) * p}"
        raise ValueError(
            f"{m} micro-batches do not divide into {rounds} equal groups for {p} ranks;"
            f" allowed: a multiple of {p} ({near}), or strategy.group of at least {p} that leaves none or at least {p} over"
        )
    return m // rounds


def _checked_group(p: int, m: int, group: int) -> int:
    rest = m % group
    if m > group and (group < p or 0 < rest < p):
        raise ValueError(
            f"group {group} cuts {m} micro-batches into groups of which one is smaller than the {p} ranks;"
            f" allowed for strategy.group: at least {p}, with none or at least {p} micro-batches left over"
        )
    return min(group, m)


def _by_groups(stages: range, m: int, size: int) -> list[tuple[int, int]]:
    return [(stage, i) for first in range(0, m, size) for stage in stages for i in range(first, min(m, first + size))]


def _alternating(forwards: list[tuple[int, int]], backwards: list[tuple[int, int]], warm_up: int) -> tuple[Action, ...]:
    """``warm_up`` forwards, then a forward and a backward in turn, then what is left."""
    warm_up = min(warm_up, len(forwards))
    actions = [Action("F", *one) for one in forwards[:warm_up]]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        actions += (Action("F", *forward), Action("B", *backward))
    return (*actions, *(Action("B", *one) for one in backwards[len(forwards) - warm_up :]))


def _one_stage_each(order: str, placement: tuple[int, ...]) -> int:
    p = ranks_of(placement)
    expect_placement(order, placement, modular(p, 1), "chunks: 1, one stage per rank")
    return p


_FLUSH = "arXiv 2006.09503 (PipeDream-Flush)"
ONE_F_ONE_B = {
    "1f1b": Order(one_f_one_b, _FLUSH, "(m+p-1)(F+B)", "min(m, p-r)"),
    "eager-1f1b": Order(eager, "arXiv 2211.05322", "(m+p-1)(F+B)", "min(m, 2(p-r)-1)"),
    "interleaved-1f1b": Order(
        interleaved, "arXiv 2104.04473 (Megatron-LM)", "m(F+B) + (p-1)(F+B)/v for m a multiple of p",
        "min(mv, 2(p-r-1)+(v-1)p+1)", chunks=2, options=("group",), placement="modular",
    ),
}  # fmt: skip
