"""Streams, activities, and what happens when nothing can move."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from clustersim.engine.deadlock import explain, find_cycle
from clustersim.engine.events import Clock
from clustersim.engine.simulate import simulate
from clustersim.errors import DeadlockError
from clustersim.program.kinds import KIND_CODE
from clustersim.program.program import Links, Load, Phase, Program, Stream, Transfer
from tests.helpers import simulated, unit_cost


def stream(rank, name, in_order, ops):
    return Stream(rank, name, in_order, np.array(ops, dtype=np.int64))


def program(ops, streams, dependencies=(), fixed_ps=()):
    """Ops are (rank, kind, duration_ps, activity); activities last as long as ``fixed_ps`` says."""
    rank, kind, duration, activity = (np.array(column, dtype=np.int64) for column in zip(*ops, strict=True))
    zero = np.zeros(len(ops), dtype=np.int64)
    of = np.array(dependencies, dtype=np.int64).reshape(-1, 2)
    return Program(
        rank=rank, stream=zero, kind=kind, part=zero, stage=zero, layer=zero, micro_batch=np.arange(len(ops)),
        duration_ps=duration, bytes=zero, flops=zero, peer=zero - 1, activity=activity,
        dependency_op=of[:, 0], dependency_on=of[:, 1], activity_transfer=np.arange(len(fixed_ps)),
        transfers=tuple(Transfer(str(i), (i,)) for i in range(len(fixed_ps))), phases=tuple(map(Phase, fixed_ps)),
        streams=tuple(streams), links=Links((), (), (), ()),
        simulated_as=np.arange(int(rank.max(initial=-1)) + 1),
    )  # fmt: skip


F, REDUCE = KIND_CODE["forward"], KIND_CODE["reduce"]


def test_a_stream_runs_in_order_and_an_op_waits_for_its_dependencies():
    ops = [(0, F, 5, -1), (0, F, 1, -1), (1, F, 2, -1)]
    streams = [stream(0, "compute", True, (0, 1)), stream(1, "compute", True, (2,))]
    outcome = simulate(program(ops, streams, dependencies=[(2, 0)]))
    assert outcome.start_ps.tolist() == [0, 5, 5]
    assert outcome.end_ps.tolist() == [5, 6, 7]


def test_a_collective_starts_with_its_last_member_and_the_wait_is_told():
    ops = [(0, F, 3, -1), (0, REDUCE, 0, 0), (1, F, 10, -1), (1, REDUCE, 0, 0)]
    streams = [
        stream(0, "compute", True, (0,)), stream(0, "data", False, (1,)),
        stream(1, "compute", True, (2,)), stream(1, "data", False, (3,)),
    ]  # fmt: skip
    outcome = simulate(program(ops, streams, [(1, 0), (3, 2)], [4]))
    assert outcome.start_ps.tolist() == [0, 10, 0, 10]
    assert outcome.end_ps.tolist() == [3, 14, 10, 14]
    assert (outcome.start_ps - outcome.arrival_ps).tolist() == [0, 7, 0, 0]


def test_collectives_that_become_possible_in_different_orders_on_two_ranks_do_not_block_each_other():
    # Rank 0 is ready for X at 1 and Y at 2, rank 1 for Y at 1 and X at 2.
    ops = [(0, F, 1, -1), (0, F, 1, -1), (0, REDUCE, 0, 0), (0, REDUCE, 0, 1)]
    ops += [(1, F, 1, -1), (1, F, 1, -1), (1, REDUCE, 0, 1), (1, REDUCE, 0, 0)]
    streams = [
        stream(0, "compute", True, (0, 1)), stream(0, "data", False, (2, 3)),
        stream(1, "compute", True, (4, 5)), stream(1, "data", False, (6, 7)),
    ]  # fmt: skip
    waits = [(2, 0), (3, 1), (6, 4), (7, 5)]
    outcome = simulate(program(ops, streams, waits, [5, 5]))
    assert outcome.start_ps[[2, 3, 6, 7]].tolist() == [2, 7, 7, 2]


def test_deadlock_names_the_cycle():
    ops = [(0, F, 1, -1), (0, F, 1, -1), (1, F, 1, -1), (1, F, 1, -1)]
    streams = [stream(0, "compute", True, (0, 1)), stream(1, "compute", True, (2, 3))]
    with pytest.raises(DeadlockError) as error:
        simulate(program(ops, streams, dependencies=[(0, 3), (2, 1)]))
    text = str(error.value)
    assert text.startswith("deadlock: ") and "\n" not in text
    for name in ("rank 0 forward of stage 0 micro-batch 0", "rank 1 forward of stage 0 micro-batch 3"):
        assert name in text
    assert text.count("waits for") == 4  # all four ops, and back to the first


def test_deadlock_over_the_order_of_sends():
    # Two in-order streams enter two activities in opposite orders.
    ops = [(0, REDUCE, 0, 0), (0, REDUCE, 0, 1), (1, REDUCE, 0, 1), (1, REDUCE, 0, 0)]
    streams = [stream(0, "tensor", True, (0, 1)), stream(1, "tensor", True, (2, 3))]
    with pytest.raises(DeadlockError, match=r"rank 0 reduce .* waits for rank 1 reduce"):
        simulate(program(ops, streams, fixed_ps=[1, 1]))


def test_deadlock_over_a_collective_of_streams_in_the_order_of_readiness():
    # Rank 0 computes after the collective, which waits for rank 1, which waits for that.
    ops = [(0, F, 1, -1), (0, REDUCE, 0, 0), (1, REDUCE, 0, 0)]
    streams = [stream(0, "compute", True, (0,)), stream(0, "data", False, (1,)), stream(1, "data", False, (2,))]
    with pytest.raises(DeadlockError) as error:
        simulate(program(ops, streams, [(0, 1), (2, 0)], [1]))
    names = ["rank 0 forward of stage 0 micro-batch 0", "rank 0 reduce of stage 0 micro-batch 1", "rank 1 reduce of stage 0 micro-batch 2"]
    assert str(error.value) == "deadlock: " + " waits for ".join([*names, names[0]])


def ring(count):
    """So many ranks with an op each, which waits for that of the next rank; in no micro-batch."""
    around = [(at, (at + 1) % count) for at in range(count)]
    one = program([(rank, F, 1, -1) for rank in range(count)], [stream(rank, "compute", True, (rank,)) for rank in range(count)], around)
    return replace(one, micro_batch=np.full(count, -1))


def test_of_a_long_cycle_of_waits_twelve_are_shown():
    names = [f"rank {rank} forward of stage 0" for rank in range(15)]
    for count, more in ((12, ()), (15, ("... (3 more)",))):
        with pytest.raises(DeadlockError) as error:
            simulate(ring(count))
        assert str(error.value) == "deadlock: " + " waits for ".join([*names[:12], *more, names[0]])


def test_an_op_that_waits_for_no_other_is_named():
    ops = [(rank, F, 1, -1) for rank in range(3)]
    row = program(ops, [stream(rank, "compute", True, (rank,)) for rank in range(3)], [(1, 0), (2, 1)])
    text = explain(row, np.array([True, False, False]), np.array([True, False, False]))
    assert text == "deadlock: rank 1 forward of stage 0 micro-batch 1 waits for something that never happens"


def test_a_cycle_of_waits_is_found_wherever_it_is():
    assert find_cycle({1: [2, 3], 2: [], 3: [2], 4: [1, 5], 5: [6], 6: [3, 5]}) == [5, 6]
    assert find_cycle({1: [2, 3], 2: [4], 3: [4], 5: [1]}) == []  # the 4 is reached twice, and in no circle
    assert find_cycle({7: [7]}) == [7]


def test_phases_of_a_transfer_follow_one_another_and_a_transfer_of_none_takes_no_time():
    ops = [(0, REDUCE, 0, 0), (0, REDUCE, 0, 1), (0, REDUCE, 0, 2)]
    one = program(ops, [stream(0, "data", True, (0, 1, 2))], fixed_ps=[3, 4, 5])
    outcome = simulate(replace(one, transfers=(Transfer("three", (0, 1, 2)), Transfer("none", ()), Transfer("one", (1,)))))
    assert outcome.start_ps.tolist() == [0, 12, 12]
    assert outcome.end_ps.tolist() == [12, 12, 16]


def test_transfers_of_two_streams_share_a_link_that_bears_each_alone():
    # 1.5 GB each at 7.5 GB/s of the common link, though the links of their own would allow 10.
    gb = 10**9
    one = program([(0, REDUCE, 0, 0), (1, REDUCE, 0, 1)], [stream(0, "data", False, (0,)), stream(1, "data", False, (1,))], fixed_ps=[0, 0])
    phases = tuple(Phase(0, (Load(own, Fraction(3 * gb, 2)), Load(2, Fraction(3 * gb, 2)))) for own in (0, 1))
    links = Links(("a", "b", "common"), ("network",) * 3, (10 * gb, 10 * gb, 15 * gb), (1,) * 3)
    outcome = simulate(replace(one, stream=np.arange(2), phases=phases, links=links))
    assert outcome.end_ps.tolist() == [2 * 10**11] * 2


def test_the_end_of_an_instant_comes_after_all_that_happens_in_it():
    clock, seen = Clock(), []
    clock.at_end_of_instant(lambda: seen.append("end"))
    clock.call_after(0, seen.append, "now")
    clock.call_after(1, seen.append, "later")
    clock.run()
    assert seen == ["now", "end", "later"]


def test_what_goes_wrong_in_a_process_is_not_lost():
    def process():
        yield clock.timeout(3)
        raise ValueError("out of order")

    clock = Clock()
    clock.process(process())
    with pytest.raises(ValueError, match="out of order"):
        clock.handle(10)
    assert clock.now == 3


def test_one_long_op_is_one_jump():
    run = unit_cost(1, 1, 1, "standard", forward=3000, backward=3000)
    assert run.trace.makespan_ps == 6000 * 10**12
    assert run.summary["events"] < 20


CONTENDED = """
model: {layers: 8, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {data: 4, pipeline: 2, tensor: 2}
strategy: mpp
batch: {global: 16, micro: 1, sequence: 512}
"""


def test_a_stream_never_overlaps_itself_and_no_op_starts_before_what_it_depends_on():
    trace = simulated(CONTENDED, fold=False).trace
    ops = trace.ops.set_index("op")
    for _, stream in ops.groupby(["rank", "stream"], observed=True):
        stream = stream.sort_values(["start_ps", "end_ps"])
        assert (stream["start_ps"].to_numpy()[1:] >= stream["end_ps"].to_numpy()[:-1]).all()
    pairs = trace.dependencies
    assert len(pairs) and (ops["start_ps"].loc[pairs["op"]].to_numpy() >= ops["end_ps"].loc[pairs["on"]].to_numpy()).all()
    assert (ops["end_ps"] >= ops["start_ps"]).all() and (ops["wait_ps"] >= 0).all()
