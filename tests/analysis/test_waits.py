"""Who waits for whom: members of a collective, waits apart from transfers, contention, stragglers."""

import numpy as np

from clustersim.analysis.streams import read_ops
from clustersim.analysis.waits import collective_waits, contention, find_activities, stragglers
from clustersim.engine.simulate import simulate as run_program
from clustersim.program.build import build_program
from clustersim.trace.trace import from_outcome
from tests.analysis.test_streams import trace
from tests.helpers import parsed

S = 10**12


def found(step):
    ops = read_ops(step)
    return ops, find_activities(ops)


def test_a_collective_with_a_late_rank():
    """Rank 2 arrives at 5, the others at 1 and 3; the transfer takes from 5 to 7."""
    rows = [(rank, "data", "reduce", 5 * S, 7 * S, wait * S, "0-2") for rank, wait in enumerate((4, 2, 0))]
    ops, joined = found(trace(*rows))
    assert joined.of_op.tolist() == [0, 0, 0] and joined.last.tolist() == [2]
    row = collective_waits(ops, joined, np.ones(3, dtype=int)).iloc[0].to_dict()
    assert row == {
        "family": "data", "kind": "reduce", "ops": 3, "wait_s": 6, "longest_wait_s": 4, "transfer_s": 6, "contention_s": 0,
    }  # fmt: skip
    assert stragglers(ops, joined, np.ones(3, dtype=int)).values.tolist() == [[0, 0, 0], [1, 0, 0], [2, 6, 1]]


def test_a_wait_counts_for_all_ranks_that_it_was_simulated_for():
    """The same, rank 0 for five and rank 2 for two of the job: 8 ops wait 5 x 4 + 2 and last 8 x 2; both ranks 2 come last."""
    rows = [(rank, "data", "reduce", 5 * S, 7 * S, wait * S, "0-2") for rank, wait in enumerate((4, 2, 0))]
    ops, joined = found(trace(*rows))
    row = collective_waits(ops, joined, np.array([5, 1, 2])).iloc[0]
    assert (row["ops"], row["wait_s"], row["longest_wait_s"], row["transfer_s"]) == (8, 22, 4, 16)
    assert stragglers(ops, joined, np.array([5, 1, 2])).values.tolist() == [[0, 0, 0], [1, 0, 0], [2, 22, 2]]


def test_send_and_receive_are_one_transfer_and_no_straggler():
    ops, joined = found(trace((0, "send:1", "send", 5, 7, 0, "0-1"), (1, "recv:0", "recv", 5, 7, 5, "0-1")))
    assert joined.of_op.tolist() == [0, 0]
    assert (stragglers(ops, joined, np.ones(2, dtype=int))["waited_for_s"] == 0).all()


def test_other_groups_are_other_collectives():
    _, joined = found(trace(*((rank, "data", "reduce", 5, 7, 0, group) for rank, group in ((0, "0-1"), (2, "2-3"), (1, "0-1")))))
    assert joined.of_op.tolist() == [0, 1, 0]


def test_what_a_group_does_at_once_stays_apart_beside_messages():
    rows = [(0, "data", "reduce"), (0, "context", "context"), (1, "context", "context"), (1, "data", "reduce")]
    messages = [(0, "send:1", "send", 5, 7, 0, "0,1"), (1, "recv:0", "recv", 5, 7, 0, "0,1")]
    _, joined = found(trace(*((*row, 5, 7, 0, "0-1") for row in rows), *messages))
    of = joined.of_op.tolist()
    assert len(joined) == 3 and of[0] == of[3] and of[1] == of[2] and of[4] == of[5]


def test_contention_is_what_the_shortest_of_its_like_did_not_take():
    rows = [(0, "data", "reduce", start, end, 0, group) for start, end, group in ((0, 4, "a"), (4, 10, "a"), (10, 30, "b"))]
    ops, joined = found(trace(*rows))
    assert contention(ops, joined).tolist() == [0, 2, 0]


def test_measured_kernels_wait_inside():
    """The n-th of a group on each rank, where both have as many."""
    rows = [(0, "9", "all_reduce", 0, 10, 6, "g"), (1, "9", "all_reduce", 6, 10, 0, "g"), (0, "9", "all_gather", 12, 13, 0, "g")]
    ops, joined = found(trace(*rows))
    assert joined.of_op.tolist() == [0, 0, 1]
    assert joined.begin.tolist() == [6, 12] and joined.last.tolist() == [1, 2]
    assert collective_waits(ops, joined, np.ones(3, dtype=int))["transfer_s"].sum() * S == 9  # 4 on each, and 1


def test_measured_kernels_that_never_met_are_not_one():
    _, joined = found(trace((0, "9", "all_reduce", 0, 5, 0, "g"), (1, "9", "all_reduce", 6, 10, 0, "g")))
    assert joined.of_op.tolist() == [0, 1]


def test_activities_are_those_of_the_program():
    for fold in (True, False):
        program = build_program(parsed(JOB), fold)
        ops, joined = found(from_outcome(program, run_program(program)))
        true, inverse = np.unique(np.where(program.activity < 0, -1 - np.arange(program.ops), program.activity), return_inverse=True)
        pairs = set(zip(joined.of_op.tolist(), inverse.tolist(), strict=True))
        assert len(pairs) == len(true) == len(joined)
        assert (ops.wait[joined.last] == 0).all()


JOB = """
model: {layers: 4, hidden: 256, heads: 4}
cluster: pcie-ethernet
parallel: {pipeline: 2, tensor: 2, data: 2}
strategy: {name: mpp, partition: parameters}
batch: {global: 8, micro: 1, sequence: 128}
"""
