"""Memory over time: the laws of forwards in flight in bytes, and what holds for every strategy."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from clustersim.analysis.memory import at_peak, fullest_rank, peaks, timeline
from clustersim.errors import InputError
from clustersim.program.build import build_program, build_traffic
from clustersim.program.memory import memory_sizes
from clustersim.schedule.actions import most_in_flight
from clustersim.schedule.strategy import PRESETS, build_named, parameter_buffers
from clustersim.schedule_run import Times, run_alone
from clustersim.simulation import simulate
from tests.helpers import parsed, simulated

STATIC = ["weights", "gradients", "optimizer"]

# b = 1, s = 128, h = 64, a = 4, 16 bits (arXiv 2205.05198): s b h (34 + 5 a s/h) without recompute, 2 s b h with it in full.
ALL = 128 * 64 * (34 + 5 * 4 * 128 // 64)
INPUT = 2 * 128 * 64
HEAD = 4 * 128 * 64 + 4 * 128 * 10  # the inputs of the norm and of the output matrix, and logits in 32 bits
P, M, V = 4, 8, 2

# By rank the most forwards of one stage in flight, and of those of the last stage on its rank; worked out from the laws.
LAWS = {
    "gpipe": ([M] * P, 1),
    "1f1b": ([4, 3, 2, 1], 1),  # min(m, p-r)
    "standard": ([4, 3, 2, 1], 1),
    "interleaved-1f1b": ([11, 9, 7, 5], 1),  # 2(p-r-1) + (v-1)p + 1
    "breadth-first": ([M * V] * P, 1),
    "mpp": ([M * V] * P, 1),
    "lga": ([M * V] * P, 1),
    "zb-h1": ([P] * P, P),  # the weight gradient keeps activations, the head's too
}
WITH_LAYERS_TO_SPARE = [name for name in LAWS if name not in ("mpp", "lga")]


def run(name, layers, m=M, recompute="none", chunks=""):
    return simulated(
        f"""
model: {{layers: {layers}, hidden: 64, heads: 4, vocab: 10}}
cluster: ideal
parallel: {{pipeline: {P}}}
strategy: {{name: {name}{chunks}}}
batch: {{global: {m}, micro: 1, sequence: 128}}
cost: {{forward: 1 s, backward: 2 s}}
recompute: {recompute}
"""
    )


def most(done, what="activations"):
    return [int(timeline(done.trace.memory, rank)[what].max()) for rank in range(P)]


@pytest.mark.parametrize(("recompute", "kept", "working"), [("none", ALL, 0), ("full", INPUT, ALL)])
@pytest.mark.parametrize("name", LAWS)
def test_most_activations_are_the_law_of_forwards_in_flight(name, recompute, kept, working):
    in_flight, last = LAWS[name]
    expected = [count * kept + working for count in in_flight]
    expected[-1] += last * HEAD
    assert most(run(name, P * V if max(in_flight) > M or name == "interleaved-1f1b" else P, recompute=recompute)) == expected


@pytest.mark.parametrize("name", WITH_LAYERS_TO_SPARE)
def test_a_stage_of_three_layers_holds_three_times_as_much(name):
    in_flight, last = LAWS[name]
    chunks = V if max(in_flight) > M or name == "interleaved-1f1b" else 1
    expected = [3 * count * ALL for count in in_flight]
    expected[-1] += last * HEAD
    assert most(run(name, 3 * P * chunks)) == expected


@pytest.mark.parametrize(("name", "chunks_in_flight"), [("zb-v", 2 * P), ("v-half", 2 * ((P + 2) // 2)), ("v-min", 2 * ((P + 4) // 3))])
def test_v_schedules(name, chunks_in_flight):
    done = run(name, 2 * P, m=16)
    held = most(done)
    # Rank 0 has the last stage, and with it heads.
    assert [held[rank] // ALL for rank in range(P)] == list(most_in_flight(done.experiment.schedule))
    assert max(held) // ALL == chunks_in_flight
    assert [held[rank] % ALL for rank in range(1, P)] == [0] * (P - 1)


def test_dualpipe_holds_p_plus_1_stages_on_each_rank():
    held = most(run("dualpipe", P, m=16))
    assert [size // ALL for size in held] == [P + 1] * P
    # The last stage of each copy lies on an end.
    assert [size % ALL == 0 for size in held] == [False, True, True, False]


def test_layers_of_a_pair_take_turns_so_that_it_holds_one_layer_more_and_not_one_stage():
    # At the turn, on the middle ranks, a forward and a backward run one after the other.
    assert [size // ALL for size in most(run("dualpipe", 3 * P, m=16))] == [3 * P + 1, 3 * (P + 1), 3 * (P + 1), 3 * P + 1]


def test_one_micro_batch_step_by_step():
    """One layer at 1 s forward and 3 s backward: the input from 0 to 4 s, the layer computed again from 1 to 4 s."""
    done = simulated(
        """
model: {layers: 2, hidden: 64, heads: 4, vocab: 10}
cluster: ideal
parallel: {pipeline: 2}
strategy: gpipe
batch: {global: 1, micro: 1, sequence: 128}
cost: {forward: 1 s, backward: 3 s}
recompute: full
"""
    )
    table = done.trace.memory[done.trace.memory["what"] == "activations"]
    s = 10**12
    assert table[["rank", "time_ps", "bytes"]].to_numpy().tolist() == [
        [0, 0, INPUT], [0, 5 * s, ALL], [0, 8 * s, -INPUT - ALL],
        [1, s, INPUT], [1, 2 * s, HEAD + ALL], [1, 5 * s, -INPUT - HEAD - ALL],
    ]  # fmt: skip


def test_slices_hold_their_part():
    done = simulated(
        """
model: {layers: 4, hidden: 64, heads: 4, vocab: 10}
cluster: ideal
parallel: {pipeline: 2}
strategy: {name: terapipe, slices: 4}
batch: {global: 3, micro: 1, sequence: 128}
cost: {forward: 1 s, backward: 3 s}
"""
    )
    (first, last) = most_in_flight(done.experiment.schedule)
    assert int(timeline(done.trace.memory, 0)["activations"].max()) == first * 2 * ALL // 4
    assert int(timeline(done.trace.memory, 1)["activations"].max()) == (last * 2 * ALL + HEAD) // 4


def test_both_parts_of_a_backward_compute_the_layer_again():
    done = run("zb-h1", P, m=4, recompute="full")
    ops = done.trace.ops
    second = ops[(ops["rank"] == 0) & (ops["kind"] == "weight")].sort_values("start_ps").iloc[-1]
    held = timeline(done.trace.memory, 0)["activations"]
    assert held.asof(second["start_ps"]) == INPUT + ALL and held.asof(second["end_ps"]) == 0


def test_buffers_are_those_of_the_gathers_and_reductions():
    """Two layers, one replica of two: a gather takes 1 s, a reduction 2 s, each layer forward 1 s and backward 3 s."""
    done = simulated(
        """
model: {layers: 2, hidden: 64, heads: 4, vocab: 10}
cluster: ideal
parallel: {data: 2}
strategy: {name: standard, partition: parameters, prefetch: 0}
batch: {global: 2, micro: 1, sequence: 128}
cost: {forward: 1 s, backward: 3 s, gather: 1 s, reduce: 2 s}
"""
    )
    held = timeline(done.trace.memory, 0)["buffers"]
    first = 2 * (12 * 64**2 + 13 * 64 + (10 + 128) * 64)  # with the embedding of tokens and positions
    last = 2 * (12 * 64**2 + 13 * 64 + 2 * 64)  # with the final norm
    # Gathers at 0, 2, 4 and 8 s, each before its layer; backwards 5-8 and 9-12 s; reductions 9-11 and 12-14 s.
    assert {time // 10**12: size for time, size in held.items()} == {
        0: first, 1: first, 2: last, 3: last, 5: 2 * last, 8: last + first, 9: last + 2 * first, 11: 2 * first, 12: first, 14: 0
    }  # fmt: skip


def static_sum(experiment):
    """By pipeline rank, the most of every kind at once, as if all of them met."""
    schedule, strategy, sizes = experiment.schedule, experiment.strategy, memory_sizes(experiment)
    per_stage = experiment.model.layers // schedule.stages
    largest = max(build_traffic(experiment).layer_bytes)
    buffers = 0
    if experiment.grid.data > 1 and strategy.partition in ("gradients", "parameters"):
        buffers = per_stage if strategy.timing == "layer" else 1
        if strategy.partition == "parameters":
            buffers += parameter_buffers(strategy, experiment.stage_layers)
    return [
        sum(sizes.state[rank].values())
        + in_flight * (per_stage * sizes.kept_bytes[0] + (sizes.head_bytes if rank in last_ranks(schedule) else 0))
        + sizes.working_bytes[0]
        + (sizes.loss_bytes if rank in last_ranks(schedule) else 0)
        + buffers * largest
        for rank, in_flight in enumerate(most_in_flight(schedule))
    ]


def last_ranks(schedule):
    return {schedule.placement[stage] for stage in range(schedule.stages - 1, len(schedule.placement), schedule.stages)}


@settings(max_examples=50)
@given(
    name=st.sampled_from(sorted(PRESETS)),
    cluster=st.sampled_from(["dgx-a100", "pcie-ethernet", "ideal"]),
    partition=st.sampled_from(["none", "optimizer", "gradients", "parameters"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    overlap=st.booleans(),
    tensor=st.sampled_from([1, 2]),
    data=st.integers(1, 3),
    p=st.integers(1, 4),
    m=st.integers(1, 8),
)
@example("dualpipe", "pcie-ethernet", "gradients", "full", True, 1, 2, 2, 4)
@example("zb-v", "pcie-ethernet", "parameters", "full", True, 2, 2, 2, 4)
@example("interleaved-1f1b", "dgx-a100", "parameters", "none", False, 1, 2, 2, 4)
@example("terapipe", "ideal", "optimizer", "selective", True, 2, 3, 2, 3)
def test_what_holds_for_every_strategy(name, cluster, partition, recompute, overlap, tensor, data, p, m):
    text = f"""
model: {{layers: {4 * p}, hidden: 256, heads: 4, vocab: 1024}}
cluster: {cluster}
parallel: {{pipeline: {p}, data: {data}, tensor: {tensor}}}
strategy: {{name: {name}, partition: {partition}, overlap: {str(overlap).lower()}}}
batch: {{global: {m * data}, micro: 1, sequence: 96}}
precision: fp16
recompute: {recompute}
"""
    try:
        experiment = parsed(text)
    except InputError:  # the schedule cannot have these numbers
        assume(False)
    folded, whole = simulate(experiment), simulate(experiment, fold=False)
    memory = whole.trace.memory
    assert (memory["bytes"] != 0).all() and not memory.duplicated(["rank", "time_ps", "what"]).any()
    bound, most_of = static_sum(experiment), peaks(memory)
    for rank in range(experiment.grid.ranks):
        held = timeline(memory, rank)
        assert (held >= 0).all().all()
        assert held[STATIC].nunique().tolist() == [1, 1, 1] and held.index[0] == 0
        assert (held.drop(columns=STATIC).iloc[-1] == 0).all()
        assert "activations" in held and held.index[-1] <= whole.trace.makespan_ps
        mine = memory[memory["rank"] == rank]
        assert mine["bytes"].cumsum().max() == most_of[rank] == held.sum(axis=1).max()  # frees come first
        # A reduction that runs late keeps its buffer, and nothing waits for it: only without overlap are they so few.
        if partition in ("none", "optimizer") or not overlap:
            assert most_of[rank] <= bound[rank // experiment.grid.stride("pipeline") % p]
    for rank, mine in folded.trace.memory.groupby("rank"):
        same = memory[memory["rank"] == rank].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine.reset_index(drop=True), same)
    for key in ("peak_memory_bytes", "memory_at_peak_bytes", "fits"):
        assert folded.summary[key] == whole.summary[key]
    assert sum(whole.summary["memory_at_peak_bytes"].values()) == whole.summary["peak_memory_bytes"] == max(most_of.values())
    assert at_peak(memory, fullest_rank(most_of)) == whole.summary["memory_at_peak_bytes"]


def test_partitions_divide_the_state_and_a_pipeline_without_flush_keeps_two_versions_of_the_weights():
    def state(strategy):
        text = f"""
model: {{layers: 4, hidden: 64, heads: 4, vocab: 10}}
cluster: ideal
parallel: {{pipeline: 2, data: 4}}
strategy: {strategy}
batch: {{global: 16, micro: 1, sequence: 128}}
"""
        return memory_sizes(parsed(text)).state[0]

    count = 2 * (12 * 64**2 + 13 * 64) + (10 + 128) * 64
    for partition, parts in {"none": (1, 1, 1), "optimizer": (1, 1, 4), "gradients": (1, 4, 4), "parameters": (4, 4, 4)}.items():
        expected = [size * count // part for size, part in zip((2, 2, 12), parts, strict=True)]
        assert list(state(f"{{name: standard, partition: {partition}}}").values()) == expected
    assert state("pipedream-2bw")["weights"] == 4 * count


def test_nothing_counts_memory_without_sizes():
    trace = run_alone(build_named("gpipe", 2, None, 2), Times())
    assert not len(trace.memory) and trace.memory.columns.tolist() == ["rank", "time_ps", "bytes", "what"]


def test_each_thing_held_is_added_at_the_start_of_an_op_and_freed_at_the_end_of_one_of_the_same_rank():
    program = build_program(parsed(
        """
model: {layers: 4, hidden: 64, heads: 4, vocab: 10}
cluster: pcie-ethernet
parallel: {pipeline: 2, data: 4, tensor: 2}
strategy: {name: mpp, partition: parameters}
batch: {global: 16, micro: 1, sequence: 128}
precision: fp16
"""
    ))  # fmt: skip
    held = program.memory
    for op in (held.begin, held.end):
        assert (program.rank[op[op >= 0]] == held.rank[op >= 0]).all()
    assert ((held.begin < 0) == (held.end < 0)).all() and (held.bytes > 0).all()
    assert set(np.unique(held.what).tolist()) == {0, 1, 2, 3, 4}
