"""Values of options that several commands take."""

from __future__ import annotations

from clustersim.errors import InputError

_LARGEST = 10**6


def rank_numbers(option: str, text: str) -> list[int]:
    """``0-3,8`` as numbers, in the order given.

    >>> rank_numbers("--ranks", "8,0-3")
    [8, 0, 1, 2, 3]
    """
    ranks: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            low, high = int(first), int(last) if dash else int(first)
            if not 0 <= low <= high <= _LARGEST:
                raise ValueError
            ranks += range(low, high + 1)
    except ValueError:
        raise InputError(f"{option} {text}: expected rank numbers and ranges up to {_LARGEST:,}, for example 0-3,8") from None
    return ranks
