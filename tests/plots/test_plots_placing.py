"""Lanes, labels, numbers, pixel strips and colours, without drawing."""

from itertools import combinations

import numpy as np
import pytest

from clustersim.plots.density import coverage, stack, strips
from clustersim.plots.layout import Boxes, Row
from clustersim.plots.panel import MAX_POLYGONS, Scale, rectangles, split_by_width
from clustersim.plots.placing import Bands, lanes, number_fits, place_rows, thin_labels
from clustersim.plots.style import IDLE, MEMORY_STYLES, SHADED_KINDS, STYLES, ink_on, luminance, rgb, shades, style

# Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
SIDE_BY_SIDE = [
    ("forward", "recompute"), ("forward", "backward"), ("recompute", "backward"), ("forward", "input"), ("forward", "weight"),
    ("input", "weight"), ("backward", "optimizer"), ("weight", "optimizer"), ("reduce", "gather"), ("send", "recv"),
    ("tensor", "reduce"), ("tensor", "gather"), ("tensor", "send"), ("tensor", "recv"),
]  # fmt: skip


def boxes_at(*spans, row=0, kind=0):
    starts, ends = (np.array(times, dtype=np.int64) for times in zip(*spans, strict=True))
    same = np.zeros(len(spans), dtype=np.int64)
    return Boxes(same + row, same + kind, same, same, starts, ends)


def lab(colour, sight="normal"):
    """CIELAB (D65) of an sRGB colour as seen."""
    srgb = np.asarray(colour)
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(SIGHT[sight]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
    x, y, z = (to_xyz @ seen) / (0.95047, 1.0, 1.08883)
    f = [np.cbrt(part) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_any_two_kinds_differ_in_every_shade_for_every_sight(sight):
    for one, other in combinations(STYLES, 2):
        distances = [np.linalg.norm(lab(a, sight) - lab(b, sight)) for a in shades(one) for b in shades(other)]
        assert min(distances) >= 9, (one, other)


@pytest.mark.parametrize(("one", "other"), SIDE_BY_SIDE)
def test_neighbours_in_a_chart_differ_in_grey(one, other):
    assert abs(lab(rgb(style(one).colour))[0] - lab(rgb(style(other).colour))[0]) >= 7


@pytest.mark.parametrize("kind", STYLES)
def test_no_kind_looks_idle_and_numbers_stand_out(kind):
    for shade in shades(kind):
        assert np.linalg.norm(lab(shade) - lab(rgb(IDLE))) >= 20
        lower, upper = sorted((luminance(shade), luminance(rgb(ink_on(shade)))))
        assert (upper + 0.05) / (lower + 0.05) >= 3


@pytest.mark.parametrize("sight", SIGHT)
def test_kinds_of_memory_differ_for_every_sight(sight):
    for one, other in combinations(MEMORY_STYLES.values(), 2):
        assert np.linalg.norm(lab(rgb(one.colour), sight) - lab(rgb(other.colour), sight)) >= 15, (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("weights", "gradients"), ("gradients", "optimizer"), ("optimizer", "buffers"), ("optimizer", "activations"),
     ("buffers", "activations")],
)
def test_kinds_of_memory_that_lie_on_one_another_differ_in_grey(one, other):
    assert abs(lab(rgb(MEMORY_STYLES[one].colour))[0] - lab(rgb(MEMORY_STYLES[other].colour))[0]) >= 12


def test_shades_differ_where_they_mean_something():
    for kind in STYLES:
        dark, light = shades(kind)
        assert (luminance(light) > luminance(dark)) == (kind in SHADED_KINDS)


def test_corners_are_the_times_of_the_ops_on_the_axis():
    bands = Bands(np.array([0.1, 0.6]), np.array([0.4, 0.2]), 1.0)
    scale = Scale(1e9, 0, 10**10, 1000)
    corners = rectangles(boxes_at((10**9, 3 * 10**9), (4 * 10**9, 9 * 10**9), row=1), bands, scale)
    assert corners[:, :, 0].tolist() == [[1, 1, 3, 3], [4, 4, 9, 9]]
    assert corners[0, :, 1] == pytest.approx([0.6, 0.8, 0.8, 0.6])


def test_boxes_that_overlap_stand_in_lanes_and_others_keep_the_full_height():
    boxes = boxes_at((0, 10), (5, 12), (10, 15), (20, 30), (30, 40))
    lane, depth = lanes(boxes)
    assert lane.tolist() == [0, 1, 0, 0, 0]
    assert depth.tolist() == [2, 2, 2, 1, 1]


def test_boxes_of_different_rows_do_not_overlap():
    first, second = boxes_at((0, 10)), boxes_at((5, 15), row=1)
    both = Boxes(*(np.concatenate([getattr(part, name) for part in (first, second)]) for name in Boxes.__dataclass_fields__))
    assert lanes(both)[1].tolist() == [1, 1]


def test_numbers_stand_only_where_they_fit():
    numbers, width = np.array([5, 15, 155, 5, -1]), np.array([10.0, 10.0, 100.0, 100.0, 100.0])
    height = np.array([20.0, 20.0, 20.0, 9.0, 20.0])
    assert number_fits(numbers, width, height, 10.0, 100).tolist() == [True, False, True, False, False]


def test_of_too_many_numbers_the_widest_remain_and_equals_go_together():
    width = np.array([50.0, 40.0, 30.0, 30.0, 20.0])
    assert number_fits(np.ones(5), width, width, 10.0, 3).tolist() == [True, True, False, False, False]


def test_labels_are_thinned_until_they_do_not_overlap():
    rows = [Row(rank, family) for rank in range(64) for family in ("compute", "communication")]
    bands = place_rows(rows, room_in=2.0)
    kept = thin_labels(rows, bands, text_in=0.1)
    middle = (bands.top_in + bands.height_in / 2)[kept]
    assert np.diff(middle).min() >= 0.1
    assert [rows[index].rank for index in kept] == list(range(0, 64, 4))


def test_with_room_every_row_has_a_label():
    rows = [Row(rank, family) for rank in range(4) for family in ("compute", "tensor", "send", "recv")]
    assert thin_labels(rows, place_rows(rows, room_in=8.5), text_in=0.1) == list(range(16))


def test_the_covered_part_of_each_bin_is_exact():
    boxes = boxes_at((0, 5), (12, 38), (39, 40))
    covered = coverage(boxes, rows=1, kinds=1, begin_ps=0, end_ps=40, bins=4)[0, 0, 0]
    assert covered == pytest.approx([0.5, 0.8, 1.0, 0.9])


def test_what_lies_outside_the_window_is_cut_off():
    covered = coverage(boxes_at((-10, 5), (35, 90)), rows=1, kinds=1, begin_ps=0, end_ps=40, bins=4)[0, 0, 0]
    assert covered == pytest.approx([0.5, 0, 0, 0.5])


def test_each_kind_gets_its_share_of_the_height():
    covered = np.array([[0.3, 0.0, 0.0], [0.6, 0.0, 0.5]])
    kinds = stack(covered, (np.arange(30) + 0.5) / 30)
    assert np.bincount(kinds[:, 0]).tolist() == [10, 20]
    assert (kinds[:, 2] == 1).all()


def strips_of(boxes, kinds, row, height, bins, end):
    colours = np.array([shades(kind) for kind in kinds])
    return strips(boxes, row=np.array(row), height=np.array(height), colours=colours, begin_ps=0, end_ps=end, bins=bins)


def test_a_short_op_leaves_a_mark_of_its_colour_in_its_row_alone():
    picture = strips_of(boxes_at((500, 501), row=40), ["send"], [-1, 39, 40, 40, 41], [0, 0.5, 0.2, 0.8, 0.5], 10, 10**6)
    for line in (2, 3):
        assert picture[line, 0, :3] == pytest.approx(rgb(style("send").colour), abs=1e-6)
        assert picture[line, 0, 3] >= 0.3
    assert picture[:, 1:, 3].max() == picture[[0, 1, 4], :, 3].max() == 0


def test_a_full_bin_is_opaque_and_between_its_shades():
    both = Boxes(*(np.array(values) for values in ([0, 0], [0, 0], [0, 1], [0, 0], [0, 5], [5, 10])))
    colour = strips_of(both, ["forward"], [0], [0.5], 1, 10)[0, 0]
    assert colour == pytest.approx([*np.mean(shades("forward"), axis=0), 1.0], abs=1e-6)


def test_the_number_of_polygons_is_bounded():
    width = np.geomspace(0.01, 2000.0, 10**6)
    chosen = split_by_width(width)
    assert 0 < chosen.sum() <= MAX_POLYGONS
    assert width[chosen].min() > width[~chosen].max()
