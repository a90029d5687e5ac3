"""Sets of half-open intervals [start, end) of integers, as two sorted arrays of disjoint pieces.

>>> communication, compute = union([0], [10]), union([5], [15])
>>> length(communication), length(intersection(communication, compute)), length(difference(communication, compute))
(10, 5, 5)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Intervals(NamedTuple):
    """Disjoint, sorted, non-empty pieces; starts and ends in ps."""

    start: np.ndarray
    end: np.ndarray


def union(start: ArrayLike, end: ArrayLike) -> Intervals:
    """Merge intervals in any order; empty ones vanish.

    >>> union([5, 0, 2, 9], [7, 2, 4, 9])
    Intervals(start=array([0, 5]), end=array([4, 7]))
    """
    start, end = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return Intervals(start, end)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    opens = np.concatenate([[True], start[1:] > end[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Intervals(start[opens], end[closes])


def length(pieces: Intervals) -> int:
    return int((pieces.end - pieces.start).sum())


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """What lies in both."""
    bounds = np.unique(np.concatenate([*a, *b]))
    inside = _covers(a, bounds[:-1]) & _covers(b, bounds[:-1])
    return union(bounds[:-1][inside], bounds[1:][inside])


def difference(a: Intervals, b: Intervals) -> Intervals:
    """What lies in ``a`` and not in ``b``."""
    bounds = np.unique(np.concatenate([*a, *b]))
    inside = _covers(a, bounds[:-1]) & ~_covers(b, bounds[:-1])
    return union(bounds[:-1][inside], bounds[1:][inside])


def _covers(pieces: Intervals, points: np.ndarray) -> np.ndarray:
    position = np.searchsorted(pieces.start, points, side="right") - 1
    if not len(pieces.start):
        return np.zeros(len(points), dtype=bool)
    return (position >= 0) & (points < pieces.end[np.maximum(position, 0)])
