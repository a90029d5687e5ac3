"""The memory panel: whose memory, what is drawn, the window, the line of the GPU."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.plots.gantt import gantt
from clustersim.plots.memory import Holdings, holdings, in_window
from clustersim.plots.style import MEMORY_STYLES, STYLES
from clustersim.program.kinds import MEMORY

MS = 10**9
GB = 10**9


def ops(ranks=2):
    rows = [(rank, "compute", "forward", rank, rank, i, (rank + i) * MS, (rank + i + 1) * MS) for rank in range(ranks) for i in range(4)]
    return pd.DataFrame(rows, columns=["rank", "stream", "kind", "stage", "layer", "micro_batch", "start_ps", "end_ps"])


def changes(*rows):
    """Rows are (rank, time_ms, GB, what)."""
    table = pd.DataFrame(rows, columns=["rank", "time_ps", "bytes", "what"])
    return table.assign(time_ps=(table["time_ps"] * MS).astype(np.int64), bytes=(table["bytes"] * GB).astype(np.int64))


MEMORY_TABLE = changes(
    (0, 0, 2, "weights"), (0, 1, 3, "activations"), (0, 2, -3, "activations"),
    (1, 0, 2, "weights"), (1, 1, 4, "activations"), (1, 3, 1, "buffers"), (1, 4, -1, "buffers"), (1, 4, -4, "activations"),
)  # fmt: skip


def area(axes, kind):
    """Times, lower and upper edge of a kind at the corners of its area, in the units of the axes."""
    collection = next(one for one in axes.collections if one.get_label() == kind)
    vertices = collection.get_paths()[0].vertices
    return {(round(x, 9), round(y, 9)) for x, y in vertices.tolist()}


def texts(axes):
    return [axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)]


def test_kinds_are_stacked_for_the_fullest_rank(tmp_path, drawn):
    gantt(ops(), tmp_path / "a.png", title="", memory=MEMORY_TABLE, capacity_bytes=8 * GB)
    chart, panel = drawn[0].axes
    assert panel.get_xlim() == chart.get_xlim() == (0, 5)
    assert panel.get_ylabel() == "GB" and panel.get_xlabel() == "time (ms)" and chart.get_xlabel() == ""
    assert texts(panel) == [
        "memory of rank 1: peak 7 GB (6.519 GiB) at 3 ms, of 8 GB (7.451 GiB)",
        "memory of the GPU, 8 GB (7.451 GiB)",
    ]
    assert {(0, 0), (0, 2), (5, 2), (5, 0)} <= area(panel, "weights")
    assert {(3, 2), (3, 3), (4, 3), (4, 2)} <= area(panel, "buffers")
    assert {(1, 2), (1, 6), (3, 6), (3, 7), (4, 7), (4, 2)} <= area(panel, "activations")
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["weights", "buffers", "activations"]
    assert panel.get_ylim()[1] > 8


def test_a_line_far_above_is_not_drawn_and_one_below_is(tmp_path, drawn):
    for capacity in (80, 5):
        gantt(ops(), tmp_path / "a.png", title="", memory=MEMORY_TABLE, capacity_bytes=capacity * GB)
    (_, far), (_, below) = (figure.axes for figure in drawn)
    assert not far.lines and far.get_ylim()[1] < 9
    assert below.lines[0].get_ydata()[0] == 5 and "more than 5 GB" in below.get_title(loc="left")


def test_the_window_and_the_ranks_are_those_of_the_chart(tmp_path, drawn):
    gantt(ops(), tmp_path / "a.png", title="", memory=MEMORY_TABLE, ranks=[0], start_s=0.0015, end_s=0.003)
    chart, panel = drawn[0].axes
    assert panel.get_xlim() == chart.get_xlim() == (1.5, 3)
    assert panel.get_title(loc="left") == "memory of rank 0: peak 5 GB (4.657 GiB) at 1 ms"
    assert {(1.5, 5), (2, 5), (2, 2), (3, 2)} <= area(panel, "activations") | area(panel, "weights")


@pytest.mark.parametrize("memory", [None, MEMORY_TABLE.iloc[:0]])
def test_without_memory_there_is_no_panel(tmp_path, drawn, memory):
    gantt(ops(), tmp_path / "a.png", title="", memory=memory, capacity_bytes=8 * GB)
    assert len(drawn[0].axes) == 1


def test_a_small_amount_has_a_small_unit(tmp_path, drawn):
    gantt(ops(), tmp_path / "a.png", title="", memory=MEMORY_TABLE.assign(bytes=MEMORY_TABLE["bytes"] // 1000))
    assert drawn[0].axes[1].get_ylabel() == "MB"


def test_equal_input_gives_equal_bytes(tmp_path):
    for name in ("a", "b"):
        gantt(ops(), tmp_path / f"{name}.svg", title="", memory=MEMORY_TABLE, capacity_bytes=8 * GB)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@given(
    times=st.lists(st.integers(1, 1000), min_size=1, max_size=200, unique=True),
    window=st.tuples(st.integers(0, 998), st.integers(1, 1002)).filter(lambda pair: pair[0] < pair[1]),
    bins=st.integers(1, 50),
    data=st.data(),
)
def test_no_peak_in_the_window_is_lost_and_none_invented(times, window, bins, data):
    begin, end = window
    time_ps = np.array([0, *sorted(times)])
    held = np.array(data.draw(st.lists(st.integers(0, 9), min_size=2 * len(time_ps), max_size=2 * len(time_ps)))).reshape(2, -1)
    shown_ps, shown = in_window(Holdings(0, ("weights", "buffers"), time_ps, held, 0, 0, None), begin, end, bins)
    assert begin == shown_ps[0] and (np.diff(shown_ps) > 0).all() and shown_ps[-1] < end and shown.shape[1] == len(shown_ps)
    inside = held[:, np.searchsorted(time_ps, begin, side="right") - 1 : np.searchsorted(time_ps, end, side="left")]
    assert shown.sum(axis=0).max() == inside.sum(axis=0).max()
    columns = {tuple(column) for column in inside.T.tolist()}
    assert {tuple(column) for column in shown.T.tolist()} <= columns
    if inside.shape[1] <= bins:
        assert shown.tolist() == inside.tolist()


def test_every_kind_of_memory_has_its_own_style():
    assert tuple(MEMORY_STYLES) == MEMORY
    colours = [style.colour for style in (*MEMORY_STYLES.values(), *STYLES.values())]
    assert len(set(colours)) == len(colours)


def test_before_the_first_change_there_is_nothing():
    late = holdings(changes((0, 2, 1, "buffers"), (0, 4, -1, "buffers")))
    assert [column.tolist() for column in in_window(late, 0, 5 * MS, 100)] == [[0, 2 * MS, 4 * MS], [[0, GB, 0]]]


def test_holdings_of_nothing():
    assert holdings(MEMORY_TABLE, ranks=[7]) is None
