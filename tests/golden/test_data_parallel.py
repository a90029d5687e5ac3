"""Data-parallel traffic beside compute, at fixed times of a reduction and a gather."""

import pytest

from tests.helpers import unit_cost

S = 10**12
L, M, F, B = 6, 4, 1, 3


def end_ps(strategy, reduce_s, **more):
    return unit_cost(L, 1, M, strategy, data=2, cost=f", reduce: {reduce_s} s", **more).trace.makespan_ps


@pytest.mark.parametrize("r", [0.5, 1, 3, 4, 12, 13, 40])
def test_the_three_rows(r):
    rest = M * L * F + (M - 1) * L * B  # all forwards, and the backwards before the last micro-batch's
    assert end_ps("standard", r) == (rest + max(L * B + r, B + L * r)) * S
    assert end_ps("lga", r) == (M * L * F + max(L * M * B + r, M * B + L * r)) * S
    for name in ("standard", "lga"):
        assert end_ps(f"{{name: {name}, overlap: false}}", r) == (M * L * (F + B) + L * r) * S


def collectives(run, kind):
    ops = run.trace.ops
    return int((ops["kind"] == kind).sum())


def test_partitioned_parameters_three_collectives_a_layer_and_micro_batch_or_step():
    fixed = ", reduce: 100 ms, gather: 50 ms"
    standard = unit_cost(L, 1, M, "{name: standard, partition: parameters}", data=2, cost=fixed)
    assert (collectives(standard, "gather"), collectives(standard, "reduce")) == (2 * L * M, L * M)
    lga = unit_cost(L, 1, M, "{name: lga, partition: parameters}", data=2, cost=fixed)
    assert (collectives(lga, "gather"), collectives(lga, "reduce")) == (2 * L, L)
    mpp = unit_cost(8, 2, M, "{name: mpp, partition: parameters}", data=2, cost=fixed)
    assert (collectives(mpp, "gather"), collectives(mpp, "reduce")) == (2 * 8, 8)


def gathers(strategy, gather_s):
    run = unit_cost(L, 1, M, strategy, data=2, cost=f", reduce: 1 us, gather: {gather_s} s")
    ops = run.trace.ops
    return run, ops[ops["kind"] == "gather"].sort_values("start_ps")


def test_the_next_layer_is_gathered_while_this_one_computes():
    run, gather = gathers("{name: lga, partition: parameters}", 2)
    # Two buffers: the first two gathers follow each other at once, each later one waits for a layer (m t_f = 4 s) to end.
    assert gather["start_ps"].iloc[:4].tolist() == [0, 2 * S, (2 + 4) * S, (2 + 8) * S]
    # Only the first is exposed; the backward's are hidden like the forward's.
    assert run.trace.makespan_ps == (2 + M * L * (F + B)) * S + 10**6


def test_one_buffer_has_no_prefetch():
    run, _ = gathers("{name: lga, partition: parameters, prefetch: 0}", 2)
    assert run.trace.makespan_ps == (2 * 2 * L + M * L * (F + B)) * S + 10**6


def test_gathers_go_before_reductions_that_become_possible_at_the_same_time():
    run = unit_cost(L, 1, M, "{name: lga, partition: parameters}", data=2, cost=", reduce: 1 s, gather: 1 s")
    ops = run.trace.ops
    data = ops[ops["stream"] == "data"].sort_values("start_ps")
    # Layer 4's backward ends: layer 2's buffer is free and layer 4's gradient complete at that instant.
    at = data[(data["kind"] == "reduce") & (data["layer"] == 4)]["start_ps"].iloc[0]
    before = data[(data["end_ps"] == at)].iloc[0]
    assert (before["kind"], before["layer"]) == ("gather", 2)


def test_reductions_start_when_the_last_micro_batch_allows():
    ops = unit_cost(L, 1, M, "standard", data=2, cost=", reduce: 1 us").trace.ops
    backward = ops[(ops["kind"] == "backward") & (ops["micro_batch"] == M - 1)].set_index("layer")["end_ps"]
    reduce = ops[ops["kind"] == "reduce"].set_index("layer")["start_ps"]
    assert reduce.sort_index().tolist() == backward.sort_index().tolist()
    ops = unit_cost(8, 4, M, "mpp", data=2, cost=", reduce: 1 us").trace.ops
    backward = ops[ops["kind"] == "backward"].groupby("layer")["end_ps"].max()
    assert ops[ops["kind"] == "reduce"].set_index("layer")["start_ps"].sort_index().tolist() == backward.tolist()
    assert len(backward) == 8


def test_optimizer_partition_gathers_new_parameters_after_the_last_reduction():
    run = unit_cost(L, 1, M, "{name: standard, partition: optimizer}", data=2, cost=", reduce: 1 s, gather: 2 s")
    assert run.trace.makespan_ps == (M * L * (F + B) + 1 + L * 2) * S


@pytest.mark.parametrize(("name", "times"), [("lga", 1), ("standard", M)])
def test_without_overlap_every_gather_and_reduction_is_exposed(name, times):
    strategy = f"{{name: {name}, partition: parameters, overlap: false}}"
    run = unit_cost(L, 1, M, strategy, data=2, cost=", reduce: 5 s, gather: 2 s")
    assert run.trace.makespan_ps == (M * L * (F + B) + times * L * (2 * 2 + 5)) * S
    assert run.summary["overlap"] == 0
