"""Zero-bubble orders with one stage per rank or looped stages, against the laws of their papers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.placements import modular, wave
from clustersim.schedule.zero_bubble import ZERO_BUBBLE, interleaved_zb
from tests.schedule import oracle

EVEN = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}
TIMES = [(1, 1, 1), (2, 3, 1), (3, 2, 2), (5, 4, 1), (Fraction(1, 2), Fraction(3, 4), Fraction(1, 4)), (1, 9, 1), (9, 1, 1), (3, 1, 0)]
"""F, I, W with W at most the least of F and I; exact in binary."""


def schedule(name, p, m, v=1):
    placement = modular(p, v)
    return Schedule(name, m, placement, ZERO_BUBBLE[name].run(placement, m))


def makespan(one, times, delay=0.0):
    forward, input, weight = map(float, times)
    return oracle.makespan(one, forward=forward, input=input, weight=weight, delay=delay)


def gaps(one, times):
    """By rank, the idle time between its first and last action: the bubble, when no rank waits for others before it steps."""
    end = oracle.run(one, times)
    result = []
    for rank in range(one.ranks):
        spans = [(at - times[kind], at) for (kind, stage, _), at in end.items() if one.placement[stage] == rank]
        busy = sum(finish - start for start, finish in spans)
        result.append(max(finish for _, finish in spans) - min(start for start, _ in spans) - busy)
    return result


@pytest.mark.parametrize(("delay", "expected"), [(0.0, 27.0), (0.25, 30.0), (0.5, 33.0)])
def test_zb_h1_golden(delay, expected):
    assert makespan(schedule("zb-h1", 4, 8), (1, 1, 1), delay) == expected


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("extra", [0, 1, 2, 9])
def test_zb_h1_makespan(times, p, extra):
    forward, input, weight = times
    m = p + extra
    expected = m * (forward + input + weight) + (p - 1) * (forward + input - weight)
    assert makespan(schedule("zb-h1", p, m), times) == expected


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("m", [1, 2, 5, 8, 16, 40])
def test_forwards_in_flight(p, m):
    assert max(most_in_flight(schedule("zb-h1", p, m))) == min(m, p)
    assert max(most_in_flight(schedule("zb-h2", p, m))) == min(m, 2 * p - 1)


@pytest.mark.parametrize("p", range(1, 13))
def test_bubble_relative_to_1f1b(p):
    """The first rank of 1F1B idles (p-1)(F+I+W): ZB-H1 a third of it, ZB-H2 none on any rank."""
    for m in (2 * p - 1, 2 * p, 3 * p + 1):
        assert 3 * max(gaps(schedule("zb-h1", p, m), EVEN)) == 3 * (p - 1)
        assert gaps(schedule("zb-h2", p, m), EVEN) == [0] * p
        assert makespan(schedule("zb-h2", p, m), (1, 1, 1)) == 3 * m + p - 1


def test_interleaved_of_one_stage_is_zb_h1():
    for p, m in ((1, 1), (3, 2), (4, 8), (4, 12)):
        assert schedule("interleaved-zb", p, m).actions == schedule("zb-h1", p, m).actions


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("p", "v", "rounds"), [(1, 1, 1), (2, 2, 1), (2, 4, 3), (4, 2, 2), (3, 4, 2), (4, 4, 1)])
def test_interleaved_makespan(times, p, v, rounds):
    """ZB-H1's, its bubble through v as with interleaved 1F1B."""
    forward, input, weight = times
    m = p * rounds
    expected = m * (forward + input + weight) + Fraction((p - 1) * (forward + input - weight)) / v
    assert makespan(schedule("interleaved-zb", p, m, v), times) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("p", "v", "m", "group"), [(4, 2, 8, 4), (4, 2, 2, 2), (4, 3, 6, 6), (4, 2, 10, 5), (2, 4, 6, 2), (3, 2, 1, 1)])
def test_interleaved_warm_up_and_forwards_in_flight(p, v, m, group):
    one = schedule("interleaved-zb", p, m, v)
    for rank, actions in enumerate(one.actions):
        before = next(n for n, action in enumerate(actions) if action.kind == "I")
        assert before == min(m * v, (v - 1) * group + p - 1 - rank + 1)
    assert max(most_in_flight(one)) == min(m * v, (v - 1) * group + p)


@given(st.sampled_from(["zb-h1", "zb-h2"]), st.integers(1, 8), st.integers(1, 24), st.sampled_from(TIMES))
def test_every_order_is_legal_and_ends(name, p, m, times):
    one = schedule(name, p, m)
    oracle.check(one)
    assert makespan(one, times) >= m * sum(times)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 24), st.sampled_from(TIMES))
def test_every_interleaved_order_is_legal_and_ends(p, v, m, times):
    if m % max(1, m // p):
        with pytest.raises(ValueError, match="micro-batches do not divide"):
            schedule("interleaved-zb", p, m, v)
        return
    one = schedule("interleaved-zb", p, m, v)
    oracle.check(one)
    assert makespan(one, times) >= float(m * sum(times)) * (1 - 1e-12)


def test_allowed_micro_batches_are_allowed():
    for p in range(1, 9):
        for m in range(1, 40):
            try:
                interleaved_zb(modular(p, 2), m)
            except ValueError as error:
                assert "\n" not in str(error)
                for allowed in str(error).rpartition(": ")[2].split(", "):
                    interleaved_zb(modular(p, 2), int(allowed))


@pytest.mark.parametrize(
    ("name", "placement", "text"),
    [
        ("zb-h1", modular(2, 2), "order zb-h1 .*; allowed: chunks: 1"),
        ("zb-h2", wave(2, 2), "order zb-h2 .*; allowed: chunks: 1"),
        ("interleaved-zb", wave(2, 2), "order interleaved-zb .*; allowed: placement: modular"),
    ],
)
def test_other_placements_are_refused(name, placement, text):
    with pytest.raises(ValueError, match=text):
        ZERO_BUBBLE[name].run(placement, 4)
