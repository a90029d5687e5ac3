"""Idle by cause, by hand for small traces and pipelines; the causes add up, whatever the job and the window."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.analysis.facts import TraceFacts
from clustersim.analysis.idle import CAUSES, idle_causes
from clustersim.analysis.overlap import rank_split, sweeps
from clustersim.analysis.path import build_graph
from clustersim.analysis.streams import read_ops, whole_window
from clustersim.analysis.waits import find_activities
from tests.analysis.test_path import jobs
from tests.analysis.test_streams import trace
from tests.helpers import simulated, unit_cost

S = 10**12


def found(step, window=None):
    ops = read_ops(step)
    joined = find_activities(ops)
    graph = build_graph(ops, joined, step.dependencies)
    [cut] = sweeps(ops, window or whole_window(ops))
    idle = idle_causes(ops, joined, graph, cut, TraceFacts())
    assert (idle.causes[list(CAUSES)].sum(axis=1) == rank_split(cut)["idle_ps"]).all()
    assert (idle.causes[list(CAUSES)] >= 0).all().all()
    return idle


def causes(step, window=None):
    """By rank, the causes that it has."""
    table = found(step, window).causes.set_index("rank")
    return {rank: {name: int(time) for name, time in row.items() if time} for rank, row in table.iterrows()}


@pytest.mark.parametrize("name", ["1f1b", "gpipe"])
def test_pipeline(name):
    """Rank r begins r F late and ends r B early; in between it waits (p-1-r)(F+B) for data. p = 4, m = 8, F = 1, B = 2."""
    step = unit_cost(4, 4, 8, name, forward=1, backward=2).trace
    expected = {rank: {"warm_up": rank * S, "drain": 2 * rank * S, "data": 3 * (3 - rank) * S} for rank in range(4)}
    assert causes(step) == {rank: {name: time for name, time in row.items() if time} for rank, row in expected.items()}


def test_a_delay_is_communication_and_no_idle():
    """One-way delay c = 0.25: rank r begins r (F + c) late."""
    idle = causes(unit_cost(4, 4, 8, "1f1b", forward=1, backward=2, extra="link_delay: 250 ms").trace)
    assert [idle[rank].get("warm_up", 0) for rank in range(4)] == [0, S, 2.25 * S, 3.5 * S]  # the last c is communication


def test_waiting_for_a_peer_between_compute():
    """Rank 0 is ready to reduce at 2, rank 1 at 6; both compute again at 9."""
    step = trace(
        (0, "compute", "forward", 0, 2, 0, ""), (1, "compute", "forward", 0, 6, 0, ""),
        (0, "data", "reduce", 6, 9, 4, "0-1"), (1, "data", "reduce", 6, 9, 0, "0-1"),
        (0, "compute", "optimizer", 9, 10, 0, ""), (1, "compute", "optimizer", 9, 11, 0, ""),
        dependencies=[(2, 0), (3, 1), (4, 2), (5, 3)],
    )  # fmt: skip
    assert causes(step) == {0: {"peer": 4, "drain": 1}, 1: {}}
    assert [column.tolist() for column in found(step).waits] == [[2], [2], [6]]
    assert causes(step, (3, 8)) == {0: {"peer": 3}, 1: {}}, "whatever the window, it waits for the same"


def test_waits_are_followed_through_a_chain():
    """The compute needs a gather on its own stream, which needs a receive: the wait is for the data."""
    step = trace(
        (0, "compute", "forward", 0, 2, 0, ""), (0, "recv:1", "recv", 6, 8, 6, "1,0"), (0, "tensor", "tensor", 8, 9, 0, "0"),
        (0, "compute", "forward", 9, 10, 0, ""), (1, "send:0", "send", 6, 8, 0, "1,0"), (1, "compute", "forward", 0, 6, 0, ""),
        dependencies=[(2, 1), (3, 2), (4, 5)],
    )  # fmt: skip
    assert causes(step) == {0: {"data": 4}, 1: {"drain": 2}}  # and 2 of the drain it sends


def test_waiting_for_a_rank_that_a_contended_link_holds_up():
    """Rank 1 reduces twice, in 2 and in 5 where 2 would do: of what rank 0 waits for it, 3 are of the link."""
    step = trace(
        (1, "data", "reduce", 0, 2, 0, "1"), (1, "data", "reduce", 2, 7, 0, "1"), (1, "tensor", "tensor", 7, 8, 0, "0-1"),
        (0, "tensor", "tensor", 7, 8, 6, "0-1"), (0, "compute", "forward", 0, 1, 0, ""), (0, "compute", "forward", 8, 9, 0, ""),
        (1, "compute", "forward", 8, 9, 0, ""), dependencies=[(2, 1), (3, 4), (5, 3), (6, 2)],
    )  # fmt: skip
    idle = found(step)
    assert causes(step)[0] == {"peer": 3, "contention": 3}
    assert idle.contended_ps.tolist() == [0, 3] and [column.tolist() for column in idle.waits] == [[3], [1], [7]]


def test_only_what_holds_a_link_up_during_the_wait_counts():
    """Rank 1 reduces in 2, 5 and 5: its link is contended from 4 to 7 and from 9 to 12; rank 0 waits from 8 to 12."""
    step = trace(
        *((1, "data", "reduce", start, end, 0, "1") for start, end in ((0, 2), (2, 7), (7, 12))),
        (1, "tensor", "tensor", 12, 13, 0, "0-1"), (0, "tensor", "tensor", 12, 13, 4, "0-1"), (0, "compute", "forward", 0, 8, 0, ""),
        (0, "compute", "forward", 13, 14, 0, ""), (1, "compute", "forward", 13, 14, 0, ""), dependencies=[(3, 2), (4, 5), (6, 4), (7, 3)],
    )  # fmt: skip
    assert causes(step)[0] == {"peer": 1, "contention": 3} and found(step).contended_ps.tolist() == [0, 6]


def test_what_the_next_compute_needs_is_the_cause_whatever_else_ends_meanwhile():
    """From 2 rank 0 has nothing to compute until a receive that comes at 11; from 6 to 9 it reduces, which the compute does not need."""
    step = trace(
        (0, "compute", "forward", 0, 2, 0, ""), (0, "data", "reduce", 6, 9, 4, "0-1"), (0, "recv:1", "recv", 11, 12, 9, "1,0"),
        (0, "compute", "forward", 12, 13, 0, ""), (1, "compute", "forward", 0, 6, 0, ""), (1, "data", "reduce", 6, 9, 0, "0-1"),
        (1, "compute", "forward", 6, 11, 0, ""), (1, "send:0", "send", 11, 12, 0, "1,0"), dependencies=[(1, 0), (3, 2), (5, 4), (7, 6)],
    )  # fmt: skip
    assert causes(step) == {0: {"data": 6}, 1: {"drain": 1}}


def test_no_reason_in_the_trace():
    assert causes(trace((0, "a", "forward", 0, 2, 0, ""), (0, "a", "forward", 5, 6, 0, ""))) == {0: {"nothing": 3}}
    assert causes(trace((0, "a", "forward", 0, 2, 0, ""), (1, "data", "reduce", 0, 1, 0, ""))) == {0: {}, 1: {"nothing": 1}}


def test_measured_traces():
    first = [(0, "7", "kernel", 2, 4, 0, ""), (0, "8", "copy", 3, 6, 0, ""), (0, "7", "kernel", 9, 10, 0, "")]
    step = trace(*first, (1, "7", "kernel", 0, 8, 0, ""))
    assert causes(step) == {0: {"warm_up": 2, "copies": 2, "nothing": 3}, 1: {"drain": 2}}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_causes_add_up_in_any_window(data):
    text, _ = data.draw(jobs())
    step = simulated(text, fold=data.draw(st.booleans())).trace
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, step.makespan_ps)] * 2)))
    whole = found(step)
    assert not whole.causes["nothing"].any() and not whole.causes["dependency"].any()
    found(step, (begin, end + 1))
