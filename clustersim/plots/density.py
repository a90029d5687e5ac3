"""Boxes that are too narrow to draw, as pixels: how much of each bin each kind fills, and one colour a bin.

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
_ROWS_AT_ONCE = 64  # bounds the memory: rows x kinds x shades x bins numbers of 8 bytes
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


def dither(covered: np.ndarray) -> np.ndarray:
    """For each row and bin the kind that colours it, -1 where there is none; ``covered`` is rows x kinds x bins.

    Along a row each kind gets as many bins as its share of the time. Were it always the largest share, a forward that takes
    half as long as the backward would vanish altogether.
    """
    rows, kinds, bins = covered.shape
    chosen = np.full((rows, bins), -1, dtype=np.int64)
    credit = np.zeros((rows, kinds))
    each = np.arange(rows)
    for bin_ in range(bins):
        share = covered[:, :, bin_]
        busy = share.sum(axis=1)
        credit += share
        best = np.where(share > 0, credit, -np.inf).argmax(axis=1)
        credit[each, best] -= busy
        chosen[:, bin_] = np.where(busy > 0, best, -1)
    return chosen


def strips(
    boxes: Boxes, *, rows: int, colours: np.ndarray, begin_ps: int, end_ps: int, bins: int
) -> np.ndarray:
    """RGBA of each row and bin, rows x bins x 4 in 0..1; ``colours`` is kinds x 2 shades x RGB.

    The colour is that of one kind (see ``dither``), between its shades where both occur; opacity is the busy part of the bin.
    """
    picture = np.zeros((rows, bins, 4), dtype=np.float32)
    for first in range(0, rows, _ROWS_AT_ONCE):
        last = min(first + _ROWS_AT_ONCE, rows)
        lower, upper = np.searchsorted(boxes.row, (first, last))
        if lower == upper:
            continue
        part = boxes.take(np.arange(lower, upper))
        shifted = Boxes(part.row - first, part.kind, part.shade, part.micro_batch, part.start_ps, part.end_ps)
        covered = coverage(shifted, rows=last - first, kinds=len(colours), begin_ps=begin_ps, end_ps=end_ps, bins=bins)
        picture[first:last] = _colour(covered, colours)
    return picture


def _colour(covered: np.ndarray, colours: np.ndarray) -> np.ndarray:
    by_kind = covered.sum(axis=2)
    chosen = dither(by_kind)
    row, bin_ = np.nonzero(chosen >= 0)
    kind = chosen[row, bin_]
    shares = covered[row, kind, :, bin_]
    mixed = (shares[:, :, None] * colours[kind]).sum(axis=1) / shares.sum(axis=1)[:, None]
    picture = np.zeros((*chosen.shape, 4))
    picture[row, bin_, :3] = mixed
    picture[row, bin_, 3] = np.clip(by_kind.sum(axis=1)[row, bin_], FAINTEST, 1.0)
    return picture
