"""``clustersim schedule check`` and ``convert``."""

import json
import os
from pathlib import Path

import pytest

from clustersim.schedule.torch_csv import load
from clustersim.schedule.validator import faults

RIGHT = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
DEADLOCK = "0F0,0B0,0F1,0B1\n1F1,1B1,,1F0,1B0\n"
WAITS = "deadlock: 0B0 on rank 0 waits for 1B0 on rank 1, which comes after 1F1, which waits for 0F1 on rank 0, which comes after 0B0"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("right.csv").write_text(RIGHT)
    Path("deadlock.csv").write_text(DEADLOCK)


def test_check(cli):
    assert cli("schedule", "check", "right.csv") == (
        0,
        "rank 0 |  0F0  0F1  0B0  0B1\nrank 1 |  1F0  1B0  1F1  1B1\n\n"
        "right.csv: right; ranks 2, stages 2, micro-batches 2, compute actions 8\n",
        "",
    )
    result = cli("schedule", "check", "right.csv", "--json")
    assert (result.status, json.loads(result.out), result.err) == (0, {"valid": True, "errors": []}, "")


def test_check_shows_the_fault_in_its_place(cli):
    result = cli("schedule", "check", "deadlock.csv")
    assert result == (
        2,
        f"rank 0 |  0F0 >0B0< 0F1  0B1\nrank 1 |  1F1  1B1  1F0  1B0\n\ndeadlock.csv:1, column 2: 0B0: {WAITS}\n",
        f"clustersim: deadlock.csv: 1 fault at row 1, column 2: 0B0: {WAITS}\n",
    )
    result = cli("schedule", "check", "deadlock.csv", "--json")
    assert result.status == 2 and result.err.count("\n") == 1
    assert json.loads(result.out) == {"valid": False, "errors": [{"rank": 0, "position": 1, "action": "0B0", "message": WAITS}]}


def test_check_counts_columns_in_the_file_and_positions_in_the_order(cli):
    Path("x.csv").write_text("0F0,,,0F0,0B0\n1F0,1B0\n")
    result = cli("schedule", "check", "x.csv")
    assert "x.csv:1, column 4: 0F0: is there twice" in result.out
    (error,) = json.loads(cli("schedule", "check", "x.csv", "--json").out)["errors"]
    assert (error["rank"], error["position"], error["action"]) == (0, 1, "0F0")


def test_check_names_a_missing_action_at_its_row(cli):
    Path("x.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0\n")
    result = cli("schedule", "check", "x.csv")
    assert result.err == "clustersim: x.csv: 1 fault at row 2: 1F1: is missing; needed: each micro-batch once\n"
    assert json.loads(cli("schedule", "check", "x.csv", "--json").out)["errors"][0]["position"] is None


def test_check_lists_many_faults_in_part(cli):
    Path("x.csv").write_text(",".join(f"{stage}F0,{stage}F0,{stage}B0" for stage in range(70)))
    result = cli("schedule", "check", "x.csv")
    assert result.out.count("x.csv:1, column") == 50 and "... and " in result.out
    assert result.err.startswith("clustersim: x.csv: ") and "faults, the first at row 1, column " in result.err


BROKEN = {
    "empty": b"",
    "blank lines": b"\r\n\r\n",
    "a header": b"rank,0,1\n0F0,0B0\n",
    "a NUL": b"0F0,\x000B0\n",
    "not UTF-8": b"0F0,0B0\xff\n",
    "UTF-16": "0F0,0B0\n".encode("utf-16"),
    "semicolons": b"0F0;0B0\n",
    "tabs": b"0F0\t0B0\n",
    "an open quote": b'"0F0,0B0\n1F0,1B0\n',
    "no rank": b"0F0,0B0\n\n1F0,1B0\n",
    "a huge cell": b"0F0," + b"0" * 200_000,
    "a huge number": b"0F" + b"9" * 5000,
    "too many cells": b"," * 1_000_001,
    "idle with messages": b"0F0,,0SEND_F0,0B0\n",
    "no micro-batch": b"0F\n",
    "a pair of one": b"(0F0)OVERLAP_F_B\n",
    "YAML": b"model: gpt3-175b\n",
    "an escape": b"0F0,\x1b[31m0B0\n",
    "a line separator": "0F0,0B\u20280\n".encode(),
    "another direction": "0F0,\u202e0B0\n".encode(),
}


@pytest.mark.parametrize("command", ["check", "convert"])
@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_are_refused_in_one_line(what, command, cli):
    Path("x.csv").write_bytes(BROKEN[what])
    result = cli("schedule", command, "x.csv", *(("-o", "out.csv") if command == "convert" else ()))
    assert result.status == 2 and result.out == ""
    assert result.err.startswith("clustersim: x.csv") and result.err.count("\n") == 1 and len(result.err) < 400
    assert result.err[:-1].isprintable() and any(word in result.err for word in ("allowed:", "expected"))
    assert not os.path.exists("out.csv")


def test_a_file_too_large_is_not_read(cli):
    with open("x.csv", "wb") as file:
        file.truncate(30_000_000)
    assert cli("schedule", "check", "x.csv").err == "clustersim: x.csv: larger than 20 MB; allowed: at most that, and 1,000,000 cells\n"


def test_no_file(cli):
    Path("folder.csv").mkdir()
    for name, problem in (("none.csv", "no such file"), ("folder.csv", "is not a file")):
        for command in (("check", name), ("convert", name, "-o", "out.csv")):
            result = cli("schedule", *command)
            assert (result.status, result.out, result.err) == (2, "", f"clustersim: {name}: {problem}; expected a schedule as CSV\n")


def test_convert_a_named_schedule(cli):
    result = cli("schedule", "convert", "1f1b", "-p", "2", "-m", "3", "-o", "out.csv")
    assert result == (0, "ranks 2, stages 2, micro-batches 3, compute actions 12\nfiles:\n  out.csv\n", "")
    # 1F1B by hand: one warm-up forward on the first rank.
    assert Path("out.csv").read_bytes() == b"0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"
    document = json.loads(cli("schedule", "convert", "1f1b", "-p", "2", "-m", "3", "--communication", "-o", "both.csv", "--json").out)
    assert document == {"files": ["both.csv"], "ranks": 2, "stages": 2, "micro_batches": 3, "communication": True}
    assert sorted(Path().glob("*")) == sorted(map(Path, ("both.csv", "deadlock.csv", "out.csv", "right.csv")))


def test_convert_there_and_back(cli):
    assert cli("schedule", "convert", "right.csv", "--communication", "-o", "with.csv").status == 0
    assert Path("with.csv").read_text() == (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"
    )  # fmt: skip
    assert cli("schedule", "check", "with.csv").status == 0
    assert cli("schedule", "convert", "with.csv", "--communication", "-o", "again.csv").status == 0
    assert Path("again.csv").read_text() == Path("with.csv").read_text()
    assert cli("schedule", "convert", "with.csv", "-o", "with.csv").status == 0
    assert Path("with.csv").read_text() == RIGHT


def test_convert_with_sharding(cli):
    assert cli("schedule", "convert", "right.csv", "--communication", "--sharding", "-o", "out.csv").status == 0
    first = Path("out.csv").read_text().splitlines()[0]
    assert first == "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD"
    assert cli("schedule", "check", "out.csv").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deadlock.csv",), f"deadlock.csv:1, column 2: 0B0: {WAITS}"),
        (("right.csv", "-p", "2"), "-p: has no meaning for a file; leave it out"),
        (("right.csv", "-m", "2"), "-m: has no meaning for a file; leave it out"),
        (("1f1c",), "'1f1c' is no schedule; did you mean '1f1b'?; allowed: a CSV file, standard, lga, mpp"),
        (("1f1b", "-p", "1000", "-m", "1000"), "-p 1000 -m 1000: about 8,000,000 cells; allowed: at most 1,000,000"),
        (("1f1b", "-v", "2"), "1f1b: "),
        (("right.csv", "--sharding"), "--sharding: a file without communication has no UNSHARD, RESHARD and REDUCE_GRAD; allowed: "),
    ],
)
def test_convert_refuses(arguments, message, cli):
    result = cli("schedule", "convert", *arguments, "-o", "out.csv")
    assert result.status == 2 and result.out == "" and result.err.startswith(f"clustersim: {message}") and result.err.count("\n") == 1
    assert not os.path.exists("out.csv")


def test_a_place_that_cannot_be_written(cli):
    Path("folder").mkdir()
    result = cli("schedule", "convert", "right.csv", "-o", "folder")
    assert result.status == 2 and result.err.startswith("clustersim: folder: cannot be written")
    assert list(Path().glob(".*")) == []


def names():
    from clustersim.schedule.strategy import PRESETS

    return list(PRESETS)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("m", [4, 8])
def test_every_schedule_of_the_catalogue_comes_back_without_a_fault(name, m, cli):
    from clustersim.schedule.strategy import build_named

    try:
        schedule = build_named(name, 4, None, m)
    except ValueError:
        assert cli("schedule", "convert", name, "-p", "4", "-m", str(m), "-o", "out.csv").status == 2
        return
    for options in ((), ("--communication",), ("--communication", "--sharding")):
        assert cli("schedule", "convert", name, "-p", "4", "-m", str(m), *options, "-o", "out.csv").status == 0
        read = load("out.csv")
        assert faults(read.rows) == [] and read.communicates == bool(options)
        back = read.schedule()
        assert (back.placement, back.actions, back.pipes) == (schedule.placement, schedule.actions, schedule.pipes)
        assert cli("schedule", "check", "out.csv").status == 0
