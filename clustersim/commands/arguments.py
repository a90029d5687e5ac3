"""Values of options that several commands take."""

from __future__ import annotations

import re

from clustersim.document import clipped
from clustersim.errors import InputError

_LARGEST = 10**6
_PART = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


def rank_numbers(option: str, text: str) -> list[int]:
    """``0-3,8`` as numbers, in the order given.

    >>> rank_numbers("--ranks", "8,0-3")
    [8, 0, 1, 2, 3]
    """
    place = f"{option} {clipped(text)}"
    ranks: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, _LARGEST + 1)
        if low > high:
            raise InputError(f"{place}: the range {low}-{high} is reversed; write the smaller rank first: {high}-{low}")
        if high > _LARGEST:
            raise InputError(f"{place}: expected rank numbers and ranges up to {_LARGEST:,}, for example 0-3,8")
        ranks += range(low, high + 1)
        if len(ranks) > _LARGEST:
            raise InputError(f"{place}: more than {_LARGEST:,} ranks; allowed: at most that many")
    return ranks
