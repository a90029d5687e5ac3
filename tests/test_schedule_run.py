"""Schedules at unit costs through the engine, against closed forms and an independent clock."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.schedule.strategy import PRESETS, build_named
from clustersim.schedule_run import Times, measure, run_alone
from tests.schedule import oracle
from tests.schedule.closed_forms import DELAYS, MAKESPANS

NAMES = sorted(set(PRESETS) - {"standard", "lga", "mpp"})


@pytest.mark.parametrize(("name", "p", "v", "m", "makespans"), MAKESPANS)
def test_closed_forms(name, p, v, m, makespans):
    for delay, expected in zip(DELAYS, makespans, strict=False):
        figures = measure(name, p, v, m, Times(delay_s=delay))
        assert figures.makespan_s == expected
        assert figures.bubble_of_total == pytest.approx(1 - 3 * m / expected, abs=1e-12)
        assert figures.bubble_of_ideal == pytest.approx(expected / (3 * m) - 1, abs=1e-12)


@settings(max_examples=150)
@given(
    st.sampled_from(NAMES), st.integers(1, 5), st.none() | st.integers(1, 4), st.integers(1, 14),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)), st.sampled_from([0, 0.25, 1]),
)  # fmt: skip
def test_the_engine_agrees_with_an_independent_clock(name, p, v, m, costs, delay):
    try:
        schedule = build_named(name, p, v, m)
    except ValueError:
        return
    forward, input_, weight = costs
    trace = run_alone(schedule, Times(forward, input_ + weight, input_, weight, delay))
    expected = oracle.makespan(schedule, forward, input_ + weight, input_, weight, delay)
    assert trace.makespan_ps == pytest.approx(expected * 1e12, abs=len(trace.ops))  # each op is rounded to a ps


def test_without_a_flush_a_step_has_no_bubble():
    figures = measure("pipedream-2bw", 4, None, 8, Times())
    assert (figures.makespan_s, figures.bubble_of_total, figures.weights) == (24, 0, 2)


def test_messages_between_ranks():
    # Forward and backward, every boundary between ranks, every micro-batch; none where neighbours lie on one rank.
    assert measure("gpipe", 4, None, 8, Times()).pipeline_messages == 2 * 3 * 8
    assert measure("mpp", 4, 3, 8, Times()).pipeline_messages == 2 * 11 * 8
    assert measure("zb-v", 4, None, 8, Times()).pipeline_messages == 2 * 6 * 8
    assert measure("dualpipe", 4, None, 8, Times()).pipeline_messages == 2 * 3 * 8
    assert measure("terapipe", 4, None, 8, Times()).pipeline_messages == 2 * 3 * 8 * 4
