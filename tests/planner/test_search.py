"""The pruned search against the simulation of every candidate; bounds against simulations."""

import numpy as np
import pytest

from clustersim.planner import bounds
from clustersim.planner.search import search
from clustersim.planner.space import roots, spenders
from tests.planner.small import Here, bounds_to_rows, everything, question


@pytest.fixture(scope="module")
def small():
    """The question, its simulations, and the row of every candidate there is."""
    asked = question(strategies="standard,mpp,interleaved-1f1b,zb-h1", tensor=1, pipeline="1,2", micro_batch=1)
    pool = Here(asked.base)
    return asked, pool, {one: pool.row(one) for one in everything(asked.space)}


def test_no_simulation_is_below_its_bounds(small):
    asked, _, rows = small
    tightness, memory_tightness = [], []
    for one, times, memory in bounds_to_rows(asked, rows):
        assert max(times) <= 1 + 1e-9 and memory <= 1 + 1e-9, one
        tightness.append(max(times))
        memory_tightness.append(memory)
    assert len(rows) > 60
    assert np.median(tightness) > 0.5 and max(tightness) > 0.95  # a bound of nothing would pass as well
    assert np.median(memory_tightness) > 0.7


@pytest.mark.parametrize("objective", ["time", "gpu-hours"])
def test_the_pruned_search_finds_what_the_exhaustive_one_does(small, objective):
    asked, pool, rows = small
    asked = type(asked)(**{**vars(asked), "objective": objective})
    most = asked.limits.memory_bytes

    def fits(one):
        return rows[one]["peak_memory_bytes"] + rows[one]["reserve_bytes"] <= most

    def wanted(one):
        """It fits, and nothing that spends more memory on the same does."""
        waiting = spenders(one, asked.space)
        while waiting:
            spender = waiting.pop()
            if fits(spender):
                return False
            waiting += spenders(spender, asked.space)
        return fits(one)

    def score(one):
        return asked.score(one, rows[one]["step_time_s"])

    assert 0.1 < np.mean([fits(one) for one in rows]) < 0.9
    all_scores = sorted(score(one) for one in rows if wanted(one))
    found = search(asked.space, asked.base, asked.cluster, asked.limits, asked.score, pool, top=5, proven=5)
    assert [score(plan.candidate) for plan in found.plans[:5]] == pytest.approx(all_scores[:5], rel=1e-12)
    assert score(found.plans[0].candidate) == pytest.approx(min(score(one) for one in rows if fits(one)), rel=1e-12)
    assert found.simulated < 0.5 * len(rows)


def test_the_best_of_each_strategy(small):
    asked, pool, rows = small
    found = search(asked.space, asked.base, asked.cluster, asked.limits, asked.score, pool, top=1)
    for strategy in asked.space.strategies:
        best = min(
            asked.score(one, row["step_time_s"])
            for one, row in rows.items()
            if one.strategy == strategy and row["peak_memory_bytes"] + row["reserve_bytes"] <= asked.limits.memory_bytes
        )
        assert min(
            asked.score(plan.candidate, plan.step_s) for plan in found.plans if plan.candidate.strategy == strategy
        ) == pytest.approx(best)


def test_the_whole_pass_of_a_profile_is_that_of_its_simulation(small):
    """One micro-batch on one GPU at fixed costs: 4 layers of 1 s forward and 3 s backward."""
    asked = question(memory=None, overrides=["cost={forward: 1 s, backward: 3 s}"], tensor=1, pipeline="1,2", strategies="standard,mpp")
    one = next(
        one for one in everything(asked.space) if one.strategy == "standard" and one.pipeline == 2 and one.data == 1 and one.micro == 1
    )
    profile = bounds.measure(asked.base, one)
    assert profile.pass_s.tolist() == pytest.approx([4.0] * 4) and profile.forward_s.tolist()[:-1] == pytest.approx([1.0] * 3)
    stages = bounds.stages_of(profile, "standard", 2, 1)
    assert bounds.step_bound_s(profile, stages, one) == pytest.approx((8 + 2 - 1) * 8)  # (m+p-1)(F+B), F+B = 2 layers x 4 s
    mpp = type(one)(**{**vars(one), "strategy": "mpp", "chunks": 2})
    assert bounds.step_bound_s(profile, bounds.stages_of(profile, "mpp", 2, 2), mpp) == pytest.approx(((2 - 1) * 8 + 8 + 2 - 1) * 4)
    lga = type(one)(**{**vars(one), "strategy": "lga", "chunks": 2})
    assert bounds.step_bound_s(profile, bounds.stages_of(profile, "lga", 2, 2), lga) == pytest.approx((2 * (2 - 1) * 8 + 8 + 2 - 1) * 4)


def test_work_that_is_the_same_under_several_names_is_looked_at_once():
    """8 sequences on 8 replicas are one micro-batch of each, and there is no order to choose; with a list of strategies each is wanted."""
    asked = {"gpus": 8, "batch": 8, "tensor": 1, "pipeline": 1, "micro_batch": 1, "data": 8}
    one, each = (question(**asked, **more) for more in ({}, {"strategies": "standard,mpp"}))
    assert {root.strategy for root in roots(one.space)} == {"standard"}
    assert {root.strategy for root in roots(each.space)} == {"standard", "mpp"}
