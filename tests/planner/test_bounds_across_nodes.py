"""Bounds against simulations where groups leave a node: nodes of 2 GPUs, tensor ranks, a mixture of experts."""

import numpy as np
import pytest

from clustersim.planner.question import read_question
from tests.planner.small import Here, bounds_to_rows, everything

DENSE = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 1000}
MIXTURE = {**DENSE, "experts": 4, "top_k": 2, "expert_ffn": 2048}
WORK, PIPELINE, TRAFFIC = range(3)


@pytest.mark.parametrize(
    ("model", "network", "options", "tight", "decides"),
    [
        (DENSE, "5 Gb/s", {"tensor": 2, "pipeline": "1,2", "strategies": "standard,mpp"}, 0.99, {TRAFFIC}),
        (DENSE, "50 Gb/s", {"tensor": 2, "pipeline": "1,2", "strategies": "standard,mpp"}, 0.99, {PIPELINE, TRAFFIC}),
        (DENSE, "50 Gb/s", {"tensor": "1,2", "pipeline": 1, "strategies": "lga", "sequence_parallel": "both"}, 0.99, {TRAFFIC}),
        (MIXTURE, "50 Gb/s", {"pipeline": "1,2", "expert": 2, "strategies": "standard,mpp"}, 0.75, {WORK, PIPELINE, TRAFFIC}),
    ],
)
def test_no_simulation_is_below_its_bounds(model, network, options, tight, decides):
    asked = read_question(
        model, "paper-a100", gpus="8..8", batch=16, batch_slack_percent=0, sequence=512, micro_batch=1, tokens=1e6, recompute="full",
        partition="none,optimizer,parameters", **{"tensor": "1,2", **options},
        overrides=["cluster.node.gpus=2", "cluster.node.nics=2", f"network.bandwidth={network}"],
    )  # fmt: skip
    pool = Here(asked.base)
    rows = {one: pool.row(one) for one in everything(asked.space)}
    assert {one.gpus for one in rows} == {8} and {row["status"] for row in rows.values()} == {"ok"}
    found = list(bounds_to_rows(asked, rows))
    for one, times, memory in found:
        assert max(times) <= 1 + 1e-9 and memory <= 1 + 1e-9, one
    assert max(max(times) for _, times, _ in found) > tight  # a bound of nothing would pass as well
    assert max(memory for *_, memory in found) > 0.99
    assert {int(np.argmax(times)) for _, times, _ in found} == decides
