"""``clustersim analyze`` on profiler files, in our words and in HolisticTraceAnalysis's."""

import json
import shutil
from pathlib import Path

import pandas as pd
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


RUN = """\
model: {layers: 4, hidden: 64, heads: 4}
cluster: pcie-ethernet
parallel: {data: 2}
strategy: standard
batch: {global: 4, micro: 1, sequence: 128}
"""


def test_the_sentence_names_what_the_trace_has(cli, tmp_path):
    (tmp_path / "job.yaml").write_text(RUN)
    assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(tmp_path / "run")).status == 0
    text = cli("analyze", str(tmp_path / "run")).out
    assert "gradient reduction" in text and "parameter gathering" not in text and "in the pipeline" not in text


def test_several_steps_are_said_to_be_several(cli, tmp_path):
    (tmp_path / "job.yaml").write_text(RUN + "steps: 3\n")
    assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(tmp_path / "run")).status == 0
    assert "Window" in (out := cli("analyze", str(tmp_path / "run")).out) and "the steady state, step 1 of 0 to 2" in out


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("links", "rate_bytes_s", float("nan")),
        ("links", "rate_bytes_s", -1.0),
        ("link_totals", "capacity_bytes_s", 0),
        ("link_totals", "links", -2),
    ],
)
def test_damaged_tables_of_links_are_named(cli, tmp_path, table, column, value):
    (tmp_path / "job.yaml").write_text(RUN)
    assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(tmp_path / "run")).status == 0
    path = tmp_path / "run" / f"{table}.parquet"
    damaged = pd.read_parquet(path)
    damaged[column] = value
    damaged.to_parquet(path)
    done = cli("analyze", str(tmp_path / "run"), "--json")
    assert done.status == 2 and f"{table}.parquet: column {column}: expected numbers of at least " in done.err


def test_sizes_that_no_tensor_has_are_no_sizes(cli, tmp_path):
    folder = folder_of(tmp_path, "full")
    path = next(folder.glob("rank0*"))
    document = json.loads(path.read_text())
    for event in document["traceEvents"]:
        if "nccl" in event.get("name", "") and "args" in event:
            event["args"] |= {"Collective name": "allreduce", "In msg nelems": 10**30, "Out msg nelems": 10**30, "dtype": "Float"}
    path.write_text(json.dumps(document))
    done = cli("analyze", str(folder), "--json")
    assert done.status == 0 and [rank["overlap"] for rank in json.loads(done.out)["ranks"]] == [0.5, 0.2]
