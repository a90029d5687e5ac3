"""A hash of 64 bits on arrays, the same on every machine."""

from __future__ import annotations

import numpy as np


def hashed(values: np.ndarray) -> np.ndarray:
    """Vigna's splitmix64 of unsigned integers: every bit of the result depends on every bit of the value.

    >>> hashed(np.array([0], dtype=np.uint64)).tolist()
    [16294208416658607535]
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
