"""Zero-bubble orders: the backward in two, so that weight gradients fill the idle time (Qi et al., arXiv 2401.10241).

On every rank the same form: forwards to warm up, then input gradient, weight gradient, forward in turn, the weight gradients
a number of micro-batches behind; orders differ in how many forwards come first and how far behind the weight gradients are.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.schedule.actions import Action, Actions
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import modular

Pass = tuple[int, int]
"""Stage and micro-batch."""


def zb_h1(placement: tuple[int, ...], m: int) -> Actions:
    """ZB-H1 (arXiv 2401.10241, section 2.1): 1F1B with the weight gradients of rank r held back by r micro-batches.

    One stage per rank. Makespan m(F+I+W) + (p-1)(F+I-W) for m >= p and W <= min(F, I); at most min(m, p) forwards in flight.

    >>> [" ".join(map(str, rank)) for rank in zb_h1((0, 1), 3)]
    ['0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2', '1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2']
    """
    p = _one_stage_per_rank("zb-h1", placement)
    return tuple(_split(one := _passes(m, [r], m), one, first=p - r, behind=r) for r in range(p))


def zb_h2(placement: tuple[int, ...], m: int) -> Actions:
    """ZB-H2 (arXiv 2401.10241, section 2.2): forwards fill the warm-up too, and ranks start and end one after another.

    One stage per rank. With F = I = W no rank idles between its first and its last action where m >= 2p-1, so the makespan is
    3mF + (p-1)F (an optimizer step that waits for no other rank hides the rest); at most min(m, 2p-1) forwards in flight.

    >>> [" ".join(map(str, rank)) for rank in zb_h2((0, 1), 3)]
    ['0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2', '1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2']
    """
    p = _one_stage_per_rank("zb-h2", placement)
    return tuple(_split(one := _passes(m, [r], m), one, first=2 * (p - r) - 1, behind=2 * r) for r in range(p))


def interleaved_zb(placement: tuple[int, ...], m: int) -> Actions:
    """Interleaved zero bubble: ZB-H1 over the stages of the modular placement, as torch's ScheduleInterleavedZeroBubble.

    Micro-batches go in rounds = max(1, m // p) groups of m / rounds, each group through a rank's stages in turn; rank r warms up
    with (v-1) group + p-1-r forwards and holds its weight gradients back by r passes, so at most min(mv, (v-1) group + p) chunk
    forwards are in flight. With v = 1 it is ZB-H1. Makespan m(F+I+W) + (p-1)(F+I-W)/v for m a multiple of p and W <= min(F, I).

    >>> [" ".join(map(str, rank)) for rank in interleaved_zb((0, 1, 0, 1), 2)]
    ['0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1', '1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1']
    >>> interleaved_zb((0, 1, 0, 1), 5)
    Traceback (most recent call last):
    ...
    ValueError: order interleaved-zb: 5 micro-batches do not divide into 5 // 2 = 2 rounds; allowed nearby: 4, 6
    """
    p = ranks_of(placement)
    expect_placement("interleaved-zb", placement, modular(p, len(placement) // p), "placement: modular")
    rounds = max(1, m // p)
    if m % rounds:
        raise ValueError(
            f"order interleaved-zb: {m} micro-batches do not divide into {m} // {p} = {rounds} rounds; allowed nearby: {_nearby(p, m)}"
        )
    group = m // rounds
    ranks = []
    for r in range(p):
        stages = range(r, len(placement), p)
        forwards, backwards = _passes(m, stages, group), _passes(m, stages[::-1], group)
        ranks.append(_split(forwards, backwards, first=(len(stages) - 1) * group + p - r, behind=r))
    return tuple(ranks)


def _one_stage_per_rank(order: str, placement: tuple[int, ...]) -> int:
    """The number of ranks, when each holds one stage.

    >>> _one_stage_per_rank("zb-h1", (0, 1, 2))
    3
    """
    expect_placement(order, placement, tuple(range(len(placement))), "chunks: 1, one stage per rank")
    return len(placement)


def _nearby(p: int, m: int) -> str:
    """The next numbers of micro-batches, down and up, that divide into their rounds; every multiple of p does.

    >>> _nearby(4, 9), _nearby(4, 13)
    ('8, 10', '12, 15')
    """
    below = next(n for n in range(m, 0, -1) if n % max(1, n // p) == 0)
    above = next(n for n in range(m, m + p + 1) if n % max(1, n // p) == 0)
    return f"{below}, {above}"


def _passes(m: int, stages: Sequence[int], group: int) -> list[Pass]:
    """A rank's passes in one direction: each group of micro-batches through all of its stages, then the next group.

    >>> _passes(4, [1, 3], 2)
    [(1, 0), (1, 1), (3, 0), (3, 1), (1, 2), (1, 3), (3, 2), (3, 3)]
    """
    return [(stage, i) for start in range(0, m, group) for stage in stages for i in range(start, start + group)]


def _split(forwards: Sequence[Pass], backwards: Sequence[Pass], first: int, behind: int) -> tuple[Action, ...]:
    """``first`` forwards, then input gradient, weight gradient, forward in turn, the weight gradients ``behind`` passes late.

    >>> " ".join(map(str, _split(_passes(3, [0], 3), _passes(3, [0], 3), first=1, behind=1)))
    '0F0 0I0 0F1 0I1 0W0 0F2 0I2 0W1 0W2'
    """
    actions = [Action("F", *one) for one in forwards[:first]]
    for n, one in enumerate(backwards):
        actions.append(Action("I", *one))
        if n >= behind:
            actions.append(Action("W", *backwards[n - behind]))
        actions += (Action("F", *one) for one in forwards[first + n : first + n + 1])
    late = backwards[max(0, len(backwards) - behind) :]
    return (*actions, *(Action("W", *one) for one in late))


ZERO_BUBBLE: dict[str, Order] = {
    "zb-h1": Order(
        zb_h1,
        paper="ZB-H1: Qi et al., arXiv 2401.10241",
        makespan="m(F+I+W) + (p-1)(F+I-W) for m >= p and W <= min(F, I)",
        in_flight="min(m, p) on the rank with the most",
    ),
    "zb-h2": Order(
        zb_h2,
        paper="ZB-H2: Qi et al., arXiv 2401.10241",
        makespan="3mF + (p-1)F for F = I = W and m >= 2p-1, no rank idle between its first and last action",
        in_flight="min(m, 2p-1) on the rank with the most",
    ),
    "interleaved-zb": Order(
        interleaved_zb,
        paper="ScheduleInterleavedZeroBubble of torch.distributed.pipelining, after Qi et al., arXiv 2401.10241",
        makespan="m(F+I+W) + (p-1)(F+I-W)/v for m a multiple of p and W <= min(F, I)",
        in_flight="min(mv, (v-1) m / max(1, m // p) + p) on the rank with the most",
        chunks=2,
        placement="modular",
    ),
}
