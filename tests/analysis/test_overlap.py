"""Hidden and exposed communication, by kind; parts that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.analysis.overlap import family_split, rank_split, sweeps
from clustersim.analysis.ranks import rank_times
from clustersim.analysis.streams import lines, read_ops, whole_window
from tests.analysis.test_streams import trace
from tests.helpers import unit_cost

S = 10**12


def split(step, window=None):
    ops = read_ops(step)
    [cut] = sweeps(ops, window or whole_window(ops))
    return rank_split(cut), family_split(cut)


def test_half_hidden_communication():
    """The closed form: communication [0,10], compute [5,15]: overlap 50 %, exposed 5, idle 0."""
    ranks, families = split(trace((0, "data", "reduce", 0, 10, 0, "g"), (0, "compute", "forward", 5, 15, 0, "")))
    assert ranks.values.tolist() == [[0, 10, 10, 5, 5, 0]]
    assert families.values.tolist() == [[0, "data", 10, 5, 5]]


def test_one_window_over_all_ranks():
    ranks, _ = split(trace((0, "compute", "forward", 0, 4, 0, ""), (5, "compute", "forward", 6, 10, 0, "")))
    assert ranks[["rank", "compute_ps", "idle_ps"]].values.tolist() == [[0, 4, 6], [5, 4, 6]]


def test_ranks_that_do_not_fit_on_one_line():
    """2^61 ps are 27 days: two ranks of such a window would be longer than 64 bits can count in all that is added up."""
    month = 2**61
    computes = (0, "compute", "forward", 0, month, 0, ""), (5, "compute", "forward", 0, 3, 0, "")
    ops = read_ops(trace(*computes, (5, "data", "reduce", 1, month, 0, "")))
    parts = [rank_split(cut).values.tolist() for cut in sweeps(ops, whole_window(ops))]
    assert parts == [[[0, month, 0, 0, 0, 0]], [[5, 3, month - 1, 2, month - 3, 0]]]


def test_ranks_come_in_order_whatever_that_of_the_rows():
    step = trace((1, "compute", "forward", 0, 4, 0, ""), (0, "compute", "forward", 0, 3, 0, ""))
    assert rank_times(step, (0, 4))[["rank", "compute_ps"]].values.tolist() == [[0, 3], [1, 4]]


def test_exposed_time_of_several_kinds_is_given_to_one():
    step = trace((0, "tensor", "tensor", 0, 6, 0, "a"), (0, "data", "reduce", 4, 10, 0, "b"), (0, "compute", "forward", 9, 12, 0, ""))
    ranks, families = split(step)
    assert ranks["exposed_ps"].tolist() == [9]
    assert families.values.tolist() == [[0, "tensor", 6, 0, 6], [0, "data", 6, 1, 3]]


def test_copies_are_neither_compute_nor_communication():
    ranks, families = split(trace((0, "7", "kernel", 0, 4, 0, ""), (0, "8", "copy", 2, 6, 0, ""), (0, "9", "all_reduce", 5, 8, 0, "")))
    assert ranks.values.tolist() == [[0, 4, 3, 0, 3, 1]]
    assert families["family"].tolist() == ["all_reduce"]


def test_no_communication():
    ranks, families = split(trace((0, "compute", "forward", 0, 4, 0, "")))
    assert ranks.values.tolist() == [[0, 4, 0, 0, 0, 0]] and not len(families)


@pytest.mark.parametrize(
    ("strategy", "step_s", "exposed_s"),
    [
        # L t_b = 8, r = 1: backward of the last micro-batch hides all but the last layer's reduction.
        ("{name: standard, overlap: true}", 8 + 16 + 1, 1),
        # not overlapped: all of the backward, then L r
        ("{name: standard, overlap: false}", 8 + 16 + 4, 4),
        ("{name: lga, overlap: true}", 8 + 16 + 1, 1),
    ],
)
def test_reductions_beside_the_backward(strategy, step_s, exposed_s):
    run = unit_cost(4, 1, 2, strategy, data=2, forward=1, backward=2, cost=", reduce: 1 s")
    ranks, families = split(run.trace)
    assert (ranks["exposed_ps"] == exposed_s * S).all() and (ranks["idle_ps"] == 0).all()
    assert (ranks["hidden_ps"] == (4 - exposed_s) * S).all()
    assert run.trace.makespan_ps == step_s * S and set(families["family"]) == {"data"}


spans = st.tuples(st.integers(0, 30), st.integers(0, 12))
kinds = st.sampled_from(["forward", "reduce", "tensor", "copy", "odd"])
rows = st.lists(st.tuples(st.integers(0, 2), kinds, spans), min_size=1, max_size=25)


@given(rows, st.integers(0, 20), st.integers(1, 30))
def test_parts_are_those_of_a_count_of_every_instant(found, begin, length):
    step = trace(*((rank, "s", kind, start, start + took, 0, "g") for rank, kind, (start, took) in found))
    window = begin, begin + length
    ranks, families = split(step, window)
    assert (ranks["compute_ps"] + ranks["exposed_ps"] + ranks["idle_ps"] == length).all()
    for row in ranks.itertuples(index=False):
        doing = [{kind for rank, kind, (s, n) in found if rank == row.rank and s <= now < s + n} for now in range(*window)]
        assert row.compute_ps == sum("forward" in kinds for kinds in doing)
        assert row.communication_ps == sum(not kinds.isdisjoint({"reduce", "tensor"}) for kinds in doing)
        assert row.hidden_ps == sum("forward" in kinds and not kinds.isdisjoint({"reduce", "tensor"}) for kinds in doing)
        assert families.loc[families["rank"] == row.rank, "exposed_ps"].sum() == row.exposed_ps


def test_lines_cover_every_rank_once():
    ops = read_ops(trace(*((rank, "s", "forward", 0, 1, 0, "") for rank in (5, 2, 9))))
    assert [rank for line in lines(ops.rank, (0, 1)) for rank in line.ranks.tolist()] == [2, 5, 9]
