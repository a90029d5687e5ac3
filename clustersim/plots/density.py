"""Boxes that are too narrow to draw, as pixels: how much of each bin each kind fills, and the colours of that.

>>> import numpy as np
>>> one, zero = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
>>> boxes = Boxes(row=zero, kind=zero, shade=zero, micro_batch=zero, start_ps=zero + 5, end_ps=zero + 25)
>>> coverage(boxes, rows=1, kinds=1, begin_ps=0, end_ps=40, bins=4)[0, 0, 0]
array([0.5, 1. , 0.5, 0. ])
"""

from __future__ import annotations

import numpy as np

from clustersim.plots.layout import Boxes

FAINTEST = 0.3
"""Opacity of a bin that is hardly busy, so that a lone short op is still seen."""

_SHADES = 2
_ROWS_AT_ONCE = 32  # bounds the memory: rows x kinds x shades x bins numbers of 8 bytes
_NOTHING = 1e-9


def coverage(boxes: Boxes, *, rows: int, kinds: int, begin_ps: int, end_ps: int, bins: int) -> np.ndarray:
    """The part of each bin that boxes cover, as rows x kinds x 2 shades x bins; above 1 where boxes overlap.

    The bins divide the time from ``begin_ps`` to ``end_ps`` evenly; what lies outside is cut off.
    """
    scale = bins / (end_ps - begin_ps)
    series = (boxes.row * kinds + boxes.kind) * _SHADES + boxes.shade
    width = bins + 2
    size = rows * kinds * _SHADES * width
    covered = np.zeros(size)
    for times, sign in ((boxes.start_ps, 1.0), (boxes.end_ps, -1.0)):
        place = np.clip((times - begin_ps) * scale, 0.0, bins)
        bin_ = place.astype(np.int64)
        at = series * width + bin_
        # A step at `place` fills the rest of its bin and all of every later one; the running sum below spreads the latter.
        rest = bin_ + 1 - place
        covered += sign * np.bincount(at, weights=rest, minlength=size)
        covered += sign * np.bincount(at + 1, weights=1.0 - rest, minlength=size)
    covered = covered.reshape(rows, kinds, _SHADES, width).cumsum(axis=-1)[..., :bins]
    covered[covered < _NOTHING] = 0.0  # what rounding leaves behind
    return covered


def stack(covered: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The kind at each height (0 top, 1 bottom) of a row in each bin, heights x bins; ``covered`` is kinds x bins.

    Each kind takes its share of the height, so that none vanishes beside a longer one and no mixed colour passes for another
    kind. Where nothing is covered the answer means nothing.

    >>> stack(np.array([[0.2, 1.0], [0.6, 0.0]]), np.array([0.1, 0.9])).tolist()
    [[0, 0], [1, 0]]
    """
    below = covered.sum(axis=0) * heights[:, None]
    return (covered.cumsum(axis=0)[None, :-1] <= below[:, None]).sum(axis=1)


def strips(
    boxes: Boxes, *, row: np.ndarray, height: np.ndarray, colours: np.ndarray, begin_ps: int, end_ps: int, bins: int
) -> np.ndarray:
    """RGBA in 0..1 of pixel lines, lines x bins x 4; ``colours`` is kinds x 2 shades x RGB.

    ``row`` is the row that each line belongs to (-1: none), ``height`` where in the row it runs, from 0 at the top to 1. A bin
    shows its kinds stacked, each between its shades where both occur; opacity is the busy part of the bin.
    """
    picture = np.zeros((len(row), bins, 4), dtype=np.float32)
    for first in range(0, int(row.max(initial=-1)) + 1, _ROWS_AT_ONCE):
        lower, upper = np.searchsorted(boxes.row, (first, first + _ROWS_AT_ONCE))
        part = boxes.take(np.arange(lower, upper))
        shifted = Boxes(part.row - first, part.kind, part.shade, part.micro_batch, part.start_ps, part.end_ps)
        covered = coverage(
            shifted, rows=_ROWS_AT_ONCE, kinds=len(colours), begin_ps=begin_ps, end_ps=end_ps, bins=bins
        )
        for index in np.unique(part.row).tolist():
            lines = np.flatnonzero(row == index)
            picture[lines] = _colour(covered[index - first], height[lines], colours)
    return picture


def _colour(covered: np.ndarray, heights: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """RGBA of the lines of one row from its kinds x shades x bins."""
    by_kind = covered.sum(axis=1)
    mixed = np.einsum("ksb,ksc->kbc", covered, colours) / np.maximum(by_kind, _NOTHING)[:, :, None]
    busy = by_kind.sum(axis=0)
    opacity = np.where(busy > 0, np.clip(busy, FAINTEST, 1.0), 0.0)
    colour = mixed[stack(by_kind, heights), np.arange(len(busy))]
    return np.concatenate([colour, np.broadcast_to(opacity[:, None], (len(heights), len(busy), 1))], axis=-1)
