"""Compute beside collectives takes longer, by the same part however often it is interrupted; times by hand."""

from dataclasses import replace

from clustersim.engine.simulate import simulate
from clustersim.program.kinds import KIND_CODE
from tests.engine.test_simulate import program, stream
from tests.helpers import simulated

F, REDUCE, SEND = KIND_CODE["forward"], KIND_CODE["reduce"], KIND_CODE["send"]
PS_PER_S = 10**12


def ends(ops, streams, dependencies=(), fixed_ps=(), ppm=250_000):
    return simulate(replace(program(ops, streams, dependencies, fixed_ps), slowdown_ppm=ppm)).end_ps.tolist()


def beside(kind):
    """Compute of 100 ps, beside it what takes 50 ps from the beginning."""
    return [(0, F, 100, -1), (0, kind, 0, 0)], [stream(0, "compute", True, (0,)), stream(0, "data", False, (1,))], (), [50]


def test_compute_is_slower_while_a_collective_is_under_way():
    """In 50 ps 40 of the 100 are done, the other 60 alone."""
    assert ends(*beside(REDUCE)) == [110, 50]
    assert ends(*beside(REDUCE), ppm=0) == [100, 50]


def test_a_message_between_two_ranks_does_not_slow_it():
    assert ends(*beside(SEND)) == [100, 50]


def test_two_collectives_at_once_slow_no_more_than_one():
    """From 0 to 50 and from 0 to 75: 60 of the 100 are done in 75 ps."""
    ops = [(0, F, 100, -1), (0, REDUCE, 0, 0), (0, REDUCE, 0, 1)]
    streams = [stream(0, "compute", True, (0,)), stream(0, "data", False, (1,)), stream(0, "tensor", False, (2,))]
    assert ends(ops, streams, fixed_ps=[50, 75]) == [115, 50, 75]


def test_one_after_the_other_and_each_op_by_itself():
    """The reduction runs from 20, when the first op is done, to 70: of the second 40 in 50 ps, and the other 60 by 130. Then one more."""
    ops = [(0, F, 20, -1), (0, F, 100, -1), (0, F, 10, -1), (0, REDUCE, 0, 0)]
    streams = [stream(0, "compute", True, (0, 1, 2)), stream(0, "data", False, (3,))]
    assert ends(ops, streams, [(3, 0)], [50]) == [20, 130, 140, 70]


def test_a_rank_that_waits_in_a_collective_is_not_slowed_before_it_begins():
    """Rank 1 comes at 30: the reduction is from 30 to 80, in which rank 0 does 40 of its 100, after 30 alone."""
    ops = [(0, F, 100, -1), (0, REDUCE, 0, 0), (1, F, 30, -1), (1, REDUCE, 0, 0)]
    streams = [
        stream(0, "compute", True, (0,)), stream(0, "data", False, (1,)),
        stream(1, "compute", True, (2,)), stream(1, "data", False, (3,)),
    ]  # fmt: skip
    assert ends(ops, streams, [(3, 2)], [50]) == [110, 80, 30, 80]


def test_compute_exposed_communication_and_idle_are_the_step():
    """Forwards beside the gathers of other layers take up to 19 % longer than those that are not."""
    run = simulated("""
model: {layers: 4, hidden: 2048, heads: 16, vocab: 1000}
cluster: dgx-a100
parallel: {data: 16}
strategy: {name: lga, partition: parameters}
batch: {global: 32, micro: 1, sequence: 512}
""")
    ops = run.trace.ops
    forward = ops[(ops["kind"] == "forward") & (ops["layer"] == 1)]
    lengths = forward["end_ps"] - forward["start_ps"]
    assert lengths.min() < lengths.max() <= 1.19 * lengths.min() + 1
    of_rank = run.summary["ideal_compute_s"] + run.summary["exposed_communication_s"] + run.summary["idle_s"]
    assert round(of_rank * PS_PER_S) == run.trace.makespan_ps
