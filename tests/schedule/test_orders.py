"""Orders of work, against the lists written out in the papers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import most_in_flight
from clustersim.schedule.one_f_one_b import interleaved
from clustersim.schedule.placements import bidirectional, contiguous, modular, wave
from clustersim.schedule.strategy import PRESETS, Strategy, build, build_named
from tests.schedule import oracle
from tests.schedule.closed_forms import DELAYS, MAKESPANS


def words(schedule):
    return [" ".join(map(str, actions)) for actions in schedule.actions]


def test_1f1b_of_four_ranks():
    schedule = build(PRESETS["standard"], layers=4, pipeline=4, micro_batches=5)
    assert words(schedule)[0] == "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0B2 0B3 0B4"
    assert words(schedule)[3] == "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4"


def test_standard_accumulation_and_lga_on_one_rank():
    assert words(build(PRESETS["standard"], 4, 1, 2)) == ["0F0 0B0 0F1 0B1"]
    assert words(build(PRESETS["lga"], 2, 1, 2)) == ["0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"]


def test_mpp_deals_layers_out_in_turn():
    schedule = build(PRESETS["mpp"], layers=4, pipeline=2, micro_batches=2)
    assert schedule.placement == (0, 1, 0, 1)
    assert words(schedule)[1] == "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1"


def test_placements():
    assert contiguous(3, 2) == (0, 0, 1, 1, 2, 2)
    assert modular(3, 2) == (0, 1, 2, 0, 1, 2)
    assert wave(3, 2) == (0, 1, 2, 2, 1, 0) == bidirectional(3, 2)
    assert wave(2, 3) == (0, 1, 1, 0, 0, 1)
    with pytest.raises(ValueError, match="got chunks: 3; allowed: an even number"):
        bidirectional(2, 3)


@pytest.mark.parametrize("p", [1, 2, 4, 7])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_most_forwards_in_flight(p, m):
    assert most_in_flight(build(PRESETS["standard"], p, p, m)) == tuple(min(m, p - r) for r in range(p))
    assert most_in_flight(build(PRESETS["eager-1f1b"], p, p, m)) == tuple(min(m, 2 * (p - r) - 1) for r in range(p))
    assert most_in_flight(build(PRESETS["gpipe"], p, p, m)) == (m,) * p
    assert most_in_flight(build(PRESETS["mpp"], 3 * p, p, m)) == (3 * m,) * p
    assert most_in_flight(build_named("breadth-first", p, 3, m)) == (3 * m,) * p


@pytest.mark.parametrize(("p", "v", "m"), [(4, 2, 8), (8, 4, 16), (2, 3, 6), (1, 4, 3), (3, 1, 9)])
def test_most_forwards_in_flight_interleaved(p, v, m):
    expected = tuple(min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1) for r in range(p))
    assert most_in_flight(build_named("interleaved-1f1b", p, v, m)) == expected


@pytest.mark.parametrize(("name", "p", "v", "m", "makespans"), [*MAKESPANS, ("eager-1f1b", 4, 1, 8, (33,))])
def test_makespans_with_a_delay_between_ranks(name, p, v, m, makespans):
    schedule = build_named(name, p, v, m)
    for delay, expected in zip(DELAYS, makespans, strict=False):
        assert oracle.makespan(schedule, delay=delay) == expected


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 16), (3, 20)])
def test_eager_1f1b_hides_delays_that_1f1b_does_not(p, m):
    # A rank's next backward is there when it has done the forwards between: the delay counts once down and once up, as in GPipe.
    eager = build_named("eager-1f1b", p, 1, m)
    assert oracle.makespan(eager, delay=0.5) == (m + p - 1) * 3 + 2 * (p - 1) * 0.5
    assert oracle.makespan(build_named("1f1b", p, 1, m), delay=0.5) > oracle.makespan(eager, delay=0.5)


@pytest.mark.parametrize(("p", "m", "n"), [(4, 8, 4), (2, 3, 5), (1, 2, 2), (6, 1, 8)])
def test_terapipe_with_equal_slices_is_gpipe_with_so_many_more_micro_batches(p, m, n):
    schedule = build(Strategy("terapipe", "contiguous", "terapipe", slices=n), p, p, m)
    oracle.check(schedule)
    assert oracle.makespan(schedule) == pytest.approx((m * n + p - 1) * 3 / n)
    backward = [action.micro_batch for action in schedule.actions[0] if action.kind == "B"][:n]
    assert backward == list(reversed(range(n)))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 30), st.integers(1, 12))
def test_interleaved_runs_with_any_group_that_it_takes(p, v, m, group):
    try:
        actions = interleaved(modular(p, v), m, group)
    except ValueError as error:
        assert m > group
        assert group < p or 0 < m % group < p
        assert "allowed for strategy.group" in str(error)
        return
    schedule = build(Strategy("x", "modular", "interleaved-1f1b", chunks=v, group=group), p * v, p, m)
    assert schedule.actions == actions
    oracle.check(schedule)
    assert oracle.makespan(schedule) >= 3 * m - 1e-9


@pytest.mark.parametrize("m", [9, 11, 14])
def test_interleaved_says_which_numbers_of_micro_batches_it_takes(m):
    with pytest.raises(ValueError, match=f"allowed: a multiple of 4 .{m // 4 * 4} or {m // 4 * 4 + 4}"):
        build_named("interleaved-1f1b", 4, 2, m)


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 6), st.none() | st.integers(1, 4), st.integers(1, 24))
def test_every_preset_does_all_of_its_work_in_a_legal_order_or_says_why_not(name, p, v, m):
    try:
        schedule = build_named(name, p, v, m)
    except ValueError as error:
        assert "allowed" in str(error)
        return
    oracle.check(schedule)
    assert oracle.makespan(schedule) >= 3 * m - 1e-9


@pytest.mark.parametrize(
    ("strategy", "layers", "p", "text"),
    [
        (PRESETS["standard"], 10, 4, "10 layers do not divide into 4 pipeline stages; allowed for pipeline: 1, 2, 5, 10"),
        (Strategy("mpp", "modular", "layered", chunks=4), 12, 2, "6 layers per rank do not divide into 4 chunks"),
        (Strategy("standard", "contiguous", "1f1b", chunks=2), 8, 2, "order 1f1b does not take its stages so; allowed: chunks: 1"),
        (Strategy("standard", "contiguous", "1f1b", group=2), 8, 2, "order 1f1b has no group; allowed with order: interleaved-1f1b"),
    ],
)
def test_what_does_not_divide_is_refused(strategy, layers, p, text):
    with pytest.raises(ValueError, match=text):
        build(strategy, layers, p, 4)
