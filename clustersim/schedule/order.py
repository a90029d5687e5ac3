"""What an order of the work is: a pure function, with its source and its laws beside it.

Letters: p ranks, v stages per rank, m micro-batches, r a rank; F, B, I, W the time of a forward, full backward, input gradient and weight
gradient of a whole rank and micro-batch (F/v of one stage).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.schedule.actions import Actions


@dataclass(frozen=True)
class Order:
    """``run(placement, m, **options)`` gives the actions of each rank, or a ValueError that says what it does not allow and why.

    ``placement`` is the one it is made for. ``chunks`` is the number of stages per rank when the user names none; None: one layer
    a stage. ``makespan`` and ``in_flight`` (forwards of one stage whose backward has not ended, on rank r) are laws in words, empty
    where none is known. ``slices`` are those of a micro-batch's sequence when the user names none.
    """

    run: Callable[..., Actions]
    paper: str
    makespan: str
    in_flight: str
    chunks: int | None = 1
    options: tuple[str, ...] = ()
    placement: str = "contiguous"
    slices: int = 1


def ranks_of(placement: tuple[int, ...]) -> int:
    """
    >>> ranks_of((0, 1, 0, 1))
    2
    """
    return max(placement) + 1


def expect_placement(order: str, placement: tuple[int, ...], expected: tuple[int, ...], what: str) -> None:
    """ValueError, with what the order needs, when the stages lie in another way.

    >>> expect_placement("zb-v", (0, 1, 0, 1), (0, 1, 1, 0), "placement: wave with chunks: 2")
    Traceback (most recent call last):
    ...
    ValueError: order zb-v does not take its stages so; allowed: placement: wave with chunks: 2
    """
    if placement != expected:
        raise ValueError(f"order {order} does not take its stages so; allowed: {what}")
