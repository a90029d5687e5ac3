"""Where the stages lie: stage -> pipeline rank, for ``p`` ranks with ``v`` stages each."""

from __future__ import annotations

from collections.abc import Callable


def contiguous(p: int, v: int) -> tuple[int, ...]:
    """Each rank holds ``v`` neighbouring stages.

    >>> contiguous(2, 2)
    (0, 0, 1, 1)
    """
    return tuple(stage // v for stage in range(p * v))


def modular(p: int, v: int) -> tuple[int, ...]:
    """Stages are dealt out in turn (looped placement).

    >>> modular(2, 2)
    (0, 1, 0, 1)
    """
    return tuple(stage % p for stage in range(p * v))


def wave(p: int, v: int) -> tuple[int, ...]:
    """There and back again (the V placement with two stages a rank), so that neighbours at the turns lie on one rank.

    >>> wave(3, 2), wave(2, 4)
    ((0, 1, 2, 2, 1, 0), (0, 1, 1, 0, 0, 1, 1, 0))
    """
    return tuple(stage % p if stage // p % 2 == 0 else p - 1 - stage % p for stage in range(p * v))


def bidirectional(p: int, v: int) -> tuple[int, ...]:
    """The model twice, the second copy from the last rank to the first; ``v`` counts the stages of both copies.

    >>> bidirectional(3, 2)
    (0, 1, 2, 2, 1, 0)
    """
    if v % 2:
        needed = "each rank holds as many stages of one copy of the model as of the other"
        raise ValueError(f"{needed}, got chunks: {v}; allowed: an even number")
    one = modular(p, v // 2)
    return (*one, *(p - 1 - rank for rank in one))


PLACEMENTS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "contiguous": contiguous,
    "modular": modular,
    "wave": wave,
    "bidirectional": bidirectional,
}
PIPES = {"bidirectional": 2}
"""Copies of the model, where there are several."""
