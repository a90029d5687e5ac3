"""Rows joined to layers and stages: the same run told in fewer rows."""

import numpy as np
import pandas as pd
import pytest

from clustersim.simulation import simulate
from clustersim.trace.granularity import coarsened
from clustersim.trace.trace import Trace
from tests.helpers import parsed

JOB = """
model: {layers: 8, hidden: 1024, heads: 16}
cluster: dgx-a100
parallel: {pipeline: 2, data: 2}
strategy: {strategy}
batch: {global: 8, micro: 1, sequence: 512}
granularity: {granularity}
"""


def run(granularity, strategy="{name: 1f1b}"):
    return simulate(parsed(JOB.replace("{strategy}", strategy).replace("{granularity}", granularity)))


@pytest.mark.parametrize("strategy", ["{name: 1f1b}", "{name: mpp, partition: parameters}", "{name: zb-h1}"])
@pytest.mark.parametrize("granularity", ["layer", "stage"])
def test_figures_are_those_of_kernels(strategy, granularity):
    fine, coarse = run("kernel", strategy), run(granularity, strategy)
    fine_summary, coarse_summary = (one.summary | {"wall_s": 0} for one in (fine, coarse))
    assert coarse_summary == fine_summary
    assert len(coarse.trace.ops) < len(fine.trace.ops)
    for column in ("flops", "bytes"):
        assert coarse.trace.ops[column].sum() == fine.trace.ops[column].sum()
    pd.testing.assert_frame_equal(coarse.trace.links, fine.trace.links)
    pd.testing.assert_frame_equal(coarse.trace.memory, fine.trace.memory)
    assert set(coarse.trace.dependencies.stack()) <= set(coarse.trace.ops["op"])


def test_a_stage_without_a_break_is_one_row():
    # One replica: nothing is reduced, so nothing waits for a layer: 4 forwards and 4 backwards on each of 2 ranks, of 4 layers each.
    text = JOB.replace("{strategy}", "{name: 1f1b}").replace("data: 2", "data: 1").replace("global: 8", "global: 4")
    ops = simulate(parsed(text.replace("{granularity}", "stage"))).trace.ops
    forward = ops[ops["kind"] == "forward"]
    assert len(forward) == 2 * 4 and set(forward["layer"]) == {-1}
    assert sorted(forward["name"].astype(str))[:2] == ["0F0", "0F1"]


def trace(dependencies):
    ops = pd.DataFrame(
        {
            "op": range(5), "rank": [0, 0, 0, 0, 1], "stream": pd.Categorical(["compute"] * 5), "kind": pd.Categorical(["forward"] * 5),
            "name": pd.Categorical(["0F0 attention", "0F0 mlp", "0F0 attention", "0F0 mlp", "1F0"]), "stage": [0, 0, 0, 0, 1],
            "layer": [0, 0, 1, 1, 2], "micro_batch": 0, "start_ps": [0, 3, 5, 9, 10], "end_ps": [3, 5, 9, 10, 12], "wait_ps": 0, "bytes": 0,
            "flops": [3.0, 2.0, 4.0, 1.0, 9.0], "group": pd.Categorical([""] * 5), "peer": -1,
        }
    )  # fmt: skip
    nothing = pd.DataFrame({"link": [], "start_ps": [], "end_ps": [], "rate_bytes_s": []})
    memory = pd.DataFrame({"rank": [], "time_ps": [], "bytes": [], "what": []})
    return Trace(ops, pd.DataFrame(dependencies, columns=["op", "on"], dtype=np.int64), nothing, memory)


@pytest.mark.parametrize(
    ("granularity", "dependencies", "expected"),
    [
        ("layer", [(1, 0), (2, 1), (3, 2), (3, 0)], [(0, 0, 5, 5.0, "0F0", 0), (2, 5, 10, 5.0, "0F0", 1)]),
        ("stage", [(1, 0), (2, 1), (3, 2)], [(0, 0, 10, 10.0, "0F0", -1)]),
        # Something else waits for op 1: it ends a row, which op 2 does not join.
        ("stage", [(1, 0), (2, 1), (3, 2), (4, 1)], [(0, 0, 5, 5.0, "0F0", 0), (2, 5, 10, 5.0, "0F0", 1)]),
    ],
)
def test_rows_end_where_something_waits(granularity, dependencies, expected):
    found = coarsened(trace(dependencies), granularity).ops
    columns = ["op", "start_ps", "end_ps", "flops", "name", "layer"]
    rows = [tuple(row) for row in found[columns].astype({"name": str}).itertuples(index=False)]
    assert rows == [*expected, (4, 10, 12, 9.0, "1F0", 2)]
