"""The first plan against the simulation of everything, on small spaces of different kinds; no bound above a simulation on the way."""

from dataclasses import replace

import numpy as np
import pytest

from clustersim.planner.question import read_question
from clustersim.planner.search import search
from tests.planner.small import Here, bounds_to_rows, everything

DENSE = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 8000}
MIXTURE = {"layers": 2, "hidden": 2048, "heads": 16, "vocab": 1000, "experts": 4, "top_k": 2, "expert_ffn": 4096, "dense_layers": 1}
KINDS = {
    "tensor ranks over PCIe": (DENSE, "pcie-ethernet", {"gpus": "2..4", "tensor": "2,4", "pipeline": "1,2", "strategies": "standard,mpp"}),
    "a mixture of experts": (MIXTURE, "paper-a100", {"gpus": "4..4", "tensor": 1, "strategies": "lga", "context": "1,2", "expert": "1,2"}),
    "offloading": (DENSE, "dgx-a100", {"gpus": 2, "strategies": "standard", "tensor": 1, "offload": "none,activations,optimizer,all"}),
    "other orders": (DENSE, "dgx-a100", {"gpus": 4, "strategies": "interleaved-1f1b,breadth-first,zb-h1", "tensor": 1}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_plan_is_the_best_of_all(kind):
    model, cluster, options = KINDS[kind]
    asked = read_question(model, cluster, batch=4, batch_slack_percent=0, sequence=1024, tokens=1e6, **options)
    assert asked.space.micro == (1, 2, 4)  # as far as the batch goes
    pool = Here(asked.base)
    rows = {one: pool.row(one) for one in everything(asked.space)}
    rows = {one: row for one, row in rows.items() if "step_time_s" in row}
    for one, times, memory in bounds_to_rows(asked, rows):
        assert max(times) <= 1 + 1e-9 and memory <= 1 + 1e-9, one
    needs = {one: row["peak_memory_bytes"] + row["reserve_bytes"] for one, row in rows.items()}
    limits = replace(asked.limits, memory_bytes=int(np.quantile(list(needs.values()), 0.2)))
    best = min(asked.score(one, rows[one]["step_time_s"]) for one, size in needs.items() if size <= limits.memory_bytes)
    found = search(asked.space, asked.base, asked.cluster, limits, asked.score, pool, top=1)
    assert asked.score(found.plans[0].candidate, found.plans[0].step_s) == best
    assert found.simulated < 0.4 * len(rows)
