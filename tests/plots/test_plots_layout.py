"""Rows and boxes against ops whose chart is known."""

import numpy as np
import pandas as pd
import pytest

from clustersim.errors import InputError
from clustersim.plots import layout
from clustersim.plots.layout import MAX_RANKS

S = 10**12


def ops_of(*rows):
    """A table from (rank, stream, kind, stage, layer, micro_batch, start, end), times in seconds."""
    table = pd.DataFrame(rows, columns=["rank", "stream", "kind", "stage", "layer", "micro_batch", "start_ps", "end_ps"])
    return table.assign(start_ps=(table["start_ps"] * S).astype("int64"), end_ps=(table["end_ps"] * S).astype("int64"))


def boxes_of(chart):
    """(label of the row, kind, shade, micro-batch, start, end in s) of each box."""
    boxes = chart.boxes
    return [
        (chart.rows[row].label, chart.kinds[kind], shade, micro_batch, start / S, end / S)
        for row, kind, shade, micro_batch, start, end in zip(
            *(getattr(boxes, name).tolist() for name in ("row", "kind", "shade", "micro_batch", "start_ps", "end_ps")), strict=True
        )
    ]


def forward(rank, stage, layer, micro_batch, start, end):
    return rank, "compute", "forward", stage, layer, micro_batch, start, end


@pytest.mark.parametrize("dtype", ["category", "object", "str"])
def test_rows_go_from_rank_to_rank_with_compute_first_and_peers_merged(dtype):
    ops = ops_of(
        (1, "recv:0", "recv", 1, 1, 0, 1, 2),
        (0, "send:3", "send", 0, 0, 0, 1, 2),
        (0, "send:1", "send", 0, 0, 1, 2, 3),
        (0, "data", "reduce", 0, 0, -1, 5, 6),
        (0, "tensor", "tensor", 0, 0, 0, 0, 1),
        forward(1, 1, 1, 0, 2, 3),
        forward(0, 0, 0, 0, 0, 1),
    ).astype({"stream": dtype, "kind": dtype})
    labels = [row.label for row in layout.layout(ops).rows]
    assert labels == ["rank 0 compute", "rank 0 tensor", "rank 0 data", "rank 0 send", "rank 1 compute", "rank 1 recv"]


def test_a_row_in_which_no_op_takes_time_is_not_drawn():
    chart = layout.layout(ops_of(forward(0, 0, 0, 0, 0, 1), (0, "send:1", "send", 0, 0, 0, 1, 1)))
    assert [row.label for row in chart.rows] == ["rank 0 compute"]


def test_a_rank_that_only_idles_keeps_its_compute_row():
    chart = layout.layout(ops_of(forward(0, 0, 0, 0, 0, 1), forward(4, 1, 1, 0, 1, 1)))
    assert [row.label for row in chart.rows] == ["rank 0 compute", "rank 4 compute"]


def test_boxes_have_the_times_of_their_ops_in_any_order_of_the_table():
    ops = ops_of(forward(0, 0, 0, 0, 0, 1), forward(0, 0, 0, 1, 1.5, 2), (0, "compute", "backward", 0, 0, 1, 2, 5))
    expected = [
        ("rank 0 compute", "forward", 0, 0, 0.0, 1.0),
        ("rank 0 compute", "forward", 0, 1, 1.5, 2.0),
        ("rank 0 compute", "backward", 0, 1, 2.0, 5.0),
    ]
    assert boxes_of(layout.layout(ops)) == expected
    assert boxes_of(layout.layout(ops[::-1])) == expected


def test_touching_pieces_of_one_chunk_and_micro_batch_are_one_box():
    ops = ops_of(forward(0, 0, 0, 0, 0, 1), forward(0, 0, 1, 0, 1, 2), forward(0, 0, 0, 1, 2, 3), forward(0, 0, 1, 1, 3.5, 4))
    assert [box[3:] for box in boxes_of(layout.layout(ops))] == [(0, 0, 2), (1, 2, 3), (1, 3.5, 4)]


def test_touching_communication_stays_apart():
    ops = ops_of((0, "data", "reduce", 0, 1, -1, 0, 1), (0, "data", "reduce", 0, 1, -1, 1, 2))
    assert len(layout.layout(ops).boxes) == 2


def test_chunks_of_a_rank_alternate_in_shade():
    chunks = [forward(0, stage, stage, i, 2 * k + i, 2 * k + i + 1) for k, stage in enumerate((0, 4, 8)) for i in (0, 1)]
    chart = layout.layout(ops_of(*chunks))
    assert [box[2] for box in boxes_of(chart)] == [0, 0, 1, 1, 0, 0]
    assert chart.shaded_by == "chunk"


def test_layers_alternate_only_where_each_is_finished_for_all_micro_batches():
    layered = ops_of(*(forward(0, 0, layer, i, 2 * layer + i, 2 * layer + i + 1) for layer in (0, 1) for i in (0, 1)))
    standard = ops_of(*(forward(0, 0, layer, i, 2 * i + layer, 2 * i + layer + 1) for i in (0, 1) for layer in (0, 1)))
    assert [box[2:4] for box in boxes_of(layout.layout(layered))] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert layout.layout(layered).shaded_by == "layer"
    assert [box[2:] for box in boxes_of(layout.layout(standard))] == [(0, 0, 0, 2), (0, 1, 2, 4)]
    assert layout.layout(standard).shaded_by == ""


def test_the_window_keeps_what_reaches_into_it():
    ops = ops_of(*(forward(0, 0, 0, i, i, i + 1) for i in range(6)))
    chart = layout.layout(ops, begin_ps=int(1.5 * S), end_ps=3 * S)
    assert [box[3] for box in boxes_of(chart)] == [1, 2]
    assert (chart.begin_ps, chart.end_ps, chart.step_end_ps) == (1.5 * S, 3 * S, 6 * S)


@pytest.mark.parametrize("window", [(2, 2), (3, 1), (6, 9), (-3, 0)])
def test_an_empty_window_is_an_error(window):
    ops = ops_of(forward(0, 0, 0, 0, 0, 6))
    with pytest.raises(InputError, match="is empty"):
        layout.layout(ops, begin_ps=window[0] * S, end_ps=window[1] * S)


def test_only_the_ranks_asked_for_are_shown_and_the_step_is_that_of_all():
    ops = ops_of(forward(0, 0, 0, 0, 0, 1), forward(128, 1, 1, 0, 1, 2), forward(256, 2, 2, 0, 2, 3))
    chart = layout.layout(ops, ranks=[128, 0])
    assert [row.rank for row in chart.rows] == [0, 128]
    assert (chart.step_end_ps, chart.present_ranks) == (3 * S, 3)


@pytest.mark.parametrize(("ranks", "message"), [([0, 7], "rank 7 is not in the trace; present: 0-2, 128"), ([], "no rank to show")])
def test_a_missing_rank_is_an_error_that_lists_those_present(ranks, message):
    ops = ops_of(*(forward(rank, 0, 0, 0, 0, 1) for rank in (0, 1, 2, 128)))
    with pytest.raises(InputError, match=message):
        layout.layout(ops, ranks=ranks)


def test_of_many_ranks_an_even_sample_is_shown_with_the_first_and_the_last():
    chart = layout.layout(ops_of(*(forward(rank, 0, 0, 0, 0, 1) for rank in range(1024))))
    shown = np.array(chart.shown_ranks)
    assert (len(shown), shown[0], shown[-1], chart.present_ranks) == (MAX_RANKS, 0, 1023, 1024)
    assert set(np.diff(shown)) <= {16, 17}


def test_many_ranks_share_one_row_for_all_their_communication():
    each = [((rank, "send:1", "send", 0, 0, 0, 0, 1), (rank, "data", "reduce", 0, 0, -1, 1, 2)) for rank in range(17)]
    chart = layout.layout(ops_of(*(op for pair in each for op in pair)))
    assert [row.label for row in chart.rows[:2]] == ["rank 0 communication", "rank 1 communication"]
    assert len(chart.rows) == 17


@pytest.mark.parametrize("ops", [ops_of(), ops_of(forward(0, 0, 0, 0, 1, 1))])
def test_a_trace_without_duration_is_an_error(ops):
    with pytest.raises(InputError, match="nothing to draw"):
        layout.layout(ops)


def test_streams_of_a_profiler_are_rows_of_their_own_in_the_order_of_their_numbers():
    streams = ["20", "7", "1:7"]
    ops = ops_of(*((0, stream, "kernel", -1, -1, -1, 0, 1) for stream in streams))
    assert [row.family for row in layout.layout(ops).rows] == ["stream 1:7", "stream 7", "stream 20"]


def test_many_profiled_ranks_keep_compute_apart_from_communication():
    pairs = [((rank, "7", "kernel", -1, -1, -1, 0, 1), (rank, "20", "all_reduce", -1, -1, -1, 1, 2)) for rank in range(17)]
    chart = layout.layout(ops_of(*(op for pair in pairs for op in pair)))
    assert [row.label for row in chart.rows[:2]] == ["rank 0 compute", "rank 0 communication"]
