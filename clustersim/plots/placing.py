"""Where things stand on the page: heights of rows, lanes of overlapping boxes, which labels and numbers fit. No drawing.

Lengths are in inches from the top of a panel downwards, times in ps.

>>> from clustersim.plots.layout import Row
>>> bands = place_rows([Row(0, "compute"), Row(0, "send"), Row(1, "compute")], room_in=1.0)
>>> bool(bands.height_in[0] > bands.height_in[1]), bool(bands.total_in <= 1.0)
(True, True)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.plots.layout import Boxes, Row

_COMPUTE_IN, _SMALLEST_IN = 0.30, 0.02
_COMMUNICATION, _GAP, _RANK_GAP = 0.42, 0.07, 0.30  # as parts of the height of a compute row
_DIGIT_EM = 0.6363  # every digit of DejaVu Sans, which matplotlib brings along, is this wide
_AROUND_EM = 0.25  # left free beside a number
_RANK_APART = 1.4  # rank labels in a row look crowded when they nearly touch


@dataclass(frozen=True)
class Bands:
    """Top and height of each row, and the height of all of them together, in inches."""

    top_in: np.ndarray
    height_in: np.ndarray
    total_in: float


def place_rows(rows: Sequence[Row], room_in: float) -> Bands:
    """Stack the rows: compute (and streams of a profiler) tall, communication thin, a gap between ranks; shrunk to ``room_in`` as far as
    that stays visible.
    """
    heights = np.array([1.0 if row.tall else _COMMUNICATION for row in rows])
    new_rank = [above.rank != below.rank for above, below in itertools.pairwise(rows)]
    gaps = np.array([_RANK_GAP / 2, *(_RANK_GAP if new else _GAP for new in new_rank)])
    tops = np.cumsum(gaps) + np.append(0.0, np.cumsum(heights)[:-1])
    total = tops[-1] + heights[-1] + _RANK_GAP / 2
    unit = max(min(_COMPUTE_IN, room_in / total), _SMALLEST_IN)
    return Bands(tops * unit, heights * unit, float(total * unit))


def lanes(boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
    """For each box its lane and the number of lanes there: boxes of a row that overlap in time stand beside each other.

    Only the boxes of one knot of overlaps share their height; all others keep the full height of the row.
    """
    lane, knot = np.zeros(len(boxes), dtype=np.int64), _knots(boxes)
    ends: list[int] = []
    current = -1
    for index in np.flatnonzero(np.bincount(knot, minlength=1)[knot] > 1).tolist():
        if knot[index] != current:
            current, ends = knot[index], []
        start = int(boxes.start_ps[index])
        lane[index] = next((number for number, taken in enumerate(ends) if taken <= start), len(ends))
        ends[lane[index] : lane[index] + 1] = [int(boxes.end_ps[index])]
    deepest = np.zeros(knot.max(initial=-1) + 1, dtype=np.int64)
    np.maximum.at(deepest, knot, lane)
    return lane, deepest[knot] + 1


def _knots(boxes: Boxes) -> np.ndarray:
    """A number for each box, the same for those that overlap directly or through others."""
    begins = np.ones(len(boxes), dtype=bool)
    for same_row in np.split(np.arange(len(boxes)), np.flatnonzero(np.diff(boxes.row)) + 1):
        reach = np.maximum.accumulate(boxes.end_ps[same_row])
        begins[same_row[1:]] = boxes.start_ps[same_row[1:]] >= reach[:-1]
    return np.cumsum(begins) - 1


def number_fits(numbers: np.ndarray, width_px: np.ndarray, height_px: np.ndarray, font_px: float, most: int) -> np.ndarray:
    """Which boxes can hold their number in a font of ``font_px`` pixels; the widest ones where more than ``most`` could.

    A negative number is none. Boxes of one width get their numbers together or not at all.
    """
    digits = np.floor(np.log10(np.maximum(numbers, 1))) + 1
    fits = (numbers >= 0) & ((digits * _DIGIT_EM + _AROUND_EM) * font_px <= width_px) & (font_px <= height_px)
    if fits.sum() > most:
        narrowest = np.sort(width_px[fits])[::-1][most]
        fits &= width_px > narrowest
    return fits


def thin_labels(rows: Sequence[Row], bands: Bands, text_in: float) -> list[int]:
    """The rows whose labels, ``text_in`` high, do not overlap: each rank's first row, or every k-th one; then others with room."""
    firsts = [index for index, row in enumerate(rows) if index == 0 or rows[index - 1].rank != row.rank]
    middle = bands.top_in + bands.height_in / 2
    step = next(k for k in _steps(len(firsts)) if _apart(middle[firsts[::k]], _RANK_APART * text_in))
    kept = set(firsts[::step])
    if step == 1:
        for index in range(len(rows)):
            if index not in kept and all(abs(middle[index] - middle[other]) >= text_in for other in kept):
                kept.add(index)
    return sorted(kept)


def _apart(middle: np.ndarray, text_in: float) -> bool:
    return len(middle) < 2 or bool(np.diff(middle).min() >= text_in)


def _steps(most: int) -> list[int]:
    """1, 2, 4, 5, 8, 10, 16, 20, ..., and at last ``most``, which leaves one label."""
    steps = {factor * 2**power for factor in (1, 5) for power in range(most.bit_length())}
    return [*sorted(step for step in steps if step < most), most]
