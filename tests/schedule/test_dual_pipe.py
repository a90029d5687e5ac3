"""DualPipe and DualPipeV, against the bubble of their authors' table and the order written out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Overlap, Schedule, most_in_flight
from clustersim.schedule.dual_pipe import DUAL_PIPE, dualpipe, dualpipe_v
from clustersim.schedule.placements import bidirectional, modular, wave
from tests.schedule import oracle


def dual(p, m):
    placement = bidirectional(p, 2)
    return Schedule("dualpipe", m, placement, dualpipe(placement, m), pipes=2)


def dual_v(p, m):
    placement = wave(p, 2)
    return Schedule("dualpipe-v", m, placement, dualpipe_v(placement, m))


def idle(schedule, forward, input, weight, overlap):
    """Idle time of each rank, of times of one stage."""
    times = {"F": forward, "B": input + weight, "I": input, "W": weight}
    makespan = max(oracle.run(schedule, times, overlap=overlap).values())
    return [makespan - sum(overlap if isinstance(one, Overlap) else times[one.kind] for one in actions) for actions in schedule.actions]


CASES = [(dual, p, p) for p in (2, 4, 6, 8)] + [(dual_v, p, 2 * p) for p in (1, 2, 3, 4, 6)]
"""A schedule, its ranks, the stages of its model."""


def test_dual_pipe_v_of_four_ranks():
    assert idle(dual_v(4, 8), 1, 1, 1, 3) == [6, 6, 6, 6]
    assert idle(dual_v(4, 20), 1, 1, 1, 3) == [6, 6, 6, 6]


@pytest.mark.parametrize(("schedule", "p", "stages"), CASES)
@pytest.mark.parametrize(("forward", "input", "weight"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 0.5), (1, 1, 0)])
@pytest.mark.parametrize("more", [0, 2, 14])
def test_bubble_of_the_table(schedule, p, stages, forward, input, weight, more):
    one = schedule(p, 2 * p + more)
    backward = input + weight
    for overlap in (max(forward, backward), 0.75 * forward + backward, forward + backward):
        bubble = (stages / 2 - 1) * (overlap + backward - 3 * weight)
        result = idle(one, forward, input, weight, overlap)
        assert max(result) == pytest.approx(bubble)
        if overlap == forward + backward:
            assert result == pytest.approx([bubble] * p)


@pytest.mark.parametrize(("schedule", "p", "stages"), CASES)
@pytest.mark.parametrize(("forward", "input", "weight"), [(2, 1, 1), (3, 1, 0.5), (1, 2, 1), (2, 3, 2)])
def test_bubble_where_forward_and_input_gradient_differ(schedule, p, stages, forward, input, weight):
    # measured, as the docstring says: the table's figure is for passes of one length
    overlap = forward + input + weight
    bubble = (stages / 2 - 1) * (overlap + input - 2 * weight)
    result = max(idle(schedule(p, 4 * p), forward, input, weight, overlap))
    if forward > input:
        assert result == pytest.approx(bubble + (stages / 2 - 1) * (forward - input))
    else:
        assert result <= bubble


@pytest.mark.parametrize(("schedule", "p", "stages"), CASES)
@pytest.mark.parametrize("more", [0, 2, 14])
def test_one_more_forward_in_flight_than_stages(schedule, p, stages, more):
    assert most_in_flight(schedule(p, 2 * p + more)) == (stages + 1,) * p


def test_less_bubble_than_1f1b_of_as_many_stages():
    # (P-1)(F+B) = 21 for P = 8, F = 1, B = 2
    assert max(idle(dual(8, 16), 1, 1, 1, 3)) == 6


def test_dual_pipe_v_order_of_two_ranks():
    first, last = [" ".join(map(str, actions)) for actions in dual_v(2, 5).actions]
    assert first == (
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3;3B1)OVERLAP_F_B (3F2;0B0)OVERLAP_F_B (0F4;3B2)OVERLAP_F_B (3F3;0B1)OVERLAP_F_B "
        "3B3 (3F4;0B2)OVERLAP_F_B 3B4 0I3 0W3 0I4 0W4"
    )
    assert last == (
        "1F0 2F0 1F1 2F1 1F2 2B0 (2F2;1B0)OVERLAP_F_B (1F3;2B1)OVERLAP_F_B (2F3;1B1)OVERLAP_F_B (1F4;2B2)OVERLAP_F_B "
        "(2F4;1B2)OVERLAP_F_B 2B3 1B3 2I4 1I4 2W4 1W4"
    )


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("more", [0, 1, 6])
def test_dual_pipe_v_counts_of_torch(p, more):
    m = 2 * p + more
    for r, actions in enumerate(dual_v(p, m).actions):
        kinds = "".join("o" if isinstance(one, Overlap) else one.kind for one in actions)
        main = "FB" + "o" * (2 * (more + r) + 1) if r == p - 1 else "oo" * (more + r + 1)
        tail = "B" * (r + 1) + "I" * (r + 1) + "WI" * (p - r - 1) + "W" * (r + 1)
        assert kinds == "F" * (2 * p) + "IWF" * (p - r - 1) + main + "Bo" * (p - r - 1) + tail


@pytest.mark.parametrize("p", [2, 4, 8])
def test_second_half_of_the_ranks_mirrors_the_first(p):
    schedule = dual(p, 2 * p + 4)

    def mirrored(action):
        stage = (action.stage + p) % (2 * p)
        return action._replace(stage=stage, micro_batch=(action.micro_batch + p + 2) % (2 * p + 4))

    for actions, others in zip(schedule.actions, schedule.actions[::-1], strict=True):
        assert [Overlap(*map(mirrored, one)) if isinstance(one, Overlap) else mirrored(one) for one in actions] == list(others)


@given(st.sampled_from([dual, dual_v]), st.integers(1, 8), st.integers(1, 24), st.floats(0, 2))
def test_runs_where_it_is_allowed_and_says_why_not(schedule, p, m, delay):
    allowed = m >= 2 * p and (schedule is dual_v or (p % 2 == 0 and m % 2 == 0))
    if not allowed:
        with pytest.raises(ValueError, match=r"^order dualpipe[^\n]*; allowed: [^\n]+$"):
            schedule(p, m)
        return
    one = schedule(p, m)
    oracle.check(one)
    ends = oracle.run(one, {"F": 1, "B": 2, "I": 1, "W": 1}, delay)
    assert max(ends.values()) >= m * one.stages / p * 3


@pytest.mark.parametrize("name", DUAL_PIPE)
def test_needs_its_placement(name):
    with pytest.raises(ValueError, match=rf"^order {name} [^\n]*; allowed: placement: "):
        DUAL_PIPE[name].run(modular(4, 2), 16)
