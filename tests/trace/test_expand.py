"""Every rank of a folded run, told by the one that stands for it, is what it is when all are simulated."""

import pandas as pd
import pytest

from clustersim.simulation import simulate
from clustersim.trace.expand import expanded
from tests.helpers import parsed

JOB = """
model: {{layers: 8, hidden: 1024, heads: 16}}
cluster: {cluster}
parallel: {{pipeline: 2, data: 4, tensor: {tensor}, order: [tensor, {order}]}}
strategy: {{name: mpp, partition: parameters}}
batch: {{global: 16, micro: 1, sequence: 512}}
collectives: ring
"""
COLUMNS = ["rank", "stream", "kind", "name", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes", "flops", "peer"]


def in_order(ops):
    table = ops[COLUMNS].astype({"stream": str, "kind": str, "name": str})
    return table.sort_values(COLUMNS, ignore_index=True)


@pytest.mark.parametrize("order", ["data, pipeline", "pipeline, data"])
@pytest.mark.parametrize(("cluster", "tensor"), [("dgx-a100", 8), ("dgx-a100", 2), ("ideal", 2)])
def test_all_ranks_are_as_simulated(cluster, tensor, order):
    experiment = parsed(JOB.format(cluster=cluster, tensor=tensor, order=order))
    folded, whole = simulate(experiment), simulate(experiment, fold=False)
    assert folded.summary["simulated_ranks"] < whole.summary["simulated_ranks"] == 8 * tensor
    found = expanded(folded.trace, folded.ranks, range(8 * tensor))
    pd.testing.assert_frame_equal(in_order(found.ops), in_order(whole.trace.ops), check_dtype=False)
    assert found.ops["op"].is_unique
    assert len(found.dependencies) == len(whole.trace.dependencies)
    starts = found.ops.set_index("op")
    ends, begins = starts.loc[found.dependencies["on"], "end_ps"], starts.loc[found.dependencies["op"], "start_ps"]
    assert (begins.to_numpy() >= ends.to_numpy()).all()
    assert len(found.memory) == len(whole.trace.memory)


def test_a_rank_that_is_not_there():
    folded = simulate(parsed(JOB.format(cluster="dgx-a100", tensor=8, order="data, pipeline")))
    with pytest.raises(KeyError):
        expanded(folded.trace, folded.ranks, [64])
