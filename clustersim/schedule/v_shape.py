"""Orders for the wave placement with two stages a rank (the V): down the ranks and back, so the last rank turns at once.

A rank's first chunk is stage r, its second stage 2p-1-r; each takes half of what the whole rank takes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from clustersim.schedule.actions import Action, Actions
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import wave

PERIOD = 6
"""What a micro-batch takes of a rank in units of one pass: F, I and W of two chunks."""


def zb_v(placement: tuple[int, ...], m: int) -> Actions:
    """ZB-V (arXiv 2401.10241, section 6), as torch's ScheduleZBVZeroBubble: no bubble at the memory of 1F1B.

    With F = I = W and m >= 2p-1 no rank idles between its first and its last action. At most min(m, p) micro-batches of a whole
    rank in flight. Fewer micro-batches leave their places in the order of 2p-1 empty.

    >>> [" ".join(map(str, rank)) for rank in zb_v((0, 1, 1, 0), 1)]
    ['0F0 3F0 3I0 3W0 0I0 0W0', '1F0 2F0 2I0 2W0 1I0 1W0']
    """
    p = _ranks_of_v("zb-v", placement)
    return tuple(tuple(one for one in _numbered(_zb_v_passes(p, r, max(m, 2 * p - 1))) if one.micro_batch < m) for r in range(p))


def v_half(placement: tuple[int, ...], m: int) -> Actions:
    """V-Half (arXiv 2405.15362): half the activations of 1F1B, half its bubble.

    The building block takes 2 units from rank to rank down and 1 back, in both directions. F and I of the first chunk and F and I
    of the second then start, modulo 3, at -r, 1-r and 2-r and once more at 1-r, there kept half a period apart by the last wait.
    At most (p+2) // 2 micro-batches of a whole rank in flight, forward until weight gradient.

    >>> [" ".join(map(str, rank)) for rank in v_half((0, 1, 1, 0), 2)]
    ['0F0 3F0 3I0 0F1 3W0 3F1 3I1 0I0 3W1 0I1 0W0 0W1', '1F0 2F0 2I0 1F1 2F1 1I0 2W0 2I1 1I1 1W0 2W1 1W1']
    """
    p = _ranks_of_v("v-half", placement)
    return _woven(p, m, offsets=(2, 1), waits=(0, 1 if p % 2 else 4), most=2 * (p // 2 + 1))


def v_min(placement: tuple[int, ...], m: int) -> Actions:
    """V-Min (arXiv 2405.15362): a third of the activations of 1F1B, two thirds of its bubble.

    The building block takes 1 unit from rank to rank, the least there is. Forwards down and back start at times of unlike parity,
    and so do input gradients; the two of a chunk are 2p apart, which the wait keeps from being a multiple of the period.
    At most (p+4) // 3 micro-batches of a whole rank in flight, forward until weight gradient.

    >>> [" ".join(map(str, rank)) for rank in v_min((0, 1, 1, 0), 2)]
    ['0F0 3F0 3I0 0F1 3W0 0I0 0W0 3F1 3I1 3W1 0I1 0W1', '1F0 2F0 2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 2W1 1W1']
    """
    p = _ranks_of_v("v-min", placement)
    return _woven(p, m, offsets=(1, 1), waits=(0 if p % 3 else 2, 0), most=2 * ((p + 4) // 3))


def _ranks_of_v(order: str, placement: tuple[int, ...]) -> int:
    p = ranks_of(placement)
    expect_placement(order, placement, wave(p, 2), "placement: wave with chunks: 2")
    return p


def _zb_v_passes(p: int, r: int, m: int) -> list[tuple[str, int]]:
    """Kind and stage of each pass of rank r, for m >= 2p-1."""
    first, second = r, 2 * p - 1 - r
    steady = [(kind, stage) for stage in (first, second) for kind in "FIW"]
    new = m - (2 * p - 1 - r)  # micro-batches whose first forward falls into the steady part
    warm_up = [("F", first)] * (2 * (p - r) - 1) + [("F", second), ("F", first)] * r + steady[3:] * (p - r)
    drain = [("I", first), ("I", second)] * r + [("I", first), ("W", first)] * (p - r) + [("W", second)] * r + [("W", first)] * r
    return warm_up + steady * new + steady[1:] * (p - 1 - r) + drain


def _numbered(passes: Iterable[tuple[str, int]]) -> list[Action]:
    """Each kind of pass of each stage takes the micro-batches in turn.

    >>> [str(action) for action in _numbered([("F", 0), ("F", 0), ("I", 0)])]
    ['0F0', '0F1', '0I0']
    """
    seen: Counter[tuple[str, int]] = Counter()
    actions = []
    for one in passes:
        actions.append(Action(*one, seen[one]))
        seen[one] += 1
    return actions


def _woven(p: int, m: int, offsets: tuple[int, int], waits: tuple[int, int], most: int) -> Actions:
    """The building block once a period for each micro-batch: on every rank in order of start, weight gradients in the gaps."""
    ranks = []
    for r in range(p):
        block = _building_block(p, r, offsets, waits)
        ranks.append([action for _, action in sorted((start + PERIOD * i, Action(*one, i)) for start, one in block for i in range(m))])
    return _filled(ranks, most)


def _building_block(p: int, r: int, offsets: tuple[int, int], waits: tuple[int, int]) -> list[tuple[int, tuple[str, int]]]:
    """Start, kind and stage of the passes of micro-batch 0 on rank r.

    ``offsets``: from rank to rank on the way down and back; ``waits``: before the first input gradient of the second and first chunk.

    >>> _building_block(3, 0, (1, 1), (2, 0))
    [(0, ('F', 0)), (5, ('F', 5)), (8, ('I', 5)), (13, ('I', 0))]
    """
    down, back = (r, offsets[0]), (p - 1 - r, offsets[1])
    first, second = r, 2 * p - 1 - r
    begin, block = 0, []
    for kind, stage, (ranks, offset), wait in (
        ("F", first, down, 0),
        ("F", second, back, 0),
        ("I", second, down, waits[0]),
        ("I", first, back, waits[1]),
    ):
        begin += wait
        block.append((begin + ranks * offset, (kind, stage)))
        begin += (p - 1) * offset + 1
    return block


def _filled(ranks: Sequence[Sequence[Action]], most: int) -> Actions:
    """Forwards and input gradients in order, each as soon as it can be, weight gradients where a rank would wait or hold too much.

    All passes take one unit here; ``most`` is what a rank holds, in forwards whose weight gradient has not ended.
    """
    orders, late = [deque(actions) for actions in ranks], [deque[Action]() for _ in ranks]
    held = [0] * len(ranks)
    filled: list[list[Action]] = [[] for _ in ranks]
    ended: set[Action] = set()
    now: list[Action] = []
    while True:
        for r, order in enumerate(orders):
            if order and _ready(order[0], 2 * len(ranks), ended) and (order[0].kind == "I" or held[r] < most):
                queue = order
            elif late[r]:
                queue = late[r]
            else:
                continue
            action = queue.popleft()
            held[r] += {"F": 1, "I": 0, "W": -1}[action.kind]
            if action.kind == "I":
                late[r].append(action._replace(kind="W"))
            filled[r].append(action)
            now.append(action)
        if not now:  # nothing ran, so nothing ever will: all is done
            return tuple(map(tuple, filled))
        ended.update(now)
        now.clear()


def _ready(action: Action, stages: int, ended: set[Action]) -> bool:
    """Whether a forward or input gradient has what it needs."""
    kind, stage, i = action
    if kind == "F":
        return stage == 0 or Action("F", stage - 1, i) in ended
    return Action("F", stage, i) in ended and (stage == stages - 1 or Action("I", stage + 1, i) in ended)


V_SHAPE: dict[str, Order] = {
    "zb-v": Order(
        zb_v,
        paper="ZB-V: Qi et al., arXiv 2401.10241",
        makespan="3mF + (p-1)F/2 for F = I = W and m >= 2p-1, no rank idle between its first and last action",
        in_flight="min(2m, 2p) on the rank with the most",
        chunks=2,
        placement="wave",
    ),
    "v-half": Order(
        v_half,
        paper="V-Half: Qi et al., arXiv 2405.15362",
        makespan="3mF + (3p-4)F/2 for F = I = W and m >= p > 2",
        in_flight="min(2m, 2((p+2) // 2)) on the rank with the most",
        chunks=2,
        placement="wave",
    ),
    "v-min": Order(
        v_min,
        paper="V-Min: Qi et al., arXiv 2405.15362",
        makespan="3mF + (4p-5)F/2 for F = I = W and m >= p > 1; F more where p is a multiple of 3",
        in_flight="min(2m, 2((p+4) // 3)) on the rank with the most",
        chunks=2,
        placement="wave",
    ),
}
