"""Orders of the V placement, against the figures of their papers. Bubbles and makespans with F = I = W = 1 for a whole rank."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.placements import modular, wave
from clustersim.schedule.v_shape import PERIOD, V_SHAPE, _building_block
from tests.schedule import oracle
from tests.schedule.test_zero_bubble import EVEN, gaps

HALVES = {one: time / 2 for one, time in EVEN.items()}
MEMORY = {"zb-v": lambda p: p, "v-half": lambda p: (p + 2) // 2, "v-min": lambda p: (p + 4) // 3}
"""Micro-batches of a whole rank that its activations are good for, by the authors; a chunk is half of one."""


def schedule(name, p, m):
    placement = wave(p, 2)
    return Schedule(name, m, placement, V_SHAPE[name].run(placement, m))


@pytest.mark.parametrize("name", V_SHAPE)
@pytest.mark.parametrize("p", range(1, 17))
def test_memory_and_progress(name, p):
    for m in (*range(1, 41, 3), 40):
        one = schedule(name, p, m)
        oracle.check(one)
        assert oracle.makespan(one) >= 3 * m
        assert max(most_in_flight(one)) == min(2 * m, 2 * MEMORY[name](p))


@pytest.mark.parametrize("p", range(1, 13))
def test_zb_v_has_no_bubble(p):
    for m in (2 * p - 1, 2 * p, 3 * p + 2):
        assert gaps(schedule("zb-v", p, m), HALVES) == [0] * p


@pytest.mark.parametrize("p", range(1, 17))
def test_bubble_relative_to_1f1b(p):
    """The first rank of 1F1B idles 3(p-1) between its first and last action: V-Half at most half of that, V-Min two thirds.

    V-Min within one pass, as a rank's gaps are whole passes: (4p-5)/2, one more where p is a multiple of 3.
    """
    bubble = 3 * (p - 1)
    for m in (p, p + 1, 2 * p, 40):
        half, least = (max(gaps(schedule(name, p, m), HALVES)) for name in ("v-half", "v-min"))
        assert half <= bubble / 2
        assert abs(least - 2 * bubble / 3) <= 0.5
        assert p < 3 or half == (3 * p - 4) / 2
        assert p < 2 or least == (4 * p - 5) / 2 + (p % 3 == 0)


@pytest.mark.parametrize("name", ["v-half", "v-min"])
def test_makespan_is_work_and_bubble_of_the_first_rank(name):
    for p in (2, 3, 4, 8):
        one = schedule(name, p, 20)
        assert oracle.makespan(one) == 60 + max(gaps(one, HALVES))


@pytest.mark.parametrize("p", [*range(1, 17), 64, 99])
def test_building_blocks_never_collide(p):
    """Modulo the period no two passes of a rank start together, and each starts after the one it needs."""
    for offsets, waits in (((2, 1), (0, 1 if p % 2 else 4)), ((1, 1), (0 if p % 3 else 2, 0))):
        start = {one: at for r in range(p) for at, one in _building_block(p, r, offsets, waits)}
        for r in range(p):
            passes = [("F", r), ("F", 2 * p - 1 - r), ("I", 2 * p - 1 - r), ("I", r)]
            assert all((start[a] - start[b]) % PERIOD for a, b in combinations(passes, 2))
        assert all(start["F", s + 1] > start["F", s] and start["I", s] > start["I", s + 1] for s in range(2 * p - 1))
        assert start["I", 2 * p - 1] > start["F", 2 * p - 1]


TIMES = [(1, 1, 1), (1, 2, 1), (3, 1, 2), (1, 1, 4)]


@given(st.sampled_from(sorted(V_SHAPE)), st.integers(1, 8), st.integers(1, 24), st.sampled_from(TIMES))
def test_every_order_is_legal_and_ends(name, p, m, times):
    one = schedule(name, p, m)
    oracle.check(one)
    forward, input, weight = times
    assert oracle.makespan(one, forward=forward, input=input, weight=weight, delay=0.25) >= m * sum(times)


@pytest.mark.parametrize("name", V_SHAPE)
@pytest.mark.parametrize("placement", [modular(2, 2), modular(2, 1), wave(2, 4)])
def test_other_placements_are_refused(name, placement):
    with pytest.raises(ValueError, match=f"order {name} .*; allowed: placement: wave with chunks: 2"):
        V_SHAPE[name].run(placement, 4)
