"""What bandwidth does to a step, and what traffic does to other traffic."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.simulate import simulate
from clustersim.program.kinds import KIND_CODE
from clustersim.program.program import Links, Load, Phase, Program, Stream, Transfer
from clustersim.simulation import simulate as run_experiment
from tests.engine.test_sharing import GB, S, ends
from tests.helpers import parsed, simulated


def send_and_reduction(send_link, reduce_link):
    """A pipeline send of 10 GB and a gradient reduction of 20 GB that begin together, on links of 10 GB/s."""
    zero = np.zeros(2, dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    phases = (Phase(0, (Load(send_link, Fraction(10 * GB)),)), Phase(0, (Load(reduce_link, Fraction(20 * GB)),)))
    program = Program(
        rank=zero, stream=zero, kind=np.array([KIND_CODE["send"], KIND_CODE["reduce"]]), part=zero, stage=zero, layer=zero,
        micro_batch=zero, duration_ps=zero, bytes=zero, flops=zero, peer=zero - 1, activity=np.array([0, 1]),
        dependency_op=none, dependency_on=none, activity_transfer=np.array([0, 1]),
        transfers=(Transfer("send", (0,)), Transfer("reduce", (1,))), phases=phases,
        streams=(Stream(0, "data", False, np.array([1])), Stream(0, "send:1", True, np.array([0]))),
        links=Links(("nic0", "nic1"), ("network",) * 2, (10 * GB,) * 2, (1, 1)), simulated_as=np.array([0]),
    )  # fmt: skip
    return simulate(program).end_ps.tolist()


def test_a_send_and_a_reduction_on_one_adapter_delay_each_other():
    # 5 GB/s each until the send has its 10 GB; the reduction then has 10 GB left and the link to itself.
    assert send_and_reduction(0, 0) == [2 * S, 3 * S]


def test_on_separate_adapters_they_do_not():
    assert send_and_reduction(0, 1) == [1 * S, 2 * S]


def test_slowing_one_link_can_free_another():
    # Flow 0 crosses both links. When the second gets slow, flow 1 has more of the first and ends sooner.
    flows = [(0, 10 * GB, [0, 1]), (0, 10 * GB, [0])]
    (_, before), _ = ends([10 * GB, 10 * GB], flows)
    (_, after), _ = ends([10 * GB, 2 * GB], flows)
    assert before == 2 * S and after == 125 * S // 100


PIPELINE = """
model: {{layers: 8, hidden: 4096, heads: 32}}
cluster: paper-a100
parallel: {{pipeline: 2, tensor: 16}}
strategy: {name}
batch: {{global: {m}, micro: 1, sequence: 512}}
network: {{bandwidth: {bandwidth} Gb/s}}
"""


@settings(max_examples=15, deadline=None)
@given(m=st.integers(1, 6), name=st.sampled_from(["standard", "mpp"]), bandwidth=st.sampled_from([1, 10, 200]))
def test_halving_the_bandwidth_doubles_the_bytes_and_never_speeds_a_step_up(m, name, bandwidth):
    # Two stages: each adapter has one peer, to which it sends one message after another, and nothing meets.
    fast, slow = (simulated(PIPELINE.format(m=m, name=name, bandwidth=b)) for b in (bandwidth, bandwidth / 2))
    for kind, factor in (("send", 2), ("tensor", 1)):
        times = [(run.trace.ops["end_ps"] - run.trace.ops["start_ps"])[run.trace.ops["kind"] == kind] for run in (fast, slow)]
        assert len(times[0]) and (abs(times[1].to_numpy() - factor * times[0].to_numpy()) <= 2).all()
    assert slow.trace.makespan_ps >= fast.trace.makespan_ps


def test_groups_that_share_an_adapter_slow_each_other():
    # Eight data-parallel groups over two nodes of eight GPUs: with one adapter a GPU, or one for two of them.
    text = """
model: {layers: 2, hidden: 2048, heads: 16}
cluster: dgx-a100
parallel: {data: 2, tensor: 8}
strategy: standard
batch: {global: 2, micro: 1, sequence: 128}
"""
    experiment = parsed(text)
    own = replace(experiment.cluster, protocols=())
    shared = replace(own, nic_of_gpu=(0, 0, 2, 2, 4, 4, 6, 6))
    reduce_s = []
    for cluster in (own, shared):
        ops = run_experiment(replace(experiment, cluster=cluster)).trace.ops
        reduce = ops[(ops["kind"] == "reduce") & (ops["layer"] == 1)]
        reduce_s.append(float((reduce["end_ps"] - reduce["start_ps"]).mean()) / S)
    # Gradients of the last layer on one rank, over 24 GB/s; with two groups on an adapter half of that each.
    payload = (12 * 2048**2 // 8) * 2
    assert reduce_s[0] == pytest.approx(payload / 24e9, rel=0.02)
    assert reduce_s[1] / reduce_s[0] == pytest.approx(2, rel=0.02)
