"""Sequence, context and expert parallelism, async products, uneven stages, buckets, hybrid sharding, several steps: by hand."""

import pytest

from tests.helpers import parsed, simulated, unit_cost

S = 10**12
LAYERS, HIDDEN, VOCAB, SEQUENCE, ELEMENT = 4, 512, 1024, 256, 2
# P = 12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)), and the final norm's 2h
PARAMETERS = LAYERS * (12 * HIDDEN**2 + 13 * HIDDEN) + (VOCAB + SEQUENCE) * HIDDEN + 2 * HIDDEN
BSH = SEQUENCE * HIDDEN * ELEMENT


def run(parallel, strategy="standard", m=2, data=1, more="", model="", cluster="dgx-a100"):
    return simulated(
        f"""
model: {{layers: {LAYERS}, hidden: {HIDDEN}, heads: 8, vocab: {VOCAB}{model}}}
cluster: {cluster}
parallel: {parallel}
strategy: {strategy}
batch: {{global: {m * data}, micro: 1, sequence: {SEQUENCE}}}
{more}
"""
    )


def count(done, kind, rank=0):
    ops = done.trace.ops
    return int(((ops["kind"] == kind) & (ops["rank"] == rank)).sum())


# Sequence parallelism (arXiv 2205.05198): the bytes of the all-reduce, as a gather and a reduce-scatter.


@pytest.mark.parametrize("t", [2, 4])
def test_sequence_parallelism_moves_the_same_bytes_in_twice_the_collectives(t):
    plain, divided = run(f"{{tensor: {t}}}"), run(f"{{tensor: {t}, sequence_parallel: true}}")
    assert count(plain, "tensor") == 4 * LAYERS * 2 and count(divided, "tensor") == 8 * LAYERS * 2
    by_rank = 4 * LAYERS * 2 * 2 * (t - 1) * BSH // t
    assert plain.summary["communication_bytes"]["tensor"] == t * by_rank == divided.summary["communication_bytes"]["tensor"]


def test_sequence_parallelism_sends_a_part_to_the_next_stage():
    plain, divided = run("{tensor: 2, pipeline: 2}"), run("{tensor: 2, pipeline: 2, sequence_parallel: true}")
    assert plain.summary["communication_bytes"]["pipeline"] == 2 * 2 * 2 * BSH  # two ranks, two ways, two micro-batches
    assert divided.summary["communication_bytes"]["pipeline"] == 2 * 2 * BSH


# Async tensor parallelism: all but the first part of a product hides its reduction.


def test_async_products_hide_all_but_their_first_part():
    layer = "{forward: 8 s, backward: 8 s}"  # two halves of 4 s each

    def seconds(strategy, reduction_s):
        # An all-reduce of n bytes in a ring of 2 takes n/b.
        bandwidth = f"nvlink: {{bandwidth: {BSH / reduction_s / 1e3:.9f} KB/s, latency: 0 us, efficiency: 1.0}}"
        text = f"cost: {layer}\n{bandwidth}\ncollectives: ring"
        return run("{tensor: 2}", strategy, m=1, more=text, cluster="paper-a100").trace.makespan_ps / S

    halves = 2 * 2 * LAYERS
    assert seconds("standard", 1) == pytest.approx(halves * (4 + 1), rel=1e-4)
    assert seconds("{name: standard, async_tensor: true}", 1) == pytest.approx(halves * (2 + 2), rel=1e-4)  # hidden whole
    assert seconds("{name: standard, async_tensor: true}", 3) == pytest.approx(halves * (2 + 3), rel=1e-4)  # of 3, one shows


# Context parallelism: each rank has a part of the sequence; keys and values of all go round.


@pytest.mark.parametrize("c", [2, 4])
def test_context_ranks_divide_the_work_and_pass_keys_and_values_on(c):
    whole, divided = run("{data: 1}"), run(f"{{context: {c}}}")
    assert divided.summary["ranks"] == c
    flops = [done.trace.ops[done.trace.ops["rank"] == 0]["flops"].sum() for done in (whole, divided)]
    assert flops[1] == pytest.approx(flops[0] / c)
    keys = 2 * BSH  # keys and values of the whole sequence
    # Forward once; backward once more, and their gradients back.
    assert divided.summary["communication_bytes"]["context"] == c * 3 * LAYERS * 2 * keys * (c - 1) // c
    # All context ranks hold the same weights.
    assert count(divided, "reduce") == LAYERS and divided.summary["communication_bytes"]["data"] > 0


def test_grouped_keys_make_the_ring_lighter():
    many, few = run("{context: 2}"), run("{context: 2}", model=", kv_heads: 2")
    assert few.summary["communication_bytes"]["context"] == many.summary["communication_bytes"]["context"] // 4


def test_context_lies_between_tensor_and_data():
    grid = parsed("model: x-32\ncluster: ideal\nparallel: {tensor: 2, context: 2, data: 3}\nstrategy: standard\nbatch: {global: 3}\n").grid
    assert grid.group("tensor", 0) == (0, 1) and grid.group("context", 0) == (0, 2)
    assert grid.group("data", 0) == (0, 2, 4, 6, 8, 10)


# Expert parallelism: tokens go to their experts and back, forward and backward.

EXPERTS = ", experts: 8, top_k: 2, expert_ffn: 1024"


@pytest.mark.parametrize("e", [2, 4])
def test_tokens_go_to_their_experts_and_back(e):
    done = run(f"{{data: 4, expert: {e}}}", data=4, model=EXPERTS)
    assert count(done, "expert") == 4 * LAYERS * 2
    # Of top_k copies of each token (e - 1) / e go to other ranks.
    assert done.summary["communication_bytes"]["expert"] == 4 * (4 * LAYERS * 2) * 2 * BSH * (e - 1) // e


def test_experts_are_held_and_reduced_by_fewer():
    one, four = run("{data: 4}", data=4, model=EXPERTS), run("{data: 4, expert: 4}", data=4, model=EXPERTS)
    held = [done.summary["memory_at_peak_bytes"]["weights"] for done in (one, four)]
    experts = LAYERS * 8 * 2 * HIDDEN * 1024 * ELEMENT  # two matrices each
    biases = LAYERS * 8 * (1024 + HIDDEN) * ELEMENT
    assert held[0] - held[1] in (experts * 3 // 4, (experts + biases) * 3 // 4)
    # With one copy of each expert its gradient stays where it is.
    assert count(one, "reduce") == 2 * LAYERS and count(four, "reduce") == LAYERS
    two = run("{data: 4, expert: 2}", data=4, model=EXPERTS)
    groups = set(two.trace.ops[(two.trace.ops["kind"] == "reduce") & (two.trace.ops["rank"] == 0)]["group"].astype(str))
    assert groups == {"0-3", "0-2/2"}


def test_expert_groups_are_cut_out_of_data():
    done = run("{data: 4, expert: 2, tensor: 2}", data=4, model=EXPERTS)
    ops = done.trace.ops
    assert set(ops[ops["kind"] == "expert"]["group"].astype(str)) <= {"0-2/2", "1-3/2", "4-6/2", "5-7/2"}


# Stages of unequal size.


def test_uneven_stages():
    # Rank 1 has three layers: forwards at 1, 4, 7 s, backwards from 10 to 28 s; rank 0's last one behind it.
    done = unit_cost(4, 2, 3, "{name: gpipe, stages: [1, 3]}", forward=1, backward=2)
    assert done.trace.makespan_ps == 30 * S
    ops = done.trace.ops
    assert sorted(ops[(ops["rank"] == 1) & (ops["kind"] == "forward")]["layer"].unique()) == [1, 2, 3]


def test_uneven_stages_of_a_pair_take_turns_as_long_as_both_have_layers():
    done = unit_cost(6, 2, 4, "{name: dualpipe, stages: [2, 4]}", forward=1, backward=2)
    assert done.summary["ideal_compute_s"] == (2 + 4) * 2 * 3  # each rank has both stages, for half of the micro-batches


# Buckets of gradients.


@pytest.mark.parametrize(("layers", "expected"), [(1, 6), (2, 3), (4, 2), (100, 1)])
def test_buckets(layers, expected):
    layer = 12 * 64 * 64 + 13 * 64
    bucket = f"bucket: {layers * layer * 2} B"
    done = unit_cost(6, 1, 2, f"{{name: standard, {bucket}}}", data=2, cost=", reduce: 1 s")
    assert count(done, "reduce") == expected
    reduced = done.trace.ops[(done.trace.ops["kind"] == "reduce") & (done.trace.ops["rank"] == 0)]
    assert (reduced["end_ps"] - reduced["start_ps"]).sum() == 6 * S
    # The last bucket begins with its last layer, at the end of the backward.
    last = {1: 1, 2: 2, 4: 2, 100: 6}[layers]
    assert done.trace.makespan_ps == (2 * 6 * 4 + last) * S


def test_a_bucket_has_the_bytes_of_its_layers():
    one, all_ = run("{data: 2}", data=2), run("{data: 2}", "{name: standard, bucket: 1 GB}", data=2)
    assert one.summary["communication_bytes"]["data"] == all_.summary["communication_bytes"]["data"]


# Hybrid sharding: state divided inside groups of copies, gradients summed inside and between.


def test_hybrid_sharding():
    w = ELEMENT * PARAMETERS
    full = run("{data: 4}", "{name: lga, partition: parameters}", data=4)
    groups = run("{data: 4}", "{name: lga, partition: parameters, partition_group: 2}", data=4)
    # A rank sends (n-1)/n of a gather or scatter: three of each layer and step; the shard's all-reduce 2 (n-1)/n of its half.
    assert full.summary["communication_bytes"]["data"] == pytest.approx(4 * 3 * w * 3 / 4, rel=1e-6)
    assert groups.summary["communication_bytes"]["data"] == pytest.approx(4 * (3 * w / 2 + w / 2), rel=1e-6)
    weights = [done.summary["memory_at_peak_bytes"]["weights"] for done in (full, groups)]
    assert weights[1] == pytest.approx(2 * weights[0], rel=1e-6)


def test_groups_of_a_node():
    done = run("{data: 4, tensor: 4}", "{name: lga, partition: parameters, partition_group: node}", data=4)
    assert done.experiment.grid.shards == 2  # 8 GPUs a node, 4 of a tensor group


# Several steps.


@pytest.mark.parametrize(("p", "m"), [(1, 3), (4, 8), (3, 2)])
def test_the_steady_state_of_a_schedule_with_a_flush(p, m):
    done = unit_cost(p, p, m, "1f1b", backward=2, cost=", optimizer: 500 ms", extra="steps: 3")
    assert done.summary["step_time_s"] == (m + p - 1) * 3 + 0.5
    assert done.summary["ideal_compute_s"] == m * 3 + 0.5
    spread = done.summary["per_rank"]
    assert spread["compute_s"]["max"] + spread["idle_s"]["max"] == done.summary["step_time_s"]


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8)])
def test_the_steady_state_without_a_flush(p, m):
    done = unit_cost(p, p, m, "pipedream-2bw", backward=2, extra="steps: 4")
    assert done.summary["step_time_s"] == m * 3 and done.summary["idle_s"] == 0
    assert unit_cost(p, p, m, "1f1b", backward=2, extra="steps: 4").summary["step_time_s"] == (m + p - 1) * 3


def test_gathers_of_new_parameters_hide_under_the_next_forward():
    # One layer's forward is 2 s (two micro-batches), its gather 1 s: under lga only the first of four is exposed.
    def step(strategy):
        text = ", reduce: 1 us, gather: 1 s, optimizer: 1 s"
        return unit_cost(4, 1, 2, strategy, data=2, cost=text, extra="steps: 3").summary["step_time_s"]

    compute = 4 * 2 * 4 + 1
    assert step("{name: lga, partition: optimizer}") == pytest.approx(compute + 1, abs=1e-4)
    # Standard accumulation needs the next layer's parameters a second later: no more of them shows.
    assert step("{name: standard, partition: optimizer}") == pytest.approx(compute + 1, abs=1e-4)


def test_the_optimizer_moves_its_state_through_the_memory():
    done = run("{data: 2}", data=2)
    ops = done.trace.ops
    (op,) = ops[(ops["kind"] == "optimizer") & (ops["rank"] == 0)].itertuples()
    # software/megatron-2024.yaml moves 36 bytes a parameter; an A100 of 80 GB reaches 0.8 of 2039 GB/s.
    assert op.end_ps - op.start_ps == pytest.approx(PARAMETERS * 36 / (0.8 * 2039e9) * S, abs=1)
    halved = run("{data: 2}", "{name: standard, partition: optimizer}", data=2).trace.ops
    (half,) = halved[(halved["kind"] == "optimizer") & (halved["rank"] == 0)].itertuples()
    assert half.end_ps - half.start_ps == pytest.approx((op.end_ps - op.start_ps) / 2, rel=1e-6)
    assert op.start_ps >= ops[ops["kind"] == "reduce"]["end_ps"].max()


# Offload to the host.


def test_offloaded_activations_leave_and_come_back():
    slow = "cost: {forward: 10 ms, backward: 20 ms}"  # a layer leaves in a fraction of that
    plain, away = (run("{data: 1}", strategy, m=4, more=slow) for strategy in ("lga", "{name: lga, offload: activations}"))
    ops = away.trace.ops
    assert count(away, "offload") == count(away, "fetch") == LAYERS * 4
    # Standard accumulation needs the last layer's again at once: it stays.
    assert count(run("{data: 1}", "{name: standard, offload: activations}", m=4), "fetch") == (LAYERS - 1) * 4
    kept = away.summary["communication_bytes"]["offload"]
    assert kept == 2 * count(away, "offload") * ops[ops["kind"] == "offload"]["bytes"].iloc[0]
    assert away.summary["memory_at_peak_bytes"]["activations"] < plain.summary["memory_at_peak_bytes"]["activations"]
    assert away.summary["step_time_s"] >= plain.summary["step_time_s"]
    assert away.summary["links"]["pcie"]["bytes"] >= kept


def test_an_offloaded_optimizer_moves_gradients_out_and_weights_in():
    done = run("{data: 2}", "{name: standard, partition: optimizer, offload: optimizer}", data=2)
    assert done.summary["communication_bytes"]["offload"] == pytest.approx(2 * 2 * ELEMENT * PARAMETERS / 2, abs=8)
    assert "optimizer" not in done.summary["memory_at_peak_bytes"]
    ops = done.trace.ops[done.trace.ops["rank"] == 0]
    (out,), (back,) = (ops[ops["kind"] == kind].itertuples() for kind in ("offload", "fetch"))
    assert ops[ops["kind"] == "reduce"]["end_ps"].max() <= out.start_ps < out.end_ps <= back.start_ps
    assert back.end_ps <= ops[ops["kind"] == "gather"]["start_ps"].min()
