"""``clustersim analyze`` on run folders and profiler files; wrong input in one line."""

import json
from pathlib import Path

import pandas as pd
import pytest


@pytest.fixture
def runs(cli, small):
    """Two run folders, ``a`` (mpp) and ``b`` (standard)."""
    assert cli("run", "e.yaml", "-o", "a", "--no-plot").status == 0
    assert cli("run", "e.yaml", "--set", "strategy.name=standard", "-o", "b", "--no-plot").status == 0


def test_the_answer_comes_first(cli, runs):
    result = cli("analyze", "a")
    assert result.status == 0 and not result.err
    first, second = result.out.splitlines()[:2]
    assert " of the step is " in first and first.endswith("is compute.")
    assert second.startswith("Window ") and "of the compute." in second
    for heading in ("where the time goes", "communication", "critical path", "links in use", "rank"):
        assert heading in result.out


def test_json_is_one_document(cli, runs):
    found = json.loads(cli("analyze", "a", "--json").out)
    assert found["window_s"] > 0 and isinstance(found["limits"], str)
    for row in found["ranks"]:
        assert row["compute_s"] + row["exposed_communication_s"] + row["idle_s"] == pytest.approx(found["window_s"])
        assert {"rank", "communication_s", "overlap"} <= set(row)


def test_no_communication_is_none(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = "model: {layers: 4, hidden: 64, heads: 4}\ncluster: ideal\nstrategy: standard\nbatch: {global: 2, micro: 1, sequence: 128}\n"
    (tmp_path / "one.yaml").write_text(job + "cost: {forward: 1 s, backward: 2 s}\n")
    assert cli("run", "one.yaml", "-o", "one", "--no-plot").status == 0
    assert "none" in cli("analyze", "one").out
    assert json.loads(cli("analyze", "one", "--json").out)["ranks"][0]["overlap"] is None


def test_diff(cli, runs):
    assert cli("analyze", "--diff", "a", "b").out.startswith("B is ")
    found = json.loads(cli("analyze", "--diff", "a", "b", "--json").out)
    one, other = found["window_s"]
    assert sum(row["change_s"] for row in found["changes"]) == pytest.approx(other - one)


def test_diff_of_windows(cli, runs):
    """What lies in a window is not equal work: nobody is faster, and unequal lengths are said."""
    same = cli("analyze", "--diff", "a", "b", "--from", "1ns", "--to", "1us")
    assert same.out.startswith("The windows are 999 ns of A and 999 ns of B;") and not same.err
    assert " of the window is " in same.out and " of the step is " not in same.out
    unequal = cli("analyze", "--diff", "a", "b", "--from", "1ns")
    assert unequal.err.startswith("warning: --diff: the windows differ in length: ") and unequal.err.count("\n") == 1
    assert cli("analyze", "--diff", "a", "b", "--from", "0s").out == cli("analyze", "--diff", "a", "b").out


def test_transfers_are_those_of_the_whole_job(cli, tmp_path):
    """Of 4 replicas one is simulated: what it sends counts four times, as in the summary."""
    job = (
        "model: {layers: 4, hidden: 256, heads: 4}\ncluster: dgx-a100\nparallel: {data: 4, tensor: 2}\nstrategy: standard\n"
        "batch: {global: 8, micro: 1, sequence: 128}\n"
    )
    (tmp_path / "job.yaml").write_text(job)
    assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(tmp_path / "run")).status == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["simulated_ranks"] < summary["ranks"] == 8
    rows = json.loads(cli("analyze", str(tmp_path / "run"), "--json").out)["collectives"]
    sent = {row["collective"]: row["bytes"] for row in rows}
    assert sent == {"tensor": summary["communication_bytes"]["tensor"], "reduce": summary["communication_bytes"]["data"]}
    assert sum(row["count"] for row in rows if row["collective"] == "tensor") == 8 * 2 * 4 * 4  # ranks, micro-batches, layers, each 4


def test_files(cli, runs):
    result = cli("analyze", "a", "-o", "out")
    assert "files:" in result.out
    slack, path = pd.read_parquet("out/slack.parquet"), pd.read_parquet("out/critical_path.parquet")
    assert (slack["slack_ps"] >= 0).all() and len(slack) == len(pd.read_parquet("a/ops.parquet"))
    document = json.loads(Path("out/analysis.json").read_text())
    assert document["critical_path"]["pieces"] == len(path)
    assert document["links_over_time"] == pd.read_parquet("out/links_over_time.parquet").to_dict("records")


def test_window_and_step(cli, runs):
    whole = json.loads(cli("analyze", "a", "--json").out)["window_s"]
    part = json.loads(cli("analyze", "a", "--json", "--from", "1 ms", "--to", "3 ms").out)
    assert (part["window_begin_s"], part["window_s"]) == (0.001, 0.002)
    assert json.loads(cli("analyze", "a", "--json", "--step", "0").out)["window_s"] == whole


EVENTS = [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 0, "dur": 10, "args": {"stream": 7, "device": 0}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 9, "ts": 5, "dur": 10,
     "args": {"stream": 9, "device": 0}},
]  # fmt: skip


def test_profiler_files(cli, tmp_path):
    """Compute [0, 10], communication [5, 15] us: overlap 50 %."""
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"distributedInfo": {"rank": 0}, "traceEvents": EVENTS}))
    for given in (path, tmp_path):
        found = json.loads(cli("analyze", str(given), "--json").out)
        [row] = found["ranks"]
        assert (row["overlap"], row["idle_s"], found["slack"]) == (0.5, 0, None)
        assert found["window_s"] == pytest.approx(15e-6)
    assert "all-reduce" in cli("analyze", str(path)).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a run folder or profiler files"),
        (["nowhere"], "nowhere: no such run folder or profiler file"),
        (["empty"], "empty: neither a run folder"),
        (["e.yaml"], "e.yaml"),
        (["a", "b"], "two with --diff A B"),
        (["a", "--diff", "a", "b"], "--diff takes two traces"),
        (["a", "--from", "3"], "--from: 3 has no unit"),
        (["a", "--from", "3 h"], "no time of the trace"),
        (["a", "--to", "0 s"], "no time of the trace"),
        (["a", "--step", "4"], "there is no step 4"),
        (["a", "--step", "-1"], "--step"),
        (["a", "--step", "0", "--to", "1 ms"], "--step: not together"),
        (["a", "--jsn"], "unknown argument '--jsn'"),
        (["a", "--from", "-1s"], "--from: -1s is before the trace begins; allowed: 0 s and later"),
        (["a", "--to", "-1 ms"], "--to: -1 ms is before the trace begins"),
        (["--diff", "a", "b", "--definition", "hta"], "leave --definition hta out"),
    ],
)
def test_wrong_input_is_one_line(cli, runs, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    result = cli("analyze", *arguments)
    assert result.status == 2 and not result.out
    assert message in result.err and len(result.err.splitlines()) == 1


def test_strange_ops_are_said(cli, runs):
    ops = pd.read_parquet("a/ops.parquet")
    first = ops[(ops["rank"] == 0) & (ops["stream"] == "compute")].sort_values("start_ps").index[:2]
    kinds = ops["kind"].astype(str)
    kinds[first[0]] = "froward"
    end = ops["end_ps"].copy()
    end[first[0]] = ops["start_ps"][first[1]] + 1
    ops.assign(kind=kinds, end_ps=end).to_parquet("a/ops.parquet")
    pd.read_parquet("a/dependencies.parquet")[:0].to_parquet("a/dependencies.parquet")
    assert cli("analyze", "a").err.splitlines() == [
        "warning: a: 1 ops of unknown kinds (froward) count as neither compute nor communication",
        "warning: a: 1 ops begin before another of their stream ends: merged where time is counted",
    ]


def test_a_damaged_run_folder(cli, runs):
    ops = pd.read_parquet("a/ops.parquet")
    ops.assign(end_ps=ops["start_ps"] - 1).to_parquet("a/ops.parquet")
    result = cli("analyze", "a")
    assert result.status == 2 and result.err == "clustersim: a: ops: row 0 ends before it starts\n"
    ops.assign(start_ps=ops["start_ps"].astype(str)).to_parquet("a/ops.parquet")
    assert cli("analyze", "a").status == 2
