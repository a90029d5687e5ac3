"""The stacked utilization and the heat map of links, looked at as drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from clustersim.analysis.activity import EXPOSED, IDLE
from clustersim.analysis.idle import CAUSES
from clustersim.analysis.streams import FAMILIES, PROFILED_COMMUNICATION
from clustersim.errors import InputError
from clustersim.plots.links import MAX_ROWS, links_chart
from clustersim.plots.utilization import part_look, utilization_chart

MS = 10**9


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved, drawn once."""
    figures = []

    def keep(figure, beside, **options):
        figure.draw_without_rendering()
        figures.append(figure)
        beside.write_bytes(b"")

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def corners(axes, label):
    collection = next(one for one in axes.collections if one.get_label() == label)
    return {(round(x, 9), round(y, 9)) for x, y in collection.get_paths()[0].vertices.tolist()}


def texts_inside(figure):
    """All that is written lies on the page, and no text on another."""
    page = figure.bbox
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    written = [text for axes in figure.axes for text in (*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label)]
    written += [*figure.texts, *(text for legend in legends for text in legend.get_texts())]
    written += [label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()]
    boxes = [text.get_window_extent() for text in written if text.get_text() and text.get_visible()]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    return not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_the_areas_are_the_shares_and_the_legend_their_means(tmp_path, drawn):
    shares = pd.DataFrame({"compute": [0.5, 1.0], "exposed:tensor": [0.25, 0.0], "idle:warm_up": [0.25, 0.0]})
    utilization_chart(np.array([0, 3 * MS, 4 * MS]), shares, tmp_path / "a.png", title="standard: step 4 ms", ranks="8 ranks")
    (axes,) = drawn[0].axes
    assert axes.get_xlim() == (0, 4) and axes.get_ylim() == (0, 100)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (ms)", "share of 8 ranks (%)")
    assert {(0, 0), (0, 50), (3, 50), (3, 100), (4, 100), (4, 0)} <= corners(axes, "compute")
    assert {(0, 50), (0, 75), (3, 75), (3, 50)} <= corners(axes, "exposed:tensor")
    assert {(0, 75), (0, 100), (3, 100), (3, 75)} <= corners(axes, "idle:warm_up")
    means = [" ".join(text.get_text().split()) for text in axes.get_legend().get_texts()]
    # 3 ms with one half and 1 ms with all: 62.5 %; 3 ms with a quarter: 18.75 %.
    assert means == ["19 % idle: warm-up, before a rank's first compute", "19 % exposed tensor-parallel communication", "62 % compute"]


def test_the_longest_legend_fits_on_the_page(tmp_path, drawn):
    parts = ["compute", *(EXPOSED + name for name in ("tensor", "expert", "pipeline", "data")), *(IDLE + name for name in CAUSES)]
    shares = pd.DataFrame(np.full((2, len(parts)), 0.001234), columns=parts)
    utilization_chart(np.array([0, MS, 2 * MS]), shares, tmp_path / "a.png", title="x" * 100, ranks="1,048,576 ranks")
    assert texts_inside(drawn[0])


@pytest.mark.parametrize("measured", [False, True])
def test_parts_that_stand_side_by_side_look_different(measured):
    families = [name for name in FAMILIES if (name in PROFILED_COMMUNICATION) == measured]
    looks = [part_look(column) for column in ("compute", *(EXPOSED + name for name in families), *(IDLE + name for name in CAUSES))]
    assert len(set(looks)) == len(looks)


def link_tables():
    """A network link that is full for the second half, and two others on NVLink: a quarter all the time, and idle."""
    rows = [("nic0>net", 2 * MS, 4 * MS, 8.0), ("gpu0>sw", 0, 4 * MS, 25.0), ("gpu1>sw", 0, MS, 0.0)]
    known = [("nic0>net", "network", 1, 8), ("gpu0>sw", "nvlink", 16, 100), ("gpu1>sw", "nvlink", 1, 100)]
    links = pd.DataFrame(rows, columns=["link", "start_ps", "end_ps", "rate_bytes_s"])
    return links, pd.DataFrame(known, columns=["link", "kind", "links", "capacity_bytes_s"])


def test_the_heat_map_has_the_utilization_of_each_link_by_kind(tmp_path, drawn):
    links_chart(*link_tables(), (0, 4 * MS), tmp_path / "a.png", title="standard: step 4 ms")
    network, nvlink, bar = drawn[0].axes
    (image,) = network.get_images()
    assert image.get_clim() == (0, 100) and list(image.get_extent()) == [0, 4, 0.5, -0.5]
    shown = np.asarray(image.get_array())
    assert shown[0, : shown.shape[1] // 2].tolist() == [0] * 500 and shown[0, 500:] == pytest.approx(100)
    assert np.asarray(nvlink.get_images()[0].get_array()) == pytest.approx(np.array([[25] * 1000, [0] * 1000]))
    assert [label.get_text() for label in nvlink.get_yticklabels()] == ["gpu0>sw (16)", "gpu1>sw"]
    assert [axes.get_title(loc="left") for axes in (network, nvlink)] == ["network links", "nvlink links"]
    assert nvlink.get_xlabel() == "time (ms)" and bar.get_ylabel() == "utilization (%)"
    assert texts_inside(drawn[0])


@pytest.mark.parametrize("count", [1, 61, 5_000])
def test_any_number_of_links_stays_readable(tmp_path, drawn, count):
    names = [f"node{place}/gpu0>node{place}/nvswitch" for place in range(count)]
    links = pd.DataFrame({"link": names, "start_ps": 0, "end_ps": MS, "rate_bytes_s": 1.0})
    totals = pd.DataFrame({"link": names, "kind": "nvlink", "links": 1, "capacity_bytes_s": 2})
    links_chart(links, totals, (0, MS), tmp_path / "a.png", title="x" * 100)
    axes = drawn[0].axes[0]
    assert len(axes.get_yticklabels()) == min(count, MAX_ROWS, -(-count // -(-count // MAX_ROWS)))
    assert np.asarray(axes.get_images()[0].get_array()) == pytest.approx(50)
    assert texts_inside(drawn[0])


@pytest.mark.parametrize("totals", [None, link_tables()[1].iloc[:0]])
def test_a_trace_without_links_is_an_error(tmp_path, totals):
    with pytest.raises(InputError, match="no traffic on links"):
        links_chart(link_tables()[0], totals, (0, MS), tmp_path / "a.png", title="")
    assert not list(tmp_path.iterdir())


def test_equal_input_gives_equal_bytes(tmp_path):
    for suffix in (".png", ".svg", ".pdf"):
        for name in ("a", "b"):
            links_chart(*link_tables(), (0, 4 * MS), tmp_path / f"{name}{suffix}", title="")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
