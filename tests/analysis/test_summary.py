"""The figures of a step: parts that add up, and values worked out by hand."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.analysis.ranks import rank_times
from clustersim.analysis.summary import Capacity, StepFacts, summarize
from clustersim.trace.trace import Trace
from tests.helpers import simulated, unit_cost

S = 10**12


def trace(ops):
    """Ops are (rank, kind, start_s, end_s, wait_s)."""
    rows = [(rank, kind, start * S, end * S, wait * S, 100) for rank, kind, start, end, wait in ops]
    table = pd.DataFrame(rows, columns=["rank", "kind", "start_ps", "end_ps", "wait_ps", "bytes"])
    memory = pd.DataFrame({"rank": [0, 0, 0, 0], "time_ps": [0, 5, 5, 9], "bytes": [10, 7, -4, 1], "what": ["weights"] * 4})
    links = pd.DataFrame({"link": ["a", "a"], "start_ps": [0, 2 * S], "end_ps": [2 * S, 4 * S], "rate_bytes_s": [10.0, 5.0]})
    return Trace(table, pd.DataFrame({"op": [], "on": []}), links, memory)


FACTS = StepFacts({0: 1}, 30, 120.0, 150.0, 90.0, 105.0, 16.0, Capacity(16, 14), {"a": "nvlink"}, {"a": 10}, {"a": 30}, {"a": 2})


def test_half_hidden_communication():
    step = trace([(0, "reduce", 0, 10, 0), (0, "forward", 5, 15, 0)])
    summary = summarize(step, FACTS, 7, 0.5)
    assert summary["step_time_s"] == 15
    assert summary["overlap"] == 0.5
    assert (summary["exposed_communication_s"], summary["idle_s"]) == (5, 0)
    assert summary["bubble_of_total"] == pytest.approx(5 / 15)
    assert summary["bubble_of_ideal"] == pytest.approx(5 / 10)
    assert summary["tokens_per_s"] == 2
    assert summary["mfu"] == pytest.approx(120 / 15 / 16) and summary["hfu"] == pytest.approx(150 / 15 / 16)
    assert summary["peak_memory_bytes"] == 14 and summary["fits"] is True
    assert summary["links"]["nvlink"] == {"mean_utilization": pytest.approx((2 * 1 + 2 * 0.5) / 15), "peak_utilization": 1, "bytes": 60}
    assert summary["communication_bytes"] == {"tensor": 0, "data": 100, "pipeline": 0}
    assert summary["events"] == 7 and summary["wall_s"] == 0.5


def test_waiting_for_a_peer_is_idle_unless_the_rank_does_something():
    # Ready at 2, under way from 8 to 9; computes 0-3 and 5-6: waits 3-5 and 6-8.
    times = rank_times(trace([(0, "forward", 0, 3, 0), (0, "forward", 5, 6, 0), (0, "reduce", 8, 9, 6), (1, "forward", 0, 12, 0)]))
    first = times.set_index("rank").loc[0] // S
    assert (first["compute_ps"], first["communication_ps"], first["exposed_ps"]) == (4, 1, 1)
    assert (first["idle_ps"], first["wait_ps"]) == (7, 4)


def test_no_communication_is_none_and_never_nan():
    summary = unit_cost(4, 2, 2, "standard").summary
    assert summary["overlap"] is None and summary["per_rank"]["overlap"] == {"min": None, "median": None, "max": None}
    assert summary["mfu"] is None  # times were given, not computed
    assert "NaN" not in json.dumps(summary)


def test_nothing_takes_time():
    summary = unit_cost(1, 1, 1, "standard", forward=0, backward=0).summary
    assert summary["step_time_s"] == 0
    assert summary["tokens_per_s"] is None and summary["bubble_of_total"] is None
    assert "NaN" not in json.dumps(summary) and "Infinity" not in json.dumps(summary)


@settings(max_examples=20, deadline=None)
@given(
    cluster=st.sampled_from(["dgx-a100", "pcie-ethernet", "ideal"]),
    name=st.sampled_from(["standard", "lga", "mpp"]),
    partition=st.sampled_from(["none", "optimizer", "gradients", "parameters"]),
    overlap=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    tensor=st.sampled_from([1, 2]),
    data=st.integers(1, 3),
    pipeline=st.integers(1, 3),
    m=st.integers(1, 4),
)
def test_compute_and_exposed_communication_and_idle_are_the_step(
    cluster, name, partition, overlap, recompute, tensor, data, pipeline, m
):
    run = simulated(
        f"""
model: {{layers: {2 * pipeline}, hidden: 1024, heads: 16}}
cluster: {cluster}
parallel: {{pipeline: {pipeline}, tensor: {tensor}, data: {data}}}
strategy: {{name: {name}, partition: {partition}, overlap: {str(overlap).lower()}}}
batch: {{global: {m * data}, micro: 1, sequence: 256}}
recompute: {recompute}
"""
    )
    times = rank_times(run.trace)
    assert (times["compute_ps"] + times["exposed_ps"] + times["idle_ps"] == run.trace.makespan_ps).all()
    assert (times["wait_ps"] <= times["idle_ps"]).all() and (times >= 0).all().all()
    assert (times["hidden_ps"] + times["exposed_ps"] == times["communication_ps"]).all()
    for link in run.summary["links"].values():
        assert 0 < link["mean_utilization"] <= link["peak_utilization"] <= 1 + 1e-9
    assert len(times) * 1 <= run.summary["ranks"] == tensor * data * pipeline


def test_model_and_hardware_flops_of_gpt3():
    # 72 and 96 B s l h^2 (1 + s/(6h) + V/(12 l h) or V/(16 l h)), B 48, s 2048, l 96, h 12288, V 51200
    run = simulated(
        """
model: gpt3-175b
cluster: dgx-a100
parallel: {pipeline: 8, tensor: 8}
strategy: standard
batch: {global: 48}
recompute: full
"""
    )
    base = 48 * 2048 * 96 * 12288**2
    model = 72 * base * (1 + 2048 / (6 * 12288) + 51200 / (12 * 96 * 12288))
    hardware = 96 * base * (1 + 2048 / (6 * 12288) + 51200 / (16 * 96 * 12288))
    per_gpu_s = 64 * run.summary["step_time_s"]
    assert run.summary["model_flops_per_gpu_s"] == pytest.approx(model / per_gpu_s)
    assert run.summary["hardware_flops_per_gpu_s"] == pytest.approx(hardware / per_gpu_s)
    assert run.summary["mfu"] == pytest.approx(model / per_gpu_s / 312e12)
    # Every FLOP of the model is in some op of the trace.
    assert run.trace.ops["flops"].sum() * 8 == pytest.approx(hardware)


def test_memory_in_use_is_more_than_tensors_and_must_fit_into_what_is_usable():
    step = trace([(0, "forward", 0, 10, 0)])  # 14 bytes at the peak
    for usable, fits, used in ((20, True, 20), (24, True, 23), (15, False, 23)):
        summary = summarize(step, replace(FACTS, memory=Capacity(30, usable, 2, 0.5)), 1, 0.0)
        assert (summary["peak_memory_bytes"], summary["reserved_memory_bytes"], summary["reserve_bytes"]) == (14, 21, 2)
        assert (summary["fits"], summary["used_memory_bytes"]) == (fits, used)
    assert summary["gpu_memory_bytes"] == 30 and summary["usable_memory_bytes"] == 15


def test_a_causal_mask_leaves_half_of_the_attention():
    step = trace([(0, "forward", 0, 15, 0)])
    summary = summarize(step, FACTS, 1, 0.0)
    assert summary["mfu_causal"] == pytest.approx(90 / 15 / 16) and summary["hfu_causal"] == pytest.approx(105 / 15 / 16)
    run = simulated(
        """
model: {layers: 2, hidden: 64, heads: 4, vocab: 64}
cluster: dgx-a100
strategy: standard
batch: {global: 2, sequence: 128}
recompute: full
cost: peak
"""
    )
    # 1 + s/(6h) + V/(12 l h), or V/(16 l h) with recompute; of the second term half (arXiv 2205.05198, appendix A).
    for key, factor in (("mfu", 12), ("hfu", 16)):
        head = 64 / (factor * 2 * 64)
        ratio = (1 + 128 / (12 * 64) + head) / (1 + 128 / (6 * 64) + head)
        assert run.summary[f"{key}_causal"] / run.summary[key] == pytest.approx(ratio)


def test_ranks_that_only_communicate_have_no_bubble_of_what_they_compute():
    summary = unit_cost(1, 1, 1, "standard", data=2, forward=0, backward=0, cost=", reduce: 2 s").summary
    assert (summary["step_time_s"], summary["bubble_of_total"], summary["exposed_communication_s"]) == (2, 1, 2)
    assert summary["bubble_of_ideal"] is None and summary["per_rank"]["bubble_of_ideal"] == dict.fromkeys(("min", "median", "max"))
