"""Folded and unfolded runs agree to the picosecond, rank by rank and link by link."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from clustersim.cluster.load import load_cluster
from clustersim.program.fold import fold
from clustersim.program.grid import Grid
from clustersim.program.places import Place, Site
from tests.helpers import parsed, simulated

TIMES = ["stream", "kind", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes"]


def text(cluster, tensor, data, pipeline, strategy, m=3, order="[tensor, data, pipeline]", precision="fp16", collectives="multi-ring"):
    return f"""
model: {{layers: {2 * pipeline}, hidden: 2048, heads: 16}}
cluster: {cluster}
parallel: {{pipeline: {pipeline}, tensor: {tensor}, data: {data}, order: {order}}}
strategy: {strategy}
batch: {{global: {m * data}, micro: 1, sequence: 512}}
precision: {precision}
collectives: {collectives}
"""


def check(experiment):
    folded, whole = simulated(experiment), simulated(experiment, fold=False)
    assert folded.trace.makespan_ps == whole.trace.makespan_ps
    assert whole.summary["simulated_ranks"] == whole.summary["ranks"] == folded.summary["ranks"]
    everything = dict(iter(whole.trace.ops.groupby("rank")))
    for rank, ops in folded.trace.ops.groupby("rank"):
        same = everything[rank]
        for column in set(TIMES) - {"stream"}:
            assert (ops[column].to_numpy() == same[column].to_numpy()).all(), column
    for key in ("step_time_s", "exposed_communication_s", "idle_s", "wait_s", "mfu", "overlap", "bubble_of_total"):
        if whole.summary[key] is None:
            assert folded.summary[key] is None, key
        else:
            assert folded.summary[key] == pytest.approx(whole.summary[key], rel=1e-12), key
    assert folded.summary["communication_bytes"] == whole.summary["communication_bytes"]
    for kind, link in folded.summary["links"].items():
        for figure, value in link.items():
            assert value == pytest.approx(whole.summary["links"][kind][figure], rel=1e-9), (kind, figure)
    return folded.summary["simulated_ranks"]


@pytest.mark.parametrize(
    ("cluster", "tensor", "data", "pipeline", "simulated"),
    [
        ("dgx-a100", 8, 2, 2, 2),  # every GPU of a stage has its own adapter: one copy stands for all
        ("dgx-a100", 4, 4, 2, 4),  # ring hops within and between nodes differ: two copies
        ("dgx-a100", 1, 8, 2, 2),
        ("dgx-1-v100", 8, 2, 2, 2),
        ("dgx-2h", 4, 8, 2, 8),
        ("pcie-ethernet", 2, 4, 2, 8),
        ("ideal", 2, 4, 3, 3),
    ],
)
def test_alike_copies_are_simulated_once_with_the_same_result(cluster, tensor, data, pipeline, simulated):
    strategy = "{name: mpp, partition: parameters}"
    assert check(text(cluster, tensor, data, pipeline, strategy)) == simulated


@settings(max_examples=30, deadline=None)
@given(
    cluster=st.sampled_from(["dgx-a100", "dgx-1-v100", "pcie-ethernet", "paper-a100"]),
    tensor=st.sampled_from([1, 2, 4]),
    data=st.integers(1, 6),
    pipeline=st.integers(1, 3),
    name=st.sampled_from(["standard", "lga", "mpp"]),
    partition=st.sampled_from(["none", "optimizer", "gradients", "parameters"]),
    overlap=st.booleans(),
    m=st.integers(1, 4),
    order=st.permutations(["tensor", "data", "pipeline"]),
    collectives=st.sampled_from(["multi-ring", "auto"]),
)
@example("pcie-ethernet", 2, 6, 2, "mpp", "none", True, 2, ["data", "pipeline", "tensor"],
         "multi-ring")  # flows of unequal weight on a link
def test_any_small_job_folds_exactly(cluster, tensor, data, pipeline, name, partition, overlap, m, order, collectives):
    strategy = f"{{name: {name}, partition: {partition}, overlap: {str(overlap).lower()}}}"
    check(text(cluster, tensor, data, pipeline, strategy, m, order=f"[{', '.join(order)}]", collectives=collectives))


@settings(max_examples=6, deadline=None)
@given(
    cluster=st.sampled_from(["dgx-a100", "pcie-ethernet", "dgx-h100-rail", "dgx-a100-fat-tree", "dragonfly-a100"]),
    name=st.sampled_from(["1f1b", "mpp", "zb-v", "dualpipe", "terapipe"]),
    tensor=st.sampled_from([1, 2]),
    context=st.sampled_from([1, 2]),
    expert=st.sampled_from([1, 2]),
    partition=st.sampled_from(["none", "optimizer", "gradients, partition_group: 2", "parameters, partition_group: 2", "parameters"]),
    offload=st.sampled_from(["none", "all"]),
    steps=st.sampled_from([1, 3]),
    more=st.sampled_from(["", "bucket: 20 MB", "async_tensor: true", "sends: blocking"]),
    order=st.permutations(["tensor", "context", "data", "pipeline"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    cost=st.sampled_from([None, "peak"]),
)
def test_jobs_of_every_kind_of_parallelism_fold_exactly(
    cluster, name, tensor, context, expert, partition, offload, steps, more, order, recompute, cost
):
    """At the peak, and with calibrated kernels, which collectives slow down."""
    assume(not (expert > 1 and "group" in partition))
    check(
        f"""
model: {{layers: 8, hidden: 1024, heads: 16, vocab: 2048{', experts: 4, top_k: 2' if expert > 1 else ''}}}
cluster: {cluster}
parallel: {{pipeline: 2, data: 4, tensor: {tensor}, context: {context}, expert: {expert}, order: [{', '.join(order)}],
  sequence_parallel: {'true' if tensor > 1 else 'false'}}}
strategy: {{name: {name}, partition: {partition}, offload: {offload}{', ' + more if more else ''}}}
batch: {{global: 16, micro: 1, sequence: 256}}
steps: {steps}
recompute: {recompute}
{'cost: peak' if cost else ''}
"""
    )


def test_multiplicities_add_up_to_the_job():
    grid = Grid(tensor=4, data=6, pipeline=2)
    cluster = load_cluster("dgx-a100", gpus=48, nodes=None, overrides={}, near=None, place="test")
    places = [Place("tensor", 0, -1, "all_reduce", "ring"), Place("data", 0, -1, "all_reduce", "ring"),
              Place("data", 1, -1, "all_gather", "ring"), Place("pipeline", 0, 1, "send", "ring")]
    folding = fold(Site(cluster, grid), places)
    assert sum(folding.multiplicity) == 24
    assert len(folding.copies) == 2
    used = set()

    def links(a, b):
        return [link for link, _ in cluster.route(a, b).links]

    for d in range(6):
        for t in range(4):
            used.update(links(grid.rank(0, d, t), grid.rank(1, d, t)))
            for p in (0, 1):
                used.update(links(grid.rank(p, d, t), grid.rank(p, (d + 1) % 6, t)))
            used.update(links(grid.rank(0, d, t), grid.rank(0, d, (t + 1) % 4)))
    assert sum(folding.link_multiplicity) == len(used)


def test_an_experiment_of_many_gpus_simulates_one_replica():
    experiment = parsed(text("paper-a100", 16, 483, 5, "{name: mpp, partition: parameters}", m=5, precision="bf16"))
    assert experiment.grid.ranks == 38640
    assert np.prod([experiment.grid.data, experiment.grid.tensor]) == 7728
