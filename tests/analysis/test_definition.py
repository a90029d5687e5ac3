"""``clustersim analyze`` on profiler files, in our words and in HolisticTraceAnalysis's."""

import json
import shutil
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[1] / "data" / "kineto"


def folder_of(tmp_path, name):
    found = next(path for path in TRACES.rglob(name) if path.is_dir())
    return shutil.copytree(found, tmp_path / name)


def test_the_synthetic_trace_in_both_definitions(cli, tmp_path):
    folder = folder_of(tmp_path, "full")
    ours = json.loads(cli("analyze", str(folder), "--json").out)
    assert [rank["overlap"] for rank in ours["ranks"]] == [0.5, 0.2]
    for rank in ours["ranks"]:
        parts = rank["compute_s"] + rank["exposed_communication_s"] + rank["idle_s"]
        assert parts == pytest.approx(ours["window_s"], abs=1e-12)
    theirs = json.loads(cli("analyze", str(folder), "--definition", "hta", "--json").out)
    assert theirs["definition"] == "hta"
    assert [rank["comp_comm_overlap_pctg"] for rank in theirs["ranks"]] == [50, 20]
    assert theirs["ranks"][0]["idle_time(us)"] / theirs["ranks"][0]["kernel_time(us)"] == pytest.approx(0.2)


def test_other_json_in_the_folder_is_left_out_with_a_note(cli, tmp_path):
    folder = folder_of(tmp_path, "full")
    (folder / "notes.json").write_text('{"a": 1}')
    done = cli("analyze", str(folder), "--json")
    assert done.status == 0 and len(json.loads(done.out)["ranks"]) == 2
    assert 'notes.json: not a PyTorch profiler trace: "traceEvents" is missing; left out' in done.err
    assert cli("analyze", str(folder / "notes.json")).status == 2
    for path in folder.glob("rank*"):
        path.unlink()
    assert cli("analyze", str(folder)).status == 2


@pytest.mark.parametrize("more", [("--step", "1"), ("--from", "1s"), ("-o", "x")])
def test_the_other_definition_has_its_own_window(cli, tmp_path, more):
    done = cli("analyze", str(folder_of(tmp_path, "full")), "--definition", "hta", *more)
    assert done.status == 2 and "--definition hta: has a window of its own" in done.err and done.err.count("\n") == 1
