"""The files: formats, whole or not at all, equal bytes, and what is drawn in them."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from clustersim.errors import InputError
from clustersim.plots.gantt import compare_gantt, gantt, time_unit
from clustersim.plots.panel import MAX_NUMBERS, MAX_POLYGONS

MS = 10**9
BEGINS = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


def pipeline(ranks=4, micro_batches=8, length_ps=MS):
    """GPipe with sends: a forward takes 1, a backward 2, a send half a length."""
    rows = []
    for rank in range(ranks):
        for i in range(micro_batches):
            forward = (rank + i) * length_ps
            backward = (2 * (ranks - 1 - rank) + micro_batches + ranks + 2 * i) * length_ps
            rows.append((rank, "compute", "forward", rank, rank, i, forward, forward + length_ps))
            rows.append((rank, "compute", "backward", rank, rank, i, backward, backward + 2 * length_ps))
            rows.append((rank, f"send:{rank + 1}", "send", rank, rank, i, forward + length_ps, forward + 3 * length_ps // 2))
    return pd.DataFrame(rows, columns=["rank", "stream", "kind", "stage", "layer", "micro_batch", "start_ps", "end_ps"])


def million_ops():
    count = 10**6
    rank, place = np.divmod(np.arange(count), 10_000)
    kind = np.where(place % 2, "backward", "forward")
    start = place * 1000
    return pd.DataFrame({"rank": rank, "stream": "compute", "kind": pd.Categorical(kind), "stage": 0, "layer": 0,
                         "micro_batch": place, "start_ps": start, "end_ps": start + 990})  # fmt: skip


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    figures = []
    save = Figure.savefig

    def keep(figure, *args, **options):
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def boxes(axes, kind):
    """Start and end of the polygons of a kind, in the unit of the axis."""
    collection = next(artist for artist in axes.collections if artist.get_label() == kind)
    return [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in collection.get_paths()]


@pytest.mark.parametrize("suffix", [*BEGINS, ".PNG"])
def test_each_format_is_written(tmp_path, suffix):
    path = tmp_path / "new" / f"chart{suffix}"
    gantt(pipeline(), path, title="gpipe: step 26 ms")
    assert path.read_bytes().startswith(BEGINS[suffix.lower()])
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["chart.jpg", "chart", "chart.png.txt"])
def test_another_format_is_an_error_that_names_the_allowed_ones(tmp_path, name):
    with pytest.raises(InputError, match=r"allowed: \.png, \.svg, \.pdf"):
        gantt(pipeline(), tmp_path / name, title="")
    with pytest.raises(InputError, match=r"allowed: \.png, \.svg, \.pdf"):
        compare_gantt([("", pipeline())], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "chart.png"
    path.write_text("old")

    def fail(figure, beside, **options):
        beside.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(KeyboardInterrupt):
        gantt(pipeline(), path, title="")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", BEGINS)
def test_equal_input_gives_equal_bytes(tmp_path, suffix):
    for name in ("a", "b"):
        gantt(pipeline(length_ps=MS // 7), tmp_path / f"{name}{suffix}", title="gpipe")
    content = (tmp_path / f"a{suffix}").read_bytes()
    assert content == (tmp_path / f"b{suffix}").read_bytes()
    assert not re.search(rb"CreationDate|<dc:date>|Matplotlib v|Software", content)


def test_the_polygons_are_the_ops(tmp_path, drawn):
    ops = pipeline(ranks=1)
    gantt(ops, tmp_path / "chart.png", title="")
    (axes,) = drawn[0].axes
    for kind in ("forward", "backward", "send"):
        mine = ops[ops["kind"] == kind].sort_values("start_ps")
        assert boxes(axes, kind) == [(start / MS, end / MS) for start, end in zip(mine["start_ps"], mine["end_ps"], strict=True)]
    assert axes.get_xlabel() == "time (ms)"
    assert axes.get_xlim() == (0, ops["end_ps"].max() / MS)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0 compute", "send"]


def test_title_numbers_and_legend_are_there(tmp_path, drawn):
    gantt(pipeline(), tmp_path / "chart.svg", title="gpipe_1: step $26 ms_2")
    (figure,) = drawn
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "gpipe_1: step $26 ms_2" in texts
    assert [texts.count(str(number)) for number in (0, 7, 8)] == [8, 8, 0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["forward", "backward", "send", "idle"]


def test_numbers_lie_inside_their_boxes(tmp_path, drawn):
    gantt(pipeline(ranks=2, micro_batches=60), tmp_path / "chart.png", title="")
    (figure,) = drawn
    (axes,) = figure.axes
    numbers = [text for text in axes.texts if text.get_text().isdigit()]
    assert numbers
    spans = np.array(boxes(axes, "forward") + boxes(axes, "backward"))
    pixels = axes.transData.transform([(time, 0) for time in spans.ravel()])[:, 0].reshape(-1, 2)
    for text in numbers:
        extent = text.get_window_extent()
        assert ((pixels[:, 0] <= extent.x0) & (extent.x1 <= pixels[:, 1])).any()


@pytest.mark.parametrize("length", [20, 75, 110, 400])
def test_title_and_note_stand_clear_of_each_other(tmp_path, drawn, length):
    gantt(pipeline(ranks=80), tmp_path / "chart.png", title=("title " * 100)[:length].strip(), copies={0: 3})
    texts = {text.get_text(): text for text in drawn[0].axes[0].texts if text.get_text()}
    title, note = (next(text for said, text in texts.items() if word in said).get_window_extent() for word in ("title", "ranks shown"))
    assert "of each rank: compute, below it communication" in "".join(texts)
    assert note.x1 <= drawn[0].bbox.x1 and title.x1 <= drawn[0].bbox.x1 and title.y1 <= drawn[0].bbox.y1
    lines = "".join(said for said in texts if "title" in said).split("\n")
    beside = note.x0 - title.x0 > len(lines[-1]) * 8  # pixels; a letter of 10 pt is at least so wide on average
    assert beside or lines[-1] == ""


def test_rows_of_communication_are_named_where_ranks_are_many(tmp_path, drawn):
    gantt(pipeline(ranks=18), tmp_path / "chart.png", title="")
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert labels.count("rank 3") == 1 and labels.count("communication") == 18


def test_the_window_and_the_ranks_are_those_asked_for(tmp_path, drawn):
    gantt(pipeline(), tmp_path / "chart.png", title="", ranks=[2], start_s=0.002, end_s=0.004)
    (axes,) = drawn[0].axes
    assert axes.get_xlim() == (2, 4)
    assert boxes(axes, "forward") == [(2, 3), (3, 4)]
    assert "1 of 4 ranks shown" in [text.get_text() for text in axes.texts]


def test_a_sample_of_many_ranks_says_so(tmp_path, drawn):
    gantt(pipeline(ranks=1024, micro_batches=1), tmp_path / "chart.png", title="")
    notes = [text.get_text() for text in drawn[0].axes[0].texts]
    assert any(note.startswith("64 of 1024 ranks shown") for note in notes)


def test_strategies_share_one_axis_and_each_end_is_marked(tmp_path, drawn):
    slow, fast = pipeline(length_ps=2 * MS), pipeline(length_ps=MS)
    compare_gantt([("slow", slow), ("fast", fast)], tmp_path / "chart.png")
    (figure,) = drawn
    upper, lower = figure.axes
    assert upper.get_xlim() == lower.get_xlim()
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "time (ms)"]
    for axes, ops, title in ((upper, slow, "slow"), (lower, fast, "fast")):
        end = ops["end_ps"].max() / MS
        assert axes.lines[0].get_xdata()[0] == end < axes.get_xlim()[1]
        assert {title, f"{end:g} ms"} <= {text.get_text() for text in axes.texts}


def test_a_much_longer_step_has_an_axis_of_its_own_and_squeezes_no_other(tmp_path, drawn):
    """Steps of 26, 26 * 7 and 2 * 26 ms: the second is more than 3 times as long as all shorter ones, and only it says so."""
    one, seven, two = (pipeline(length_ps=times * MS) for times in (1, 7, 2))
    compare_gantt([("one", one), ("seven", seven), ("two", two)], tmp_path / "chart.png")
    upper, middle, lower = drawn[0].axes
    ends = [ops["end_ps"].max() / MS for ops in (one, seven, two)]
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((0, ends[2] * 1.07))
    assert middle.get_xlim() == pytest.approx((0, ends[1] * 1.07))
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["time (ms)", "time (ms), an axis of its own", "time (ms)"]
    notes = [[text.get_text() for text in axes.texts if "of its own" in text.get_text()] for axes in drawn[0].axes]
    assert notes == [[], ["a time axis of its own, 3.5 times as long as that of the others"], []]


def test_a_row_says_for_how_many_ranks_it_stands(tmp_path, drawn):
    gantt(pipeline(ranks=2), tmp_path / "chart.png", title="", copies={0: 64})
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0 (x 64) compute", "send", "rank 1 compute", "send"]
    assert "(x n): a rank that stands for n alike" in [text.get_text() for text in axes.texts]


def test_nothing_to_compare_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no runs"):
        compare_gantt([], tmp_path / "chart.png")


def test_a_million_ops_become_a_bounded_number_of_shapes(tmp_path, drawn):
    gantt(million_ops(), tmp_path / "chart.svg", title="")
    (axes,) = drawn[0].axes
    polygons = sum(len(artist.get_paths()) for artist in axes.collections if isinstance(artist, PolyCollection))
    assert polygons <= MAX_POLYGONS + 128
    assert len(axes.texts) <= MAX_NUMBERS + 10
    assert sum(isinstance(artist, AxesImage) for artist in axes.images) == 1
    assert (tmp_path / "chart.svg").stat().st_size < 5_000_000


@pytest.mark.parametrize(("span_ps", "name"), [(10**12, "s"), (10**12 - 1, "ms"), (3 * 10**6, "us"), (5, "ns")])
def test_the_axis_has_the_largest_unit_that_is_not_too_large(span_ps, name):
    assert time_unit(7 * 10**12, 7 * 10**12 + span_ps)[0] == name


def test_matplotlib_is_imported_only_to_draw_and_pyplot_never(tmp_path):
    code = (
        "import sys, pandas as pd; from clustersim.plots.gantt import gantt; assert 'matplotlib' not in sys.modules;"
        "gantt(pd.DataFrame({'rank': [0], 'stream': 'compute', 'kind': 'forward', 'stage': 0, 'layer': 0, 'micro_batch': 0,"
        f"'start_ps': 0, 'end_ps': 9}}), {str(tmp_path / 'a.png')!r}, title=''); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
