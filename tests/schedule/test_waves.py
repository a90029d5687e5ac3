"""Chimera and Hanayo, against the bubbles of their papers and the table of slots they come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.placements import bidirectional, modular, wave
from clustersim.schedule.waves import WAVES, chimera, hanayo
from tests.schedule import oracle


def two_ways(p, m):
    placement = bidirectional(p, 2)
    return Schedule("chimera", m, placement, chimera(placement, m), pipes=2)


def waves(p, w, m):
    placement = wave(p, 2 * w)
    return Schedule("hanayo", m, placement, hanayo(placement, m))


def words(schedule):
    return [" ".join(map(str, actions)) for actions in schedule.actions]


def test_chimera_order_of_four_ranks():
    # the paper's figure of four stages and four micro-batches
    assert words(two_ways(4, 4)) == [
        "0F0 0F1 7F2 7B2 7F3 7B3 0B0 0B1",
        "1F0 6F2 1F1 6F3 6B2 1B0 6B3 1B1",
        "5F2 2F0 5F3 2F1 2B0 5B2 2B1 5B3",
        "4F2 4F3 3F0 3B0 3F1 3B1 4B2 4B3",
    ]


@pytest.mark.parametrize("p", [2, 4, 6, 8, 12])
def test_chimera_bubble_of_one_group(p):
    equal, double = oracle.makespan(two_ways(p, p), 1, 1), oracle.makespan(two_ways(p, p), 1, 2)
    assert (equal - 2 * p) / equal == pytest.approx((p - 2) / (2 * p + p - 2))
    assert (double - 3 * p) / double == pytest.approx((p - 2) / (3 * p / 2 + p - 2))


def test_chimera_critical_path_of_the_paper():
    # six stages and six micro-batches: 6 forwards and 10 backwards
    for backward in (1, 2, 3.5):
        assert oracle.makespan(two_ways(6, 6), 1, backward) == 6 + 10 * backward


@pytest.mark.parametrize("p", [2, 4, 6, 8])
@pytest.mark.parametrize("m", [2, 4, 6, 8, 12, 16, 24])
def test_chimera_of_equal_passes_fills_the_slots(p, m):
    assert oracle.makespan(two_ways(p, m), 1, 1) == 2 * p * -(-m // p) + (m - 1) % p - 1


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize(("forward", "backward"), [(1, 1), (1, 2), (2, 1), (1, 3)])
def test_chimera_bubble_of_concatenated_groups(p, groups, forward, backward):
    makespan = oracle.makespan(two_ways(p, p * groups), forward, backward)
    bubble = (p - 2) * (max(forward, backward) + (groups - 1) * abs(forward - backward))
    assert makespan == groups * p * (forward + backward) + bubble


@pytest.mark.parametrize("p", [2, 4, 6, 8])
@pytest.mark.parametrize("groups", [1, 3])
def test_chimera_in_flight(p, groups):
    result = most_in_flight(two_ways(p, p * groups))
    assert (min(result), max(result)) == (p // 2 + 1, p)
    assert result == tuple(min(p, p // 2 + 1 + min(r, p - 1 - r)) for r in range(p))


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("w", [1, 2, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 8, 9, 16])
def test_hanayo_of_equal_passes_fills_the_slots(p, w, m):
    expected = 2 * (p * -(-m // p) + (m - 1) % p / (2 * w))
    assert oracle.makespan(waves(p, w, m), 1, 1) == pytest.approx(expected)


@pytest.mark.parametrize("p", [2, 4, 8, 32])
@pytest.mark.parametrize("w", [1, 2, 4])
def test_hanayo_bubble_is_not_above_the_papers(p, w):
    makespan = oracle.makespan(waves(p, w, p), 1, 2)
    ratio = (makespan - 3 * p) / makespan
    assert ratio == pytest.approx((2 * p - 2) / (3 * p * w + 2 * p - 2))
    assert ratio <= (2 * p - 2) / (3 * p * w + p - 1)


@pytest.mark.parametrize("p", [1, 2, 3, 8])
@pytest.mark.parametrize("w", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize(("forward", "backward"), [(1, 1), (1, 2), (2, 1), (1, 3)])
def test_hanayo_bubble_of_groups(p, w, groups, forward, backward):
    makespan = oracle.makespan(waves(p, w, p * groups), forward, backward)
    bubble = (p - 1) * (max(forward, backward) + (groups - 1) * abs(forward - backward)) / w
    assert makespan == pytest.approx(groups * p * (forward + backward) + bubble)


@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 24), st.floats(0.25, 4))
def test_more_waves_are_never_longer(p, w, m, backward):
    assert oracle.makespan(waves(p, w + 1, m), 1, backward) <= oracle.makespan(waves(p, w, m), 1, backward) * (1 + 1e-9)


@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 24), st.floats(0, 2))
def test_hanayo_runs_with_any_ranks_and_micro_batches(p, w, m, delay):
    schedule = waves(p, w, m)
    oracle.check(schedule)
    assert oracle.makespan(schedule, delay=delay) >= 3 * m * (1 - 1e-9)
    assert max(most_in_flight(schedule)) <= 2 * w * min(m, p)


@given(st.integers(1, 8), st.integers(1, 24), st.floats(0, 2))
def test_chimera_runs_where_it_is_allowed_and_says_why_not(p, m, delay):
    if p % 2 or m % 2:
        with pytest.raises(ValueError, match=r"^order chimera[^\n]*; allowed: [^\n]+$"):
            two_ways(p, m)
        return
    schedule = two_ways(p, m)
    oracle.check(schedule)
    assert oracle.makespan(schedule, delay=delay) >= 3 * m


@pytest.mark.parametrize("name", WAVES)
@pytest.mark.parametrize("placement", [modular(4, 2), modular(4, 1), wave(4, 3)])
def test_needs_its_placement(name, placement):
    with pytest.raises(ValueError, match=rf"^order {name} [^\n]*; allowed: placement: "):
        WAVES[name].run(placement, 8)
