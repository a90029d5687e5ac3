"""CSV files of torch.distributed.pipelining, both ways."""

import csv
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.schedule import torch_csv
from clustersim.schedule.actions import Action, Overlap, Schedule
from clustersim.schedule.torch_csv import Communication, load, read, with_communication, write

NUMBERS = st.integers(0, torch_csv.MAX_NUMBER)
COMPUTE = st.one_of(
    st.builds(Action, st.sampled_from("FIWB"), NUMBERS, NUMBERS),
    st.builds(Overlap, st.builds(Action, st.just("F"), NUMBERS, NUMBERS), st.builds(Action, st.just("B"), NUMBERS, NUMBERS)),
)
MESSAGES = st.one_of(
    st.builds(Communication, st.sampled_from(("SEND_F", "RECV_F", "SEND_B", "RECV_B")), NUMBERS, NUMBERS),
    st.builds(Communication, st.sampled_from(("UNSHARD", "RESHARD", "REDUCE_GRAD")), NUMBERS, st.none()),
)


def rows_of(step):
    return st.lists(st.lists(step, min_size=1, max_size=9).map(tuple), min_size=1, max_size=5).map(tuple)


def random_schedule(seed, overlaps=True):
    """A schedule that can run: ranks picked at random do something that is possible."""
    dice = random.Random(seed)
    ranks, m = dice.randint(1, 4), dice.randint(1, 5)
    placement = [*range(ranks), *(dice.randrange(ranks) for _ in range(dice.randint(0, 4)))]
    dice.shuffle(placement)
    last = len(placement) - 1
    possible = [("F", 0, i) for i in range(m)]
    rows = [[] for _ in range(ranks)]

    def then(kind, stage, i):
        if kind == "F":
            return [("F", stage + 1, i)] if stage < last else [(dice.choice("BI"), stage, i)]
        before = [(dice.choice("BI"), stage - 1, i)] if stage and kind != "W" else []
        return [*before, *([("W", stage, i)] if kind == "I" else [])]

    while possible:
        action = possible.pop(dice.randrange(len(possible)))
        rank = placement[action[1]]
        pair = [other for other in possible if {other[0], action[0]} == {"F", "B"} and placement[other[1]] == rank]
        if overlaps and pair and dice.random() < 0.5:
            other = dice.choice(pair)
            possible.remove(other)
            rows[rank].append(Overlap(*(Action(*one) for one in sorted((action, other), reverse=True))))
            possible += [*then(*action), *then(*other)]
        else:
            rows[rank].append(Action(*action))
            possible += then(*action)
    return Schedule("random", m, tuple(placement), tuple(map(tuple, rows)))


@given(st.one_of(rows_of(COMPUTE), rows_of(COMPUTE | MESSAGES)))
def test_what_is_written_is_read(rows):
    assert read(write(rows), "x.csv").rows == rows


@given(rows_of(COMPUTE), st.data())
def test_idle_steps_spaces_quotes_and_line_ends_say_nothing(rows, data):
    lines = []
    for row in rows:
        cells = []
        for step in row:
            cells += [""] * data.draw(st.integers(0, 2))
            cells.append(data.draw(st.sampled_from(("{}", " {}", "{} ", '"{}"', ' "{}"', '"{}" ', '" {}"'))).format(step))
        lines.append(",".join(cells) + data.draw(st.sampled_from(("", ",", ", ,"))))
    end = data.draw(st.sampled_from(("\n", "\r\n", "\r")))
    text = data.draw(st.sampled_from(("", "\ufeff"))) + end.join(lines) + data.draw(st.sampled_from(("", end, end * 3, end + ",," + end)))
    assert read(text, "x.csv").rows == rows


@given(rows_of(COMPUTE))
def test_columns_are_those_of_the_file(rows):
    text = "\n".join(",," + ",,".join(map(str, row)) for row in rows)
    cells = list(csv.reader(io.StringIO(text)))
    found = read(text, "x.csv")
    for rank, row in enumerate(rows):
        for position, step in enumerate(row):
            assert cells[rank][found.columns[rank][position] - 1] == str(step)
            assert found.place(rank, position) == f"x.csv:{rank + 1}, column {2 * position + 3}"


@given(st.integers(0, 10**6))
def test_a_schedule_comes_back(seed):
    schedule = random_schedule(seed)
    found = read(write(schedule.actions), "random.csv").schedule()
    assert found == schedule


@given(st.integers(0, 10**6), st.booleans())
def test_with_communication_adds_messages_and_nothing_else(seed, state):
    schedule = random_schedule(seed)
    rows = with_communication(schedule, state)
    assert rows == with_communication(schedule, state)
    assert tuple(tuple(step for step in row if not isinstance(step, Communication)) for row in rows) == schedule.actions
    assert read(write(rows), "random.csv").schedule() == schedule
    expected = []
    for stage, (rank, after) in enumerate(zip(schedule.placement, schedule.placement[1:], strict=False)):
        if rank != after:
            for i in range(schedule.micro_batches):
                expected += [(rank, f"{stage}SEND_F{i}"), (after, f"{stage + 1}RECV_F{i}")]
                expected += [(after, f"{stage + 1}SEND_B{i}"), (rank, f"{stage}RECV_B{i}")]
    messages = [(rank, str(step)) for rank, row in enumerate(rows) for step in row if step[0][:4] in ("SEND", "RECV")]
    assert sorted(messages) == sorted(expected)


def test_with_communication_by_hand():
    # Stages 1 and 2 are neighbours on one rank and exchange nothing.
    schedule = read("0F0,3F0,3B0,0B0\n1F0,2F0,2I0,1I0,2W0,1W0\n", "v.csv").schedule()
    assert write(with_communication(schedule)).splitlines() == [
        "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0",
        "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,1I0,1SEND_B0,2W0,1W0",
    ]


def test_two_copies_of_the_model_exchange_nothing():
    schedule = Schedule("x", 2, (0, 1, 1, 0), read("0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1", "x.csv").rows, pipes=2)
    text = write(with_communication(schedule))
    assert text.splitlines() == [
        "0F0,0SEND_F0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,0B0",
        "2F1,1RECV_F0,2SEND_F1,1F0,1B0,2RECV_B1,1SEND_B0,2B1",
    ]
    assert read(text, "x.csv").schedule() == schedule


def test_state_by_hand():
    # Five stages of one rank, three of them held: the next ones.
    text = ",".join(f"{stage}F0" for stage in range(5)) + "," + ",".join(f"{stage}B0" for stage in reversed(range(5)))
    (row,) = with_communication(read(text, "x.csv").schedule(), state=True)
    assert " ".join(map(str, row)) == (
        "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 1RESHARD 4UNSHARD 2F0 3F0 4F0"
        " 4B0 4REDUCE_GRAD 4RESHARD 1UNSHARD 3B0 3REDUCE_GRAD 3RESHARD 0UNSHARD 2B0 2REDUCE_GRAD"
        " 2RESHARD 1B0 1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD"
    )


def test_gradients_are_reduced_after_what_is_sent():
    rows = with_communication(read("0F0,0I0,0W0\n1F0,1B0", "x.csv").schedule(), state=True)
    assert write(rows).splitlines() == [
        "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD",
        "1RECV_F0,1UNSHARD,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD",
    ]


def test_no_progress():
    schedule = read("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0", "x.csv").schedule()
    with pytest.raises(ValueError, match="no progress at 0B0 on rank 0"):
        with_communication(schedule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.csv: the file is empty; expected a row of actions for each rank, for example 0F0,0B0"),
        ("\ufeff\r\n,,\r\n", "x.csv: the file is empty; expected a row of actions for each rank, for example 0F0,0B0"),
        ("0F0\n\n1F0", "x.csv:2: rank 1 has no actions; allowed: a row of actions for each rank, empty rows only at the end"),
        ("0F0,0UNSHARD0", "x.csv:1, column 2: '0UNSHARD0' has a micro-batch; allowed: 0UNSHARD"),
        ("0F0\n1F0,,1B", "x.csv:2, column 3: '1B' has no micro-batch; allowed: 1B and a number, for example 1B0"),
        ("0SEND_F", "x.csv:1, column 1: '0SEND_F' has no micro-batch; allowed: 0SEND_F and a number, for example 0SEND_F0"),
        ("1000000F0", "x.csv:1, column 1: '1000000F0' has too high a stage; allowed: 0 to 999,999"),
        ("0F" + "9" * 5000, f"x.csv:1, column 1: '0F{'9' * 54}... has too high a micro-batch; allowed: 0 to 999,999"),
        (
            "(0F0;0F1)OVERLAP_F_B",
            "x.csv:1, column 1: '(0F0;0F1)OVERLAP_F_B' is no pair of a forward and a full backward;"
            " allowed: F first, then B, as in (0F4;7B3)OVERLAP_F_B",
        ),
        (
            "(0F0)OVERLAP_F_B",
            "x.csv:1, column 1: '(0F0)OVERLAP_F_B' is no pair; allowed: a forward and a full backward, for example (0F4;7B3)OVERLAP_F_B",
        ),
        ("0F0,,0SEND_F0,0B0", "x.csv:1, column 2: empty cell; allowed: idle steps only in a file without communication"),
        ("0F0,0B0\n0F0,0SEND_F0,,,0B0", "x.csv:2, column 3: empty cell; allowed: idle steps only in a file without communication"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        read(text, "x.csv")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "cell", ["rank", "0f0", "F0", "0F-1", "-1F0", "0F0.0", "0F 0", "0F0B0", "0SEND0", "\u0661F0", "0F\u00b2", "\0", "0F0;0B0", "0F0\t0B0",
             "(", "()", "((0F0;0B0)OVERLAP_F_B;0B0)OVERLAP_F_B", "(0F0;0B0)", "=1+1", "None", "NaN", "'0F0'", '0"F0"'],
)  # fmt: skip
def test_what_is_no_action(cell):
    quoted = f'"{cell.replace(chr(34), chr(34) * 2)}"'
    with pytest.raises(InputError, match=r"^x\.csv:2, column 2: .*; allowed: "):
        read(f"0F0,0B0\n1F0,{quoted}", "x.csv")


@given(st.text(alphabet='01FBIW,;()\n\r" \t\0\ufeffSEND_RCVOLAP', max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        found = read(text, "x.csv")
    except InputError as error:
        assert str(error).startswith("x.csv:") and "\n" not in str(error)
    else:
        assert read(write(found.rows), "x.csv").rows == found.rows


def test_an_open_quote():
    with pytest.raises(InputError, match="quotes closed"):
        read('0F0,"0B0\n1F0,1B0\n', "x.csv")


def test_limits(monkeypatch, tmp_path):
    monkeypatch.setattr(torch_csv, "MAX_CELLS", 4)
    assert read("0F0,0B0\n1F0,1B0", "x.csv").rows
    with pytest.raises(InputError, match=r"^x\.csv:3: too many cells; allowed: at most 4 in a file"):
        read("0F0,0B0\n1F0,1B0\n\n", "x.csv")
    monkeypatch.setattr(torch_csv, "MAX_FILE_BYTES", 10)
    (tmp_path / "x.csv").write_text("0F0,0F1,0F2")
    with pytest.raises(InputError, match="larger than 0 MB"):
        load(tmp_path / "x.csv")


def test_a_cell_without_end():
    with pytest.raises(InputError, match=r"^x\.csv:1: not CSV: "):
        read("0F0," + "0" * 200_000, "x.csv")


@pytest.mark.parametrize("data", [b"\xff\xfe0\0F\x000\0", b"0F0,\xe9", b"PK\x03\x04\x80\x81"])
def test_not_utf_8(data, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.csv: not UTF-8 text \(byte \d+\)"):
        load(path)


def test_no_such_file(tmp_path):
    for name in ("none.csv", ".", "a\0b"):
        with pytest.raises(InputError):
            load(tmp_path / name)


def test_two_copies_are_told_from_one():
    both = read("0F0,3F1,3B1,0B0\n2F1,1F0,1B0,2B1", "x.csv").schedule()
    assert (both.pipes, both.stages, both.micro_batches) == (2, 2, 2)
    one = read("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0", "x.csv").schedule()
    assert (one.pipes, one.stages, one.micro_batches) == (1, 4, 1)


@pytest.mark.parametrize(("text", "message"), [("0F0\n0B0", "stage 0 is on rank 0 and on rank 1"), ("0F0\n2F0", "stage 1 is on no rank")])
def test_rows_that_are_no_schedule(text, message):
    with pytest.raises(ValueError, match=message):
        read(text, "x.csv").schedule()


class TorchStage:
    """What torch asks of a stage before it runs."""

    def __init__(self, schedule):
        self.num_stages, self.group_size, self.group_rank = schedule.stages, schedule.ranks, 0
        self.stage_index, self.is_first, self.is_last, self.has_backward = 0, True, False, True


@pytest.mark.parametrize("seed", range(30))
def test_torch_reads_what_is_written(seed, tmp_path):
    pytest.importorskip("torch")
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    from clustersim.schedule.validator import faults

    schedule = random_schedule(seed, overlaps=False)  # torch's dry run knows no pairs
    path = str(tmp_path / "x.csv")
    for rows, kind in ((schedule.actions, "compute_only"), (with_communication(schedule), "compute_comms")):
        (tmp_path / "x.csv").write_text(write(rows))
        runtime = _PipelineScheduleRuntime([TorchStage(schedule)], schedule.micro_batches)
        runtime._load_csv(path, format=kind)
        if kind == "compute_comms":
            theirs = runtime.pipeline_order_with_comms.values()
            assert [" ".join(map(str, row)) for row in theirs] == [" ".join(map(str, row)) for row in rows]
            runtime._simulate()
        else:  # what torch adds to it passes here
            runtime._dump_csv(path)
            assert faults(load(path).rows) == []
            assert load(path).schedule() == Schedule("x", schedule.micro_batches, schedule.placement, schedule.actions)
