"""Chimera and Hanayo: orders read off a table of equal time slots, in which a forward and a backward take one slot each.

A micro-batch moves one stage a slot, forward and at once back again, and the next one follows two slots later. On a rank what comes
down and what comes up meet in slots of different parity, and in one parity the backwards begin in the slot after the last forward: no
slot is taken twice. What a group of micro-batches leaves free at its end the next group's forwards take. An action needs only results
of earlier slots, so an order by slots never hangs, whatever the actions last.
"""

from __future__ import annotations

from clustersim.schedule.actions import Action, Actions
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import bidirectional, wave


def _by_slot(placement: tuple[int, ...], m: int, copies: int, group: int) -> Actions:
    """Each copy takes its micro-batches in groups; a group starts when the first micro-batch of the one before is back."""
    ranks: list[list[tuple[int, Action]]] = [[] for _ in range(ranks_of(placement))]
    stages, passes = len(placement) // copies, m // copies
    for stage, rank in enumerate(placement):
        copy, depth = divmod(stage, stages)
        for i in range(passes):
            start = 2 * stages * (i // group) + 2 * (i % group)
            micro_batch = copy * passes + i
            ranks[rank].append((start + depth, Action("F", stage, micro_batch)))
            ranks[rank].append((start + 2 * stages - 1 - depth, Action("B", stage, micro_batch)))
    return tuple(tuple(action for _, action in sorted(actions)) for actions in ranks)


def chimera(placement: tuple[int, ...], m: int) -> Actions:
    """Chimera (arXiv 2107.06925): two copies of the model in opposite directions, groups of p micro-batches, half in each direction.

    Stage p + s is the second copy's stage s, on rank p-1-s; micro-batches 0 to m/2-1 go through the first copy. p and m are even; a
    last group may be short. More than p micro-batches are the paper's direct concatenation of groups. Parameters twice.

    For m = p the paper's critical path, p forwards and 2p-2 backwards (B >= F): bubble (p-2)B, which is (p-2)/(2m+p-2) of the step
    for F = B and (p-2)/(3m/2+p-2) for B = 2F. With F = B the makespan is (2p ceil(m/p) + (m-1) mod p - 1)F for every m.
    Measured, for m = k p: bubble (p-2)(max(F,B) + (k-1)|F-B|), the paper's bubbles between concatenated groups.
    In flight min(p, p/2 + 1 + min(r, p-1-r)) on rank r for m >= p: the paper's p/2+1 to p.

    >>> [" ".join(map(str, rank)) for rank in chimera((0, 1, 2, 3, 3, 2, 1, 0), 4)][0]
    '0F0 0F1 7F2 7B2 7F3 7B3 0B0 0B1'
    """
    p = ranks_of(placement)
    expect_placement("chimera", placement, bidirectional(p, 2), "placement: bidirectional with chunks: 2")
    if p % 2:
        raise ValueError(f"order chimera needs an even number of ranks for its two directions not to meet, got {p}; allowed: 2, 4, 6, ...")
    if m % 2:
        raise ValueError(f"order chimera sends half of the micro-batches in each direction, got {m}; allowed: 2, 4, 6, ...")
    return _by_slot(placement, m, copies=2, group=p // 2)


def hanayo(placement: tuple[int, ...], m: int) -> Actions:
    """Hanayo (arXiv 2308.15762): w waves, 2w stages a rank, groups of p micro-batches; one copy of the model. Any p and m.

    Makespan for F = B and any m: (p ceil(m/p) + ((m-1) mod p)/(2w))(F+B), for whole groups m(F+B) + (p-1)(F+B)/(2w). It follows
    from the table of slots. The paper gives, for m = p and B = 2F, a bubble of (2p-2)/(3pw+p-1) of the step; here it is
    (2p-2)/(3pw+2p-2), as the bubble is (p-1)max(F,B)/w, with the same (p-1)/w and not above the paper's.
    Measured, for m = k p: bubble (p-1)(max(F,B) + (k-1)|F-B|)/w. At most 2w min(m,p) forwards in flight.

    >>> [" ".join(map(str, rank)) for rank in hanayo((0, 1, 1, 0), 2)]
    ['0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1', '1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1']
    """
    p = ranks_of(placement)
    chunks = len(placement) // p
    expect_placement("hanayo", placement, wave(p, chunks + chunks % 2), "placement: wave with an even number of chunks, two for each wave")
    return _by_slot(placement, m, copies=1, group=p)


WAVES = {
    "hanayo": Order(
        hanayo,
        paper="Hanayo (Liu et al. 2023), arXiv 2308.15762",
        makespan="m(F+B) + 2(p-1)max(F,B)/v for m = p; with F = B for m a multiple of p",
        in_flight="at most v min(m,p)",
        chunks=2,
        placement="wave",
    ),
    "chimera": Order(
        chimera,
        paper="Chimera (Li and Hoefler 2021), arXiv 2107.06925",
        makespan="m(F+B) + (p-2)max(F,B) for m = p; with F = B for m a multiple of p",
        in_flight="min(p, p/2+1+min(r, p-1-r)) for m >= p",
        chunks=2,
        placement="bidirectional",
    ),
}
