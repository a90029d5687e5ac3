"""DualPipe and DualPipeV: forwards of one direction beside backwards of the other, so that each hides the other's communication.

Letters as in ``order``, but times are of one stage: FB of an overlapped forward and backward. P is the number of stages of the model.
"""

from __future__ import annotations

from collections import deque

from clustersim.schedule.actions import Action, Actions, Overlap
from clustersim.schedule.order import Order, expect_placement, ranks_of
from clustersim.schedule.placements import bidirectional, wave


class _Half:
    """One stage of a rank: which micro-batch is next, forward and backward. Both begin with ``first``."""

    def __init__(self, stage: int, first: int) -> None:
        self.stage, self.forwards, self.backwards = stage, first, first

    def forward(self) -> Action:
        self.forwards += 1
        return Action("F", self.stage, self.forwards - 1)

    def backward(self, kind: str = "B") -> Action:
        self.backwards += 1
        return Action(kind, self.stage, self.backwards - 1)


def _fill(near: _Half, far: _Half, before: int, after: int) -> list[Action | Overlap]:
    """Until the main part: ``before`` ranks lie between this one and the turn, ``after`` counts this one and those behind it."""
    actions: list[Action | Overlap] = [near.forward() for _ in range(2 * before)]
    for _ in range(after):
        actions += (near.forward(), far.forward())
    for _ in range(before):
        # the weight gradient at once, while the next forward is still on its way
        halved = far.backward("I")
        actions += (halved, halved._replace(kind="W"), far.forward())
    return actions


def _main(near: _Half, far: _Half, before: int, pairs: int) -> list[Action | Overlap]:
    """Forwards of each half beside backwards of the other; once ``near`` has no forwards left, backwards of ``far`` alone."""
    actions: list[Action | Overlap] = []
    for i in range(pairs):
        forward, backward = near.forward(), far.backward()
        # at the turn the first two run one after the other: the backward would only wait
        actions += (forward, backward) if before == 0 and i == 0 else (Overlap(forward, backward),)
        actions.append(Overlap(far.forward(), near.backward()))
    for _ in range(before):
        actions += (far.backward(), Overlap(far.forward(), near.backward()))
    return actions


def _drain(near: _Half, far: _Half, before: int, after: int) -> list[Action | Overlap]:
    """Backwards only; of the second half of them the weight gradients wait until there is nothing to send any more."""
    actions: list[Action | Overlap] = []
    weights: deque[Action] = deque()

    def backward(half: _Half, split: bool) -> None:
        action = half.backward("I" if split else "B")
        actions.append(action)
        if split:
            weights.append(action._replace(kind="W"))

    for i in range(2 * after):
        backward((far, near)[i % 2], split=i >= after)
    for _ in range(before):
        actions.append(weights.popleft())
        backward(near, split=True)
    return [*actions, *weights]


def _rank(near: _Half, far: _Half, before: int, after: int, passes: int) -> tuple[Action | Overlap, ...]:
    """``near`` is the stage that the first micro-batch to arrive meets, ``far`` the one beyond the turn, or of the other direction."""
    pairs = passes - 2 * before - after
    return (*_fill(near, far, before, after), *_main(near, far, before, pairs), *_drain(near, far, before, after))


def dualpipe(placement: tuple[int, ...], m: int) -> Actions:
    """DualPipe (DeepSeek-V3 report, arXiv 2412.19437; the order of github.com/deepseek-ai/DualPipe).

    Two copies of the model in opposite directions: stage p + s is the second copy's stage s, on rank p-1-s. Micro-batches 0 to m/2-1
    go through the first copy. p is even, m even and at least 2p. Bubble (p/2-1)(FB+B-3W), parameters twice, p+1 forwards of one
    stage in flight on each rank.

    The bubble is exact for F = I, W <= F: the most idle rank's, and every rank's where FB = F+B (a rank with fewer pairs works
    longer). Measured: (p/2-1)(F-I) longer for F > I >= W, not longer for F < I, W <= F.

    >>> [" ".join(map(str, rank)) for rank in dualpipe((0, 1, 1, 0), 4)][0]
    '0F0 3F2 0F1 3B2 (3F3;0B0)OVERLAP_F_B 3B3 0I1 0W1'
    """
    p = ranks_of(placement)
    expect_placement("dualpipe", placement, bidirectional(p, 2), "placement: bidirectional with chunks: 2")
    if p % 2:
        raise ValueError(f"order dualpipe turns between two middle ranks, got {p} ranks; allowed: even numbers of ranks")
    if m % 2 or m < 2 * p:
        raise ValueError(
            f"order dualpipe needs p micro-batches or more in each of two directions, got {m}; allowed: even numbers from {2 * p}"
        )
    ranks = []
    for r in range(p):
        down, up = _Half(r, 0), _Half(2 * p - 1 - r, m // 2)
        near, far = (down, up) if r < p // 2 else (up, down)
        after = min(r, p - 1 - r) + 1
        ranks.append(_rank(near, far, p // 2 - after, after, m // 2))
    return tuple(ranks)


def dualpipe_v(placement: tuple[int, ...], m: int) -> Actions:
    """DualPipeV (github.com/deepseek-ai/DualPipe; ScheduleDualPipeV of torch.distributed.pipelining): DualPipe cut in half.

    Stages r and 2p-1-r on rank r, one copy of the model, so P = 2p stages; m at least P. Bubble (P/2-1)(FB+B-3W), exact where
    DualPipe's is; P+1 forwards of one stage in flight on each rank. Parameters count twice against one stage a rank.

    >>> [" ".join(map(str, rank)) for rank in dualpipe_v((0, 0), 2)][0]
    '0F0 1F0 0F1 1B0 (1F1;0B0)OVERLAP_F_B 1B1 0I1 0W1'
    """
    p = ranks_of(placement)
    expect_placement("dualpipe-v", placement, wave(p, 2), "placement: wave with chunks: 2")
    if m < 2 * p:
        raise ValueError(f"order dualpipe-v needs as many micro-batches as stages, got {m}; allowed: {2 * p} or more")
    return tuple(_rank(_Half(r, 0), _Half(2 * p - 1 - r, 0), p - 1 - r, r + 1, m) for r in range(p))


DUAL_PIPE = {
    "dualpipe": Order(
        dualpipe,
        paper="DeepSeek-V3 (2024), arXiv 2412.19437",
        makespan="work and (p/2-1)(FB+B-3W), times of one stage, FB an overlapped pair; F = I, W <= F",
        in_flight="p+1",
        chunks=2,
        placement="bidirectional",
    ),
    "dualpipe-v": Order(
        dualpipe_v,
        paper="DualPipeV (2025), github.com/deepseek-ai/DualPipe, after arXiv 2412.19437",
        makespan="work and (p-1)(FB+B-3W), times of one stage, FB an overlapped pair; F = I, W <= F",
        in_flight="2p+1",
        chunks=2,
        placement="wave",
    ),
}
