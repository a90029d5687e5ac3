"""What the analyses read of a trace; ranks on one line; utilization of streams."""

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis import streams
from clustersim.analysis.streams import FAMILIES, Line, lines, read_ops, stream_times, whole_window
from clustersim.errors import InputError
from clustersim.trace.trace import Trace

NOTHING = pd.DataFrame()
COLUMNS = ["rank", "stream", "kind", "start_ps", "end_ps", "wait_ps", "group"]


def trace(*rows, dependencies=()):
    """Ops are (rank, stream, kind, start, end, wait, group), in ps."""
    return Trace(pd.DataFrame(list(rows), columns=COLUMNS), pd.DataFrame(list(dependencies), columns=["op", "on"]), NOTHING, NOTHING)


def test_kinds_of_simulated_and_measured_traces():
    kinds = ["forward", "optimizer", "kernel", "copy", "reduce", "recv", "all_reduce", "something"]
    ops = read_ops(trace(*((0, "s", kind, 0, 1, 0, "") for kind in kinds)))
    named = [FAMILIES[code] if code >= 0 else int(code) for code in ops.family]
    assert named == [streams.COMPUTES] * 3 + [streams.COPIES, "data", "pipeline", "all_reduce", streams.OTHER]
    assert ops.profiled


def test_utilization_counts_overlapping_ops_once():
    ops = read_ops(trace((1, "a", "forward", 0, 4, 0, ""), (1, "a", "forward", 2, 6, 0, ""), (0, "b", "reduce", 5, 10, 0, "")))
    table = stream_times(ops, whole_window(ops))
    assert table.values.tolist() == [[0, "b", 1, 5, 0.5], [1, "a", 2, 6, 0.6]]
    assert stream_times(ops, (5, 6))["busy_ps"].tolist() == [1, 1]


def test_a_step_without_time_has_no_utilization():
    ops = read_ops(trace((0, "a", "forward", 0, 0, 0, "")))
    assert stream_times(ops, whole_window(ops))["utilization"].tolist() == [None]


def test_more_ranks_than_one_line_holds(monkeypatch):
    monkeypatch.setattr(streams, "_MOST", 25)
    ranks = np.array([3, 1, 7])
    assert [line.ranks.tolist() for line in lines(ranks, (0, 10))] == [[1, 3], [7]]
    ops = read_ops(trace(*((rank, "a", "forward", rank, 8, 0, "") for rank in ranks.tolist())))
    assert stream_times(ops, (0, 8))["busy_ps"].tolist() == [7, 5, 1]


def test_what_touches_across_ranks_stays_apart():
    line = Line(np.array([0, 1]), 0, 10)
    pieces = line.union(np.array([0, 1]), np.array([5, 0]), np.array([10, 5]))
    assert line.by_rank(pieces.start, pieces.end - pieces.start).tolist() == [5, 5]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, "a", "forward", 5, 4, 0, ""), "row 0 ends before it starts"),
        ((0, "a", "forward", 5, 6, -1, ""), "row 0 waits for a negative time"),
        ((0, None, "forward", 5, 6, 0, ""), "without a kind or a stream"),
        ((0, "a", "forward", 2.5, 6, 0, ""), "start_ps: row 0 is missing, no whole number"),
        ((0, "a", "forward", float("nan"), 6, 0, ""), "start_ps: row 0 is missing"),
        ((0, "a", "forward", 2**63 - 1, 2**63 - 1, 0, ""), "too large"),
        ((0, "a", "forward", "1", 6, 0, ""), "start_ps are no numbers"),
    ],
)
def test_wrong_tables_are_named(row, message):
    with pytest.raises(InputError, match=message):
        read_ops(trace(row))


def test_no_ops():
    with pytest.raises(InputError, match="no ops"):
        read_ops(trace())
