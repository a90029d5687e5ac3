"""The critical path on the chart, looked at as drawn; expected corners by hand."""

import numpy as np
import pandas as pd

from clustersim.plots.critical import path_of
from clustersim.plots.gantt import gantt
from clustersim.trace.trace import Trace

MS = 10**9


def trace_of(rows, on):
    ops = pd.DataFrame(rows, columns=["rank", "stream", "kind", "start_ps", "end_ps"])
    ops = ops.assign(op=range(len(rows)), stage=ops["rank"], layer=0, micro_batch=0)
    ops[["start_ps", "end_ps"]] *= MS
    return Trace(ops, pd.DataFrame(on, columns=["op", "on"]), ops[:0], ops[:0])


# Forward down two ranks and backward up again; the second forward of rank 0 does not matter.
TWO = trace_of(
    [
        (0, "compute", "forward", 0, 1), (0, "compute", "forward", 1, 2), (1, "compute", "forward", 1, 2), (1, "compute", "backward", 2, 4),
        (0, "compute", "backward", 4, 6),
    ],
    [(2, 0), (3, 2), (4, 3)],
)  # fmt: skip


def line(axes):
    return next(one for one in axes.lines if one.get_label() == "critical path")



def test_it_turns_where_the_hand_made_path_does(tmp_path, drawn):
    gantt(TWO.ops, tmp_path / "a.png", title="", critical_path=path_of(TWO))
    (axes,) = drawn[0].axes
    assert line(axes).get_xdata().tolist() == [0, 1, 1, 4, 4, 6]
    heights = line(axes).get_ydata().tolist()
    assert heights[0] == heights[1] == heights[4] == heights[5] < heights[2] == heights[3]
    forward = next(one for one in axes.collections if one.get_label() == "forward")
    tops = sorted({path.vertices[:, 1].min() for path in forward.get_paths()})
    bottoms = sorted({path.vertices[:, 1].max() for path in forward.get_paths()})
    assert tops[0] < heights[0] < bottoms[0] < tops[1] < heights[2] < bottoms[1]
    assert "critical path" in [text.get_text() for text in drawn[0].legends[0].get_texts()]


def test_it_is_not_there_unless_asked_for(tmp_path, drawn):
    gantt(TWO.ops, tmp_path / "a.png", title="")
    assert not drawn[0].axes[0].lines
    assert "critical path" not in [text.get_text() for text in drawn[0].legends[0].get_texts()]


def test_it_breaks_on_a_rank_that_is_not_shown_and_the_chart_names_it(tmp_path, drawn):
    gantt(TWO.ops, tmp_path / "a.png", title="", critical_path=path_of(TWO), ranks=[0])
    (axes,) = drawn[0].axes
    assert np.isnan(line(axes).get_ydata()).tolist() == [False, False, True, True, False, False]
    assert any("the critical path is also on rank 1, not shown" in text.get_text() for text in axes.texts)


def test_a_window_cuts_it(tmp_path, drawn):
    gantt(TWO.ops, tmp_path / "a.png", title="", critical_path=path_of(TWO), start_s=0.0005, end_s=0.003)
    assert line(drawn[0].axes[0]).get_xdata().tolist() == [0.5, 1, 1, 3]


def alternating(places):
    """One op after another, each needing the one before; ``places``: (rank, stream)."""
    kinds = {"compute": "forward", "tensor": "tensor"}
    rows = [(rank, stream, kinds[stream], at, at + 1) for at, (rank, stream) in enumerate(places)]
    return trace_of(rows, [(at, at - 1) for at in range(1, len(rows))])


def test_with_many_turns_it_stays_on_the_first_row_of_a_rank(tmp_path, drawn):
    trace = alternating([(0, "compute"), (0, "tensor")] * 200)
    gantt(trace.ops, tmp_path / "a.png", title="", critical_path=path_of(trace))
    assert line(drawn[0].axes[0]).get_xdata().tolist() == [0, 400]


def test_with_more_turns_than_pixels_the_line_stays_small(tmp_path, drawn):
    trace = alternating([(0, "compute"), (1, "compute")] * 5_000)
    gantt(trace.ops, tmp_path / "a.png", title="", critical_path=path_of(trace))
    x = line(drawn[0].axes[0]).get_xdata()
    assert len(x) <= 2 * 1800 / 4 and (x[0], x[-1]) == (0, 10)
    assert len(set(line(drawn[0].axes[0]).get_ydata().tolist())) == 2
