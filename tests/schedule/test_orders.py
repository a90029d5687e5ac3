"""Orders of work, against the lists written out in the papers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Action, contiguous, modular, most_in_flight
from clustersim.schedule.strategy import PRESETS, Strategy, build


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


@pytest.mark.parametrize("p", [1, 2, 4, 7])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_most_forwards_in_flight(p, m):
    assert most_in_flight(build(PRESETS["standard"], p, p, m)) == tuple(min(m, p - r) for r in range(p))
    gpipe = Strategy("gpipe", "contiguous", "gpipe", "micro_batch")
    assert most_in_flight(build(gpipe, p, p, m)) == (m,) * p
    assert most_in_flight(build(PRESETS["mpp"], 3 * p, p, m)) == (3 * m,) * p


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 6), st.integers(1, 4), st.integers(1, 9))
def test_every_rank_does_all_of_its_work_once_forward_first(name, p, k, m):
    schedule = build(PRESETS[name], p * k, p, m)
    for rank, actions in enumerate(schedule.actions):
        stages = [stage for stage, place in enumerate(schedule.placement) if place == rank]
        assert sorted(actions) == sorted(Action(kind, stage, i) for kind in "FB" for stage in stages for i in range(m))
        for stage in stages:
            for i in range(m):
                assert actions.index(Action("F", stage, i)) < actions.index(Action("B", stage, i))


@pytest.mark.parametrize(
    ("strategy", "layers", "p", "text"),
    [
        (PRESETS["standard"], 10, 4, "10 layers do not divide into 4 pipeline stages; allowed for pipeline: 1, 2, 5, 10"),
        (Strategy("mpp", "modular", "layered", "layer", chunks=4), 12, 2, "6 layers per rank do not divide into 4 chunks"),
        (Strategy("standard", "contiguous", "1f1b", "layer", chunks=2), 8, 2, "chunks: 1"),
    ],
)
def test_what_does_not_divide_is_refused(strategy, layers, p, text):
    with pytest.raises(ValueError, match=text):
        build(strategy, layers, p, 4)
