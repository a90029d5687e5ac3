"""One panel of a Gantt chart: the boxes, pixel strips and numbers of one trace, drawn into matplotlib axes.

A box is drawn as a polygon while it is wide enough for an edge and there are not too many; the rest becomes a strip of pixels
per row, so that neither the time to draw nor the size of the file grows with the number of ops.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clustersim.plots.density import strips
from clustersim.plots.layout import COMMUNICATION, Boxes, Chart
from clustersim.plots.placing import Bands, lanes, number_fits, thin_labels
from clustersim.plots.style import FAINT_INK, IDLE, INK, SHADED_KINDS, ink_on, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POLYGONS = 30_000
MAX_NUMBERS = 1_200

TITLE_PT, TITLE_LINE_IN = 10.0, 0.2
LABEL_PT = 7.0
EM = 0.62  # how wide a letter is, of its size; a little more than most
COMMUNICATION_PT = 6.0
_NUMBERS_PT = (7.0, 6.0, 5.0)
_POLYGON_FROM_PX = 3.0
_EDGE_PT = 0.4
_BAND, _BOX, _STRIP, PATH, _LINE, _TEXT = range(1, 7)


def title_lines(title: str, width_in: float) -> list[str]:
    """A title of a picture in lines of about this width.

    >>> title_lines("standard: x-32, pcie-ethernet", 1.5)
    ['standard: x-32,', 'pcie-ethernet']
    """
    return textwrap.wrap(title, max(1, int(width_in * 72 / (EM * TITLE_PT)))) or [""]


@dataclass(frozen=True)
class Scale:
    """From ps to the numbers of the time axis, and to pixels: ``pixels`` of the width show ``begin_ps`` to ``end_ps``."""

    unit_ps: float
    begin_ps: int
    end_ps: int
    pixels: int

    def axis(self, ps: np.ndarray | float) -> np.ndarray:
        return np.asarray(ps) / self.unit_ps

    def width_px(self, boxes: Boxes) -> np.ndarray:
        """Visible width of each box."""
        visible = np.minimum(boxes.end_ps, self.end_ps) - np.maximum(boxes.start_ps, self.begin_ps)
        return visible * (self.pixels / (self.end_ps - self.begin_ps))


def split_by_width(width_px: np.ndarray) -> np.ndarray:
    """Which boxes become polygons: those at least 3 pixels wide, or 6, 12, ... where that leaves more than MAX_POLYGONS.

    >>> split_by_width(np.array([0.2, 3.0])).tolist()
    [False, True]
    """
    least = _POLYGON_FROM_PX
    while (width_px >= least).sum() > MAX_POLYGONS:
        least *= 2
    return width_px >= least


def rectangles(boxes: Boxes, bands: Bands, scale: Scale) -> np.ndarray:
    """Corners of the boxes as n x 4 x 2: time in the unit of the axis, inches from the top of the panel."""
    lane, depth = lanes(boxes)
    height = bands.height_in[boxes.row] / depth
    top = bands.top_in[boxes.row] + lane * height
    start, end = scale.axis(boxes.start_ps), scale.axis(boxes.end_ps)
    corners = [(start, top), (start, top + height), (end, top + height), (end, top)]
    return np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)


def draw_panel(axes: Axes, chart: Chart, bands: Bands, scale: Scale, dpi: float) -> bool:
    """Draw a chart into axes whose height is ``bands.total_in`` inches; whether part of it became pixel strips."""
    axes.set_xlim(scale.axis(scale.begin_ps), scale.axis(scale.end_ps))
    axes.set_ylim(bands.total_in, 0.0)
    _draw_idle(axes, chart, bands, scale)
    width = scale.width_px(chart.boxes)
    wide = split_by_width(width)
    _draw_boxes(axes, chart, chart.boxes.take(wide), bands, scale)
    _draw_numbers(axes, chart, chart.boxes.take(wide), width[wide], bands, scale, dpi)
    if not wide.all():
        _draw_strips(axes, chart, chart.boxes.take(~wide), bands, scale, dpi)
    _label_rows(axes, chart, bands)
    axes.tick_params(axis="y", length=0, pad=4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return not wide.all()


def mark_step_end(axes: Axes, chart: Chart, scale: Scale, text: str) -> None:
    """A thin line where the step ends, with the time beside it."""
    end = scale.axis(chart.step_end_ps)
    axes.axvline(end, color=INK, linewidth=0.8, zorder=_LINE)
    axes.annotate(text, (end, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -2), textcoords="offset points",
                  ha="left", va="top", fontsize=LABEL_PT + 1, color=INK, zorder=_TEXT, annotation_clip=False)  # fmt: skip


def _draw_idle(axes: Axes, chart: Chart, bands: Bands, scale: Scale) -> None:
    """The ground of each row: what no box covers is idle. It ends with the step."""
    from matplotlib.collections import PolyCollection

    rows = np.arange(len(chart.rows))
    ones = np.ones_like(rows)
    end = min(chart.step_end_ps, chart.end_ps)
    ground = Boxes(rows, rows, rows, rows, ones * chart.begin_ps, ones * end)
    axes.add_collection(
        PolyCollection(rectangles(ground, bands, scale), facecolors=IDLE, edgecolors="none", zorder=_BAND), autolim=False
    )


def _draw_boxes(axes: Axes, chart: Chart, boxes: Boxes, bands: Bands, scale: Scale) -> None:
    from matplotlib.collections import PolyCollection

    corners = rectangles(boxes, bands, scale)
    for code, kind in enumerate(chart.kinds):
        mine = boxes.kind == code
        if mine.any():
            collection = PolyCollection(
                corners[mine],
                facecolors=np.array(shades(kind))[boxes.shade[mine]],
                edgecolors="white",
                linewidths=_EDGE_PT,
                zorder=_BOX,
                label=kind,
            )
            axes.add_collection(collection, autolim=False)


def _draw_strips(axes: Axes, chart: Chart, boxes: Boxes, bands: Bands, scale: Scale, dpi: float) -> None:
    """One picture over the whole panel with the pixel strip of each row at its place."""
    colours = np.array([shades(kind) for kind in chart.kinds])
    lines = max(round(bands.total_in * dpi), 1)
    middle = (np.arange(lines) + 0.5) * bands.total_in / lines
    row = np.searchsorted(bands.top_in, middle, side="right") - 1
    height = (middle - bands.top_in[row]) / bands.height_in[row]
    row = np.where((row >= 0) & (height < 1), row, -1)
    image = strips(
        boxes, row=row, height=height, colours=colours, begin_ps=scale.begin_ps, end_ps=scale.end_ps, bins=scale.pixels
    )
    left, right = scale.axis(scale.begin_ps), scale.axis(scale.end_ps)
    axes.imshow(image, extent=(left, right, bands.total_in, 0.0), aspect="auto", interpolation="none", zorder=_STRIP)


def _draw_numbers(
    axes: Axes, chart: Chart, boxes: Boxes, width_px: np.ndarray, bands: Bands, scale: Scale, dpi: float
) -> None:
    """Micro-batch numbers in the boxes of forwards and backwards; a recompute has that of the backward beside it."""
    height_in = bands.height_in[boxes.row]
    numbered = np.isin(boxes.kind, [code for code, kind in enumerate(chart.kinds) if kind in SHADED_KINDS])
    numbers = np.where(numbered, boxes.micro_batch, -1)
    font_pt = np.zeros(len(boxes))
    for size_pt in sorted(_NUMBERS_PT):
        font_pt[number_fits(numbers, width_px, height_in * dpi, size_pt * dpi / 72, MAX_NUMBERS)] = size_pt
    start = scale.axis(np.maximum(boxes.start_ps, scale.begin_ps))
    end = scale.axis(np.minimum(boxes.end_ps, scale.end_ps))
    middle = bands.top_in[boxes.row] + height_in / 2
    inks = [[ink_on(colour) for colour in shades(kind)] for kind in chart.kinds]
    for index in np.flatnonzero(font_pt).tolist():
        axes.text((start[index] + end[index]) / 2, middle[index], str(numbers[index]), ha="center", va="center_baseline",
                  fontsize=font_pt[index], color=inks[boxes.kind[index]][boxes.shade[index]], zorder=_TEXT)  # fmt: skip


def _label_rows(axes: Axes, chart: Chart, bands: Bands) -> None:
    kept = thin_labels(chart.rows, bands, COMMUNICATION_PT * 1.1 / 72)
    axes.set_yticks((bands.top_in + bands.height_in / 2)[kept])
    axes.set_yticklabels(row_labels(chart, kept), fontsize=LABEL_PT, color=INK)
    for index, label in zip(kept, axes.get_yticklabels(), strict=True):
        if not chart.rows[index].tall:
            label.set(color=FAINT_INK, fontsize=COMMUNICATION_PT)


def row_labels(chart: Chart, kept: list[int]) -> list[str]:
    """``rank 0 compute`` for the first row of a rank, ``send`` for the others; ``rank 0`` alone where all but compute is merged."""
    merged = any(row.family == COMMUNICATION for row in chart.rows)
    firsts = {index for index, row in enumerate(chart.rows) if index == 0 or chart.rows[index - 1].rank != row.rank}
    heads = [row.rank_label if merged else row.label for row in chart.rows]
    return [heads[index] if index in firsts else chart.rows[index].family_label for index in kept]
