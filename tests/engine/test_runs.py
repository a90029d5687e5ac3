"""Runs of compute that are walked through in one go: the same times as op by op."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clustersim.engine.runs import find_runs
from clustersim.engine.simulate import simulate
from clustersim.program.program import Links, Program, Stream


def program(streams, durations, dependencies):
    """Compute ops on the in-order streams of one rank each."""
    rank = np.empty(len(durations), dtype=np.int64)
    for number, ops in enumerate(streams):
        rank[list(ops)] = number
    zero = np.zeros(len(durations), dtype=np.int64)
    op, on = np.array(dependencies, dtype=np.int64).reshape(-1, 2).T
    empty = np.zeros(0, dtype=np.int64)
    rows = tuple(Stream(number, "compute", True, np.array(ops, dtype=np.int64)) for number, ops in enumerate(streams))
    return Program(
        rank, rank, zero, zero, zero, zero, zero, np.array(durations, dtype=np.int64), zero, zero, zero - 1, zero - 1, op, on, empty, (),
        (),
        rows, Links((), (), (), ()), np.arange(len(streams)),
    )  # fmt: skip


def by_hand(streams, durations, dependencies):
    """Start of each op: the later of the end of the one before and the ends of what it waits for."""
    start, waits = {}, {}
    for op, on in dependencies:
        waits.setdefault(op, []).append(on)
    before = {op: ops[at - 1] for ops in streams for at, op in enumerate(ops) if at}
    while len(start) < len(durations):
        for op in range(len(durations)):
            needed = [*waits.get(op, []), *([before[op]] if op in before else [])]
            if op not in start and all(on in start for on in needed):
                start[op] = max([0, *(start[on] + durations[on] for on in needed)])
    return [start[op] for op in range(len(durations))]


@st.composite
def jobs(draw):
    count = draw(st.integers(1, 24))
    ranks = draw(st.integers(1, 3))
    rank = draw(st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count))
    streams = [[op for op in range(count) if rank[op] == number] for number in range(ranks)]
    durations = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] > pair[1])
    dependencies = draw(st.lists(pairs, max_size=12, unique=True)) if count > 1 else []
    return streams, durations, dependencies


@given(jobs())
def test_times_are_those_of_single_ops(job):
    assert simulate(program(*job)).start_ps.tolist() == by_hand(*job)


def test_a_run_ends_where_something_waits_and_begins_where_it_waits():
    # Rank 1 waits for op 1, and op 3 for rank 1: the runs of rank 0 are 0-1, 2, 3-4.
    runs = find_runs(program([[0, 1, 2, 3, 4], [5]], [1] * 6, [(1, 0), (5, 1), (3, 5), (4, 0)]))
    assert runs.of_op.tolist() == [0, 0, 1, 2, 2, 3]
    assert runs.offset_ps.tolist() == [0, 1, 0, 0, 1, 0]
    assert runs.duration_ps.tolist() == [2, 1, 2, 1]
