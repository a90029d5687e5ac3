"""Schedules as text tables."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.schedule.actions import Action
from clustersim.schedule.table import table
from clustersim.schedule.torch_csv import read

ROWS = read("0F0,(0F1;7B0)OVERLAP_F_B,0B0\n10F10,1RECV_F0", "x.csv").rows


def test_cells_stand_below_each_other():
    assert table(ROWS).splitlines() == [
        "rank 0 |  0F0    (0F1;7B0)OVERLAP_F_B  0B0",
        "rank 1 |  10F10  1RECV_F0",
    ]


def test_marks_show_without_colour_and_move_nothing():
    assert table(ROWS, {(0, 1), (1, 0)}).splitlines() == [
        "rank 0 |  0F0   >(0F1;7B0)OVERLAP_F_B< 0B0",
        "rank 1 | >10F10< 1RECV_F0",
    ]


def test_blocks():
    assert table(ROWS, {(0, 2)}, width=30).splitlines() == [
        "positions 0 to 0",
        "rank 0 |  0F0",
        "rank 1 |  10F10",
        "",
        "positions 1 to 1",
        "rank 0 |  (0F1;7B0)OVERLAP_F_B",
        "rank 1 |  1RECV_F0",
        "",
        "positions 2 to 2",
        "rank 0 | >0B0<",
        "rank 1 |",
    ]


def wide(ranks, actions):
    return [[Action("F", rank, at) for at in range(actions)] for rank in range(ranks)]


def test_the_middle_of_a_long_schedule_is_left_out_and_marks_are_not():
    lines = table(wide(1, 100), {(0, 50)}, width=25).splitlines()
    assert lines[:2] == ["positions 0 to 2", "rank 0 |  0F0  0F1  0F2"]
    assert lines[3:6] == ["... positions 3 to 48 are not shown ...", "", "positions 49 to 50"]
    assert lines[6] == "rank 0 |  0F49 >0F50<"
    assert lines[8] == "... positions 51 to 98 are not shown ..."
    assert lines[10:] == ["positions 99 to 99", "rank 0 |  0F99"]


def test_the_middle_of_many_ranks_is_left_out_and_marks_are_not():
    lines = table(wide(1000, 1), {(500, 0)}).splitlines()
    assert len(lines) == 16 + 1 + 1 + 1 + 16
    assert lines[15:20] == [
        "rank 15  |  15F0",
        "... ranks 16 to 499 are not shown ...",
        "rank 500 | >500F0<",
        "... ranks 501 to 983 are not shown ...",
        "rank 984 |  984F0",
    ]


@given(st.integers(1, 6), st.integers(0, 20), st.integers(1, 200), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 19)), max_size=4))
def test_lines_fit_and_hold_every_action_shown_once(ranks, actions, width, marks):
    rows = wide(ranks, actions)
    marks = {(rank, at) for rank, at in marks if rank < ranks and at < actions}
    text = table(rows, marks, width)
    cells = re.findall(r"\d+F\d+", text)
    assert len(cells) == len(set(cells)) and set(cells) <= {str(action) for row in rows for action in row}
    if "not shown" not in text:
        assert len(cells) == ranks * actions
    assert set(re.findall(r">(\d+F\d+)<", text)) == {str(rows[rank][at]) for rank, at in marks}
    for line in text.splitlines():
        if line.startswith("rank"):
            assert len(line) <= width or len(line.split("|")[1].split()) <= 1


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing(rows):
    assert "F" not in table(rows)
