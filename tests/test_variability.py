"""Noise, slow GPUs, slow and failed links: what they change, and that folding keeps what is alike."""

import numpy as np
import pytest

from clustersim.cluster.faults import link_number, without_links
from clustersim.cluster.load import load_cluster
from clustersim.errors import InputError
from clustersim.simulation import simulate
from clustersim.variability import noise
from tests.helpers import parsed

JOB = """
model: {{layers: 8, hidden: 1024, heads: 16}}
cluster: {cluster}
parallel: {{pipeline: {p}, data: {d}, tensor: {t}}}
strategy: {strategy}
batch: {{global: {batch}, micro: 1, sequence: 512}}
variability: {variability}
"""


def job(variability="{}", cluster="{base: dgx-a100, gpu: {efficiency: 0.5}}", p=2, d=2, t=1, strategy="{name: 1f1b}", m=4, more=""):
    text = JOB.format(cluster=cluster, p=p, d=d, t=t, strategy=strategy, batch=m * d, variability=variability)
    return parsed(text + more)


def times(run):
    """(rank, kind, part, layer, micro-batch) -> duration in ps of compute."""
    ops = run.trace.ops[run.trace.ops["kind"].isin(("forward", "backward", "optimizer"))]
    keys = zip(ops["rank"], ops["kind"].astype(str), ops["name"].astype(str), ops["layer"], ops["micro_batch"], strict=True)
    return dict(zip(keys, (ops["end_ps"] - ops["start_ps"]).tolist(), strict=True))


def test_a_slow_gpu_takes_so_many_times_as_long_and_no_other_changes():
    usual, slow = times(simulate(job(), fold=False)), times(simulate(job("{slow_gpus: [{rank: 2, times: 1.5}]}"), fold=False))
    assert usual.keys() == slow.keys()
    for key, time in usual.items():
        assert slow[key] == (round(1.5 * time) if key[0] == 2 else time)


@pytest.mark.parametrize(
    ("variability", "simulated"),
    [
        ("{}", 2),  # every tensor rank has its own adapter: one copy of two stages stands for all
        ("{slow_gpus: [{rank: 2, times: 1.5}]}", None),
        ("{slow_links: [{link: node1/nic3>network, capacity: 0.5}]}", None),
    ],
)
def test_folded_equals_unfolded_to_the_picosecond(variability, simulated):
    experiment = job(variability, d=4, t=8, m=3, strategy="{name: mpp, partition: parameters}", more="collectives: ring\n")
    folded, whole = simulate(experiment), simulate(experiment, fold=False)
    assert whole.summary["simulated_ranks"] == 64
    assert simulated is None or folded.summary["simulated_ranks"] == simulated
    assert folded.summary["simulated_ranks"] < 64
    same = whole.trace.ops[whole.trace.ops["rank"].isin(folded.trace.ops["rank"].unique())]
    columns = ["rank", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps"]
    left, right = (table[columns].sort_values(columns).to_numpy() for table in (folded.trace.ops, same))
    np.testing.assert_array_equal(left, right)
    for name in ("step_time_s", "idle_s", "exposed_communication_s", "wait_s", "communication_bytes"):
        assert folded.summary[name] == pytest.approx(whole.summary[name], rel=1e-12)
    assert bool(folded.summary["symmetry_broken_by"]) == (variability != "{}")


def test_the_noise_is_the_same_under_every_order_of_work():
    gpipe, one = (times(simulate(job("{jitter: 0.1, seed: 5}", strategy=f"{{name: {name}}}"), fold=False)) for name in ("gpipe", "1f1b"))
    assert gpipe == one
    other = times(simulate(job("{jitter: 0.1, seed: 6}"), fold=False))
    assert other.keys() == one.keys() and sum(other[key] != one[key] for key in one) > 0.99 * len(one)


def test_the_noise_is_log_normal_with_mean_one():
    factors = noise(7, 0.2, np.arange(400_000), np.arange(400_000) % 3)
    # Of exp(N(-s^2/2, s)) the mean is 1, the variance exp(s^2) - 1; the tolerances are 5 standard errors.
    assert factors.mean() == pytest.approx(1, abs=5 * 0.2 / 400_000**0.5)
    assert factors.var() == pytest.approx(np.exp(0.04) - 1, rel=0.02)
    assert np.median(factors) == pytest.approx(np.exp(-0.02), rel=2e-3)


def test_noise_simulates_every_gpu_and_says_so():
    run = simulate(job("{jitter: 0.01}", d=4, t=8, m=2))
    assert run.summary["simulated_ranks"] == 64
    assert run.summary["symmetry_broken_by"] == ["every GPU has a noise of its own (variability.jitter)"]


def test_a_slow_link_holds_up_the_reduction_that_crosses_it():
    # Data-parallel 16 over two nodes with a NIC for each GPU: the ring sends 2 x 15/16 of the gradients over each of its hops.
    def reductions(variability):
        run = simulate(job(variability, p=1, d=16, m=1, strategy="{name: standard, overlap: false}", more="collectives: ring\n"),
                       fold=False)
        ops = run.trace.ops[(run.trace.ops["kind"] == "reduce") & (run.trace.ops["rank"] == 0)]
        return (ops["end_ps"] - ops["start_ps"]).to_numpy(), ops["bytes"].to_numpy()

    usual, size = reductions("{}")
    slow, _ = reductions("{slow_links: [{link: node0/nic7>network, capacity: 0.1}]}")
    cluster = load_cluster("dgx-a100", gpus=16, nodes=None, overrides={}, near=None, place="test")
    capacity = cluster.link(link_number(cluster, "node0/nic7>network")).capacity_bytes_s
    latency = usual - size / capacity * 1e12  # what the bytes do not explain
    np.testing.assert_allclose(slow, latency + size / (0.1 * capacity) * 1e12, rtol=1e-6)


def test_around_a_failed_link():
    cluster = load_cluster("dgx-a100", gpus=16, nodes=None, overrides={}, near=None, place="test")
    failed = link_number(cluster, "node0/nic3>network")
    without = without_links(cluster, [failed])
    assert failed in dict(cluster.route(3, 8).links) and failed not in dict(without.route(3, 8).links)
    assert without.route(2, 8) == cluster.route(2, 8) and without.route(8, 3) == cluster.route(8, 3)


def test_a_failed_link_costs_time_and_folds_to_the_same():
    variability = "{failed_links: [node0/nic3>network]}"
    usual = simulate(job(d=2, t=8, m=2))
    folded, whole = (simulate(job(variability, d=2, t=8, m=2), fold=fold) for fold in (True, False))
    assert folded.summary["step_time_s"] == whole.summary["step_time_s"] > usual.summary["step_time_s"]


@pytest.mark.parametrize(
    ("variability", "words"),
    [
        ("{slow_gpus: [{rank: 4, times: 2}]}", ("rank", "0 to 3")),
        ("{slow_gpus: [{rank: 1, times: 2}, {rank: 1, times: 3}]}", ("given twice",)),
        ("{slow_gpus: [{rank: 1, times: 0}]}", ("times", "above 0")),
        ("{slow_gpus: 3}", ("expected a list of mappings",)),
        ("{slow_links: [{link: nowhere, capacity: 0.5}]}", ("'nowhere' is no link of dgx-a100", "for example node0/")),
        ("{slow_links: [{link: node0/nic0>network, capacity: 2}]}", ("capacity", "at most 1")),
        ("{failed_links: node0/nic0>network}", ("expected a list of names",)),
        ("{failed_links: [node7/nic0>network]}", ("is no link of dgx-a100",)),
        ("{jitter: -1}", ("jitter",)),
        ("{jitter: 0.1, seed: x}", ("seed", "whole number")),
        ("{noise: 1}", ("unknown key", "jitter")),
    ],
)
def test_what_makes_no_sense_is_refused(variability, words):
    with pytest.raises(Exception) as caught:  # the words below are the check
        job(variability)
    assert isinstance(caught.value, InputError)
    for word in words:
        assert word in str(caught.value)


def test_a_gpu_that_cannot_be_reached_is_named():
    experiment = job("{failed_links: [node0/gpu3>node0/nvswitch, node0/gpu3>node0/pcie1]}", p=1, d=8)
    with pytest.raises(Exception, match=r"node0/gpu3 cannot reach node0/gpu. without the links that failed"):
        simulate(experiment)
