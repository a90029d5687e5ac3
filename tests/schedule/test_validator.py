"""What the validator finds, held to small files by hand and to two slow checks that share nothing with it."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.schedule.actions import Action, Overlap, Schedule, single
from clustersim.schedule.torch_csv import Communication, read, with_communication
from clustersim.schedule.validator import Fault, checked, faults
from tests.schedule import oracle
from tests.schedule.test_torch_csv import random_schedule


def told(text):
    return [str(fault) for fault in faults(read(text, "x.csv").rows)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Complete
        ("0F0\n1F0,1B0", ["rank 0, position 0: 0F0: has no backward; needed: 0B0, or 0I0 and 0W0"]),
        (
            "0F0,0F1,0F2,0F4,0F3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4",
            ["rank 0, position 0: 0F0: has no backward, nor has micro-batches 1-4; needed: 0B0, or 0I0 and 0W0"],
        ),
        ("0F0,0F1,0B0,0B1\n1F0,1B0", ["rank 1: 1F1: is missing; needed: each micro-batch once"]),
        (
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F1,1B1",
            ["rank 1: 1F0: is missing, nor for micro-batches 2-3; needed: each micro-batch once"],
        ),
        ("0F0,0I0\n1F0,1B0", ["rank 0, position 1: 0I0: has no weight gradient; needed: 0W0 after it"]),
        ("0F0,0W0\n1F0,1B0", ["rank 0, position 1: 0W0: has no input gradient; needed: 0I0 before it"]),
        ("0B0\n1F0,1B0", ["rank 0, position 0: 0B0: has no forward; needed: 0F0 before it"]),
        # Once
        ("0F0,0F0,0B0", ["rank 0, position 1: 0F0: is there twice, first at position 0; allowed: once"]),
        ("0F0,0B0,0I0,0W0", ["rank 0, position 3: 0W0: one backward too many; allowed: 0B0, or 0I0 and 0W0"]),
        ("0F0,0I0,0B0", ["rank 0, position 2: 0B0: one backward too many; allowed: 0B0, or 0I0 and 0W0"]),
        # In order
        ("0B0,0F0", ["rank 0, position 0: 0B0: comes before 0F0; allowed: after it"]),
        ("0I0,0F0,0W0", ["rank 0, position 0: 0I0: comes before 0F0; allowed: after it"]),
        ("0F0,0W0,0I0", ["rank 0, position 1: 0W0: comes before 0I0; allowed: after it"]),
        ("(0F0;0B0)OVERLAP_F_B", ["rank 0, position 0: 0B0: runs together with 0F0; allowed: after it"]),
        # One rank for each stage, numbers without a gap
        ("0F0,1F0\n1B0,0B0", ["rank 1, position 0: 1B0: stage 1 is on rank 0 and on rank 1; allowed: each stage on one rank",
                              "rank 1, position 1: 0B0: stage 0 is on rank 0 and on rank 1; allowed: each stage on one rank"]),
        ("0F0,0B0\n2F0,2B0", ["rank 1, position 0: 2F0: no such stage; allowed: stages from 0 without a gap, 1 is on no rank"]),
        ("0F1,0B1", ["rank 0, position 0: 0F1: no such micro-batch; allowed: numbers from 0 without a gap, 0 is nowhere",
                     "rank 0, position 1: 0B1: no such micro-batch; allowed: numbers from 0 without a gap, 0 is nowhere"]),
        ("999999F999999,0B0", ["rank 0, position 0: 999999F999999: no such stage; allowed: stages from 0 without a gap, 1 is on no rank",
                               "rank 0, position 1: 0B0: has no forward; needed: 0F0 before it"]),
        # Deadlocks
        ("1F0,0F0,0B0,1B0", ["rank 0, position 0: 1F0: deadlock: 1F0 on rank 0 waits for 0F0 on rank 0, which comes after 1F0"]),
        ("0F0,1F0,(0F1;0B0)OVERLAP_F_B,(1F1;1B0)OVERLAP_F_B,1B1,0B1", [
            "rank 0, position 2: (0F1;0B0)OVERLAP_F_B: deadlock: (0F1;0B0)OVERLAP_F_B on rank 0 waits for (1F1;1B0)OVERLAP_F_B on rank 0,"
            " which comes after (0F1;0B0)OVERLAP_F_B"]),
        ("0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1", []),
        ("1F1,0F0,(1F0;0B0)OVERLAP_F_B,0F1,1B0,1B1,0B1", [
            "rank 0, position 0: 1F1: deadlock: 1F1 on rank 0 waits for 0F1 on rank 0, which comes after 1F1"]),
        ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0", [
            "rank 0, position 1: 0B0: deadlock: 0B0 on rank 0 waits for 1B0 on rank 1, which comes after 1F1,"
            " which waits for 0F1 on rank 0, which comes after 0B0"]),
        ("0F1,0F0,0B0,0B1\n2F0,1F1,1F0,1B0,2B0,1B1,2F1,2B1\n3F0,3F1,3B0,3B1", [
            "rank 1, position 0: 2F0: deadlock: 2F0 on rank 1 waits for 1F0 on rank 1, which comes after 2F0"]),
        # The lowest rank of the cycle, not the lowest that stands still
        ("0F0,0B0\n1F0,1B0\n3F0,2F0,2B0,3B0", [
            "rank 2, position 0: 3F0: deadlock: 3F0 on rank 2 waits for 2F0 on rank 2, which comes after 3F0"]),
        ("0F0,0F1,0B1,0B0\n1F0,1B0,1F1,1B1\n2F1,2B1,2F0,2B0", [
            "rank 1, position 1: 1B0: deadlock: 1B0 on rank 1 waits for 2B0 on rank 2, which comes after 2F1,"
            " which waits for 1F1 on rank 1, which comes after 1B0"]),
    ],
)  # fmt: skip
def test_compute(text, expected):
    assert told(text) == expected


FORWARD_BACKWARD = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("0SEND_F0,", "", ["rank 1, position 0: 1RECV_F0: nobody sends it; needed: 0SEND_F0 on rank 0"]),
        ("1RECV_F0,", "", ["rank 0, position 1: 0SEND_F0: nobody receives it; needed: 1RECV_F0 on rank 1",
                           "rank 1, position 0: 1F0: its input does not arrive; needed: 1RECV_F0 before it"]),
        ("1SEND_B0", "1SEND_F0", [
            "rank 0, position 2: 0RECV_B0: nobody sends it; needed: 1SEND_B0 on rank 1",
            "rank 1, position 3: 1SEND_F0: stage 1 has no neighbour on that side; allowed: messages between neighbouring stages"]),
        ("0SEND_F0", "1SEND_B0", ["rank 0, position 1: 1SEND_B0: stage 1 is on rank 1 and on rank 0; allowed: each stage on one rank",
                                  "rank 1, position 0: 1RECV_F0: nobody sends it; needed: 0SEND_F0 on rank 0"]),
        ("0F0,0SEND_F0", "0SEND_F0,0F0", ["rank 0, position 0: 0SEND_F0: comes before 0F0; allowed: after it"]),
        ("1RECV_F0,1F0", "1F0,1RECV_F0", ["rank 1, position 0: 1F0: comes before 1RECV_F0; allowed: after it"]),
        ("1B0,1SEND_B0", "1SEND_B0,1B0", ["rank 1, position 2: 1SEND_B0: comes before 1B0; allowed: after it"]),
        ("1SEND_B0", "1SEND_B0,1SEND_B0", ["rank 1, position 4: 1SEND_B0: is there twice, first at position 3; allowed: once"]),
        ("0SEND_F0", "0SEND_F0,0SEND_F1", ["rank 0, position 2: 0SEND_F1: no such micro-batch; allowed: 0",
                                           "rank 0, position 2: 0SEND_F1: nobody receives it; needed: 1RECV_F1 on rank 1",
                                           "rank 0, position 2: 0SEND_F1: sends what nothing makes; needed: 0F1 before it"]),
        ("0SEND_F0,0RECV_B0", "0RECV_B0,0SEND_F0", [
            "rank 0, position 1: 0RECV_B0: deadlock: 0RECV_B0 on rank 0 waits for 1SEND_B0 on rank 1, which comes after 1RECV_F0,"
            " which waits for 0SEND_F0 on rank 0, which comes after 0RECV_B0"]),
        # State
        ("0F0", "0UNSHARD,0F0", []),
        ("0F0", "0RESHARD,0F0", ["rank 0, position 0: 0RESHARD: stage 0 is not there; allowed: after 0UNSHARD",
                                 "rank 0, position 1: 0F0: the parameters are not there; needed: 0UNSHARD before it",
                                 "rank 0, position 4: 0B0: the parameters are not there; needed: 0UNSHARD before it"]),
        ("0F0", "0UNSHARD,0UNSHARD,0F0", ["rank 0, position 1: 0UNSHARD: stage 0 is there already; allowed: after 0RESHARD"]),
        ("0B0", "0REDUCE_GRAD,0B0", ["rank 0, position 3: 0REDUCE_GRAD: comes before 0B0; allowed: after the last backward of the stage"]),
    ],
)  # fmt: skip
def test_communication(old, new, expected):
    assert told(FORWARD_BACKWARD.replace(old, new, 1)) == expected


def test_messages_on_one_rank():
    assert told("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0") == [
        "rank 0, position 1: 0SEND_F0: stages 0 and 1 are both on rank 0; allowed: messages between ranks",
        "rank 0, position 2: 1RECV_F0: stages 0 and 1 are both on rank 0; allowed: messages between ranks",
    ]


def test_crossed_messages():
    # One forward, one backward with a receive right before its use: both ranks send first.
    text = (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"
    )  # fmt: skip
    assert told(text) == [
        "rank 0, position 3: 0SEND_F1: deadlock: 0SEND_F1 on rank 0 waits for 1RECV_F1 on rank 1, which comes after 1SEND_B0,"
        " which waits for 0RECV_B0 on rank 0, which comes after 0SEND_F1"
    ]
    # Two sends in the other order than their receives
    assert told("0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1") == [
        "rank 0, position 2: 0SEND_F0: deadlock: 0SEND_F0 on rank 0 waits for 1RECV_F0 on rank 1, which comes after 1RECV_F1,"
        " which waits for 0SEND_F1 on rank 0, which comes after 0SEND_F0"
    ]


def test_a_long_cycle_is_told_in_part():
    # Two rounds of stages over the ranks, the second before the first.
    p = 40
    ring = [f"{rank + p}F0,{rank}F0,{rank + p}B0,{rank}B0" for rank in range(p)]
    (fault,) = told("\n".join(ring))
    # Rank 0 waits for the last stage of the first round, each of these ranks for the one before it.
    expected = "deadlock: 40F0 on rank 0 waits for 39F0 on rank 39, which comes after 79F0, which waits for 78F0 on rank 38"
    assert fault.startswith(f"rank 0, position 0: 40F0: {expected}") and "which ... 24 more waits ..., which" in fault
    assert fault.endswith("which waits for 40F0 on rank 0") and fault.count("waits for") == 16


def test_two_copies_of_the_model():
    rows = read("0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1", "x.csv").rows
    assert faults(rows) == faults(Schedule("x", 2, (0, 1, 1, 0), rows, pipes=2)) == []
    as_one = [str(fault) for fault in faults(Schedule("x", 2, (0, 1, 1, 0), rows))]
    assert as_one == [
        "rank 0: 0F1: is missing; needed: each micro-batch once",
        "rank 0: 3F0: is missing; needed: each micro-batch once",
        "rank 1: 1F1: is missing; needed: each micro-batch once",
        "rank 1: 2F0: is missing; needed: each micro-batch once",
    ]
    crossed = Schedule("x", 2, (0, 1, 1, 0), read("0F1,3F0,3B0,0B1\n2F0,1F1,1B1,2B0", "x.csv").rows, pipes=2)
    assert str(faults(crossed)[0]) == "rank 0, position 0: 0F1: no such micro-batch; allowed: 0"


def test_slices_count_as_micro_batches():
    rows = read("0F0,0F1,0B1,0B0", "x.csv").rows
    assert faults(Schedule("x", 1, (0,), rows, slices=2)) == []
    assert [fault.action for fault in faults(Schedule("x", 2, (0,), rows, slices=2))] == ["0F2"]


def test_a_schedule_says_where_its_stages_are():
    rows = read("1F0,1B0\n0F0,0B0", "x.csv").rows
    assert faults(rows) == faults(Schedule("x", 1, (1, 0), rows)) == []
    assert str(faults(Schedule("x", 1, (0, 1), rows))[0]) == (
        "rank 0, position 0: 1F0: stage 1 is on rank 1 and on rank 0; allowed: each stage on one rank"
    )
    assert str(faults(Schedule("x", 1, (1,), rows))[0]) == "rank 0, position 0: 1F0: no such stage; allowed: stages 0 to 0"


def test_nothing_computes():
    assert faults([]) == faults([()]) == []
    assert told("0SEND_F0") == [
        "rank 0, position 0: 0SEND_F0: no such micro-batch; allowed: none, nothing computes",
        "rank 0, position 0: 0SEND_F0: stage 0 has no neighbour on that side; allowed: messages between neighbouring stages",
        "rank 0, position 0: 0SEND_F0: sends what nothing makes; needed: 0F0 before it",
    ]


def test_checked():
    assert checked(read("0F0,0B0", "x.csv")).micro_batches == 1
    with pytest.raises(InputError, match=r"^x\.csv:1, column 3: 0F0: is there twice, first at position 0; allowed: once$"):
        checked(read("0F0,,0F0,0B0", "x.csv"))
    with pytest.raises(InputError, match=r"^x\.csv:2: 1F1: is missing; needed: each micro-batch once$"):
        checked(read("0F0,0F1,0B0,0B1\n1F0,1B0", "x.csv"))


@given(st.integers(0, 10**6))
def test_what_can_run_has_no_fault(seed):
    schedule = random_schedule(seed)
    oracle.check(schedule)
    oracle.run(schedule, {"F": 1, "B": 2, "I": 1, "W": 1})
    assert faults(schedule) == faults(schedule.actions) == []
    for state in (False, True):
        rows = with_communication(schedule, state)
        assert faults(rows) == []
        assert blocking_run(schedule, rows)


def changed(dice, rows):
    """The rows with one thing changed: two of a rank swapped, one moved to another place, dropped, doubled or renumbered."""
    rows = [list(row) for row in rows]
    rank = dice.randrange(len(rows))
    row = rows[rank]
    at, to = dice.randrange(len(row)), dice.randrange(len(row))
    how = dice.choice(("swap", "swap", "move", "drop", "double", "other"))
    if how == "swap":
        row[at], row[to] = row[to], row[at]
    elif how == "move":
        row.insert(to, row.pop(at))
    elif how == "drop":
        del row[at]
    elif how == "double":
        row.insert(to, row[at])
    elif not isinstance(row[at], Overlap):
        row[at] = row[at]._replace(kind=dice.choice("FBIW")) if isinstance(row[at], Action) and dice.random() < 0.5 else row[to]
    return tuple(map(tuple, rows))


def runs(schedule):
    try:
        oracle.check(schedule)
        oracle.run(schedule, {"F": 1, "B": 2, "I": 1, "W": 1})
    except AssertionError:
        return False
    return True


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_a_schedule_has_a_fault_when_it_cannot_run(seed, changes):
    schedule, dice = random_schedule(seed), random.Random(seed)
    rows = schedule.actions
    for _ in range(changes):
        if all(rows):
            rows = changed(dice, rows)
    changed_schedule = Schedule("changed", schedule.micro_batches, schedule.placement, rows)
    found = faults(changed_schedule)
    assert (found == []) == runs(changed_schedule)
    for fault in found:
        at = [] if fault.position is None else [*single([rows[fault.rank][fault.position]]), rows[fault.rank][fault.position]]
        assert fault.position is None or fault.action in map(str, at)
    assert found == faults(changed_schedule)
    faults(rows)  # without the placement: any answer, but an answer


def blocking_run(schedule, rows):
    """Whether the ranks get through when a send and its receive wait for each other, by trying again and again."""
    forward = {"SEND_F": ("RECV_F", 1), "SEND_B": ("RECV_B", -1)}
    head, done = [0] * len(rows), Counter()

    def possible(rank, step):
        for kind, stage, i in single([step]):
            if kind in "FBI":
                before = stage - 1 if kind == "F" else stage + 1
                if kind != "F" and not done["F", stage, i]:
                    return False
                if 0 <= before < schedule.stages:
                    here = schedule.placement[before] == schedule.placement[stage]
                    needed = [("F" if kind == "F" else "B", before, i), ("I", before, i)][: 1 if kind == "F" else 2]
                    if not any(done[one] for one in (needed if here else [("RECV_F" if kind == "F" else "RECV_B", stage, i)])):
                        return False
            elif kind == "W" and not done["I", stage, i]:
                return False
        return True

    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if head[rank] == len(row):
                continue
            step = row[head[rank]]
            if step[0] in forward:
                kind, other = forward[step[0]]
                stage, i = step[1] + other, step[2]
                made = [("F", step[1], i)] if step[0] == "SEND_F" else [("B", step[1], i), ("I", step[1], i)]
                peer = schedule.placement[stage]
                ready = head[peer] < len(rows[peer]) and rows[peer][head[peer]] == Communication(kind, stage, i)
                if not ready or not any(done[one] for one in made):
                    continue
                head[peer] += 1
                done[kind, stage, i] += 1
            elif (isinstance(step, Communication) and step.kind.startswith("RECV")) or not possible(rank, step):
                continue
            head[rank] += 1
            done.update(map(tuple, single([step])))
            moved = True
    return all(at == len(row) for at, row in zip(head, rows, strict=True))


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_messages_in_another_order_have_a_fault_when_they_block(seed, changes):
    schedule, dice = random_schedule(seed), random.Random(seed)
    rows = [list(row) for row in with_communication(schedule)]
    for _ in range(changes):
        row = dice.choice(rows)
        at = dice.randrange(len(row))
        to = max(0, at - dice.randint(1, 3))
        row.insert(to, row.pop(at))
    assert (faults(rows) == []) == blocking_run(schedule, rows)


@given(st.integers(0, 10**6))
def test_broken_communication_is_told(seed):
    schedule, dice = random_schedule(seed), random.Random(seed)
    before = with_communication(schedule)
    rows = changed(dice, before)
    if Counter(step for row in rows for step in row) != Counter(step for row in before for step in row):
        assert faults(rows)
    assert faults(rows) == faults(rows)


def test_positions_leave_idle_steps_out():
    assert faults(read(",0F0,,,0F0,0B0", "x.csv").rows) == [Fault(0, 1, "0F0", "is there twice, first at position 0; allowed: once")]
