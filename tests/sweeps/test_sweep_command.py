"""``clustersim sweep`` on the command line, its example script, its results."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import clustersim

ROOT = Path(__file__).parents[2]
OF_GRID = ["batch.global=4", "model.layers=2"]
GRID = ("--vary", "strategy.name=standard,mpp", "--vary", "network.bandwidth=1,100Gb/s", *(f"--set={override}" for override in OF_GRID))


def test_the_files_what_is_printed_and_the_document(small, cli):
    _check_files(cli("sweep", "e.yaml", *GRID, "-o", "out"))
    points = Path("out/points.jsonl").read_bytes()
    result = cli("sweep", "e.yaml", *GRID, "--json", "-o", "out")
    assert Path("out/points.jsonl").read_bytes() == points  # nothing was missing
    assert result.status == 0 and result.err == ""
    document = json.loads(result.out, parse_constant=pytest.fail)
    summary = clustersim.simulate(clustersim.load("e.yaml", [*OF_GRID, "network.bandwidth=1 Gb/s"], "standard")).summary
    first = document["points"][0]
    assert {**summary, "wall_s": first["wall_s"]}.items() <= first.items()
    assert (first["strategy.name"], first["network.bandwidth"], first["status"], first["reason"]) == ("standard", 125_000_000, "ok", None)
    assert len(document["points"]) == 4 and document["units"] == {"strategy.name": "", "network.bandwidth": "B/s"}
    assert [knee["strategy"] for knee in document["knees"]] == ["standard", "mpp"]
    for knee in document["knees"]:
        assert knee.keys() >= {"strategy", "field", "value", "unit", "tolerance"}
        assert (knee["field"], knee["unit"], knee["tolerance"]) == ("network.bandwidth", "B/s", 0.05)
        # The knee itself, simulated: at its two ends the step is beyond and within 5 % of that at infinite bandwidth.
        low, high = (
            clustersim.simulate(clustersim.load("e.yaml", [*OF_GRID, f"network.bandwidth={at} B/s"], knee["strategy"])).summary
            for at in (knee["low_bytes_s"], knee["high_bytes_s"])
        )
        assert high["step_time_s"] <= 1.05 * knee["infinite_step_time_s"] < low["step_time_s"]
        assert knee["high_bytes_s"] <= 1.003 * knee["low_bytes_s"]


def _check_files(result):
    assert result.status == 0 and result.err == ""
    listed = [line.strip() for line in result.out.partition("files:\n")[2].splitlines()]
    assert listed == [f"out/{name}" for name in ("sweep.parquet", "sweep.csv", "knees.json", "curves.png")]
    assert {path.name for path in Path("out").iterdir()} == {Path(name).name for name in listed} | {"points.jsonl"}
    said = r"infinite network.bandwidth: standard needs [\d.]+ Gb/s \([\d.]+ Gb/s is too slow\), mpp needs [\d.]+ Gb/s"
    assert re.search(f"within 5 % of the step time at {said}", result.out)
    parquet, csv = pd.read_parquet("out/sweep.parquet"), pd.read_csv("out/sweep.csv")
    assert list(parquet) == list(csv) and parquet["step_time_s"].tolist() == pytest.approx(csv["step_time_s"].tolist(), rel=1e-12)
    assert {"slowdown", "status", "reason", "version", "seed", "links.network.bytes"} <= set(csv)
    assert json.loads(Path("out/knees.json").read_text())["knees"][0]["strategy"] == "standard"


def test_heat_maps_a_tornado_and_a_metric(small, cli):
    more = ("--vary", "batch.micro=1,2", "--no-knees", "--tornado", "--metric", "links.network.bytes")
    result = cli("sweep", "e.yaml", *GRID, *more, "-o", "out")
    assert result.status == 0
    for name in ("curves.png", "heatmap.png", "tornado.png"):
        assert Path("out", name).read_bytes().startswith(b"\x89PNG")
    assert "needs" not in result.out and "links.network.bytes" in result.out
    assert "network.bandwidth" in result.out.partition("GPU time per token")[2]


def test_the_tornado_against_single_runs(small, cli):
    bars = {bar["field"]: bar for bar in json.loads(cli("sweep", "e.yaml", "--tornado", "--json", "-o", "out").out)["tornado"]}

    def gpu_s(*overrides):
        summary = clustersim.simulate(clustersim.load("e.yaml", overrides)).summary
        return summary["step_time_s"] * summary["ranks"] / (128 * (32 if "batch.global=32" in overrides else 16))

    # pcie-ethernet: 25 Gb/s and 9 us (topologies/pcie-ethernet.yaml)
    network = bars["network.bandwidth"]
    assert network["value"] == 3.125e9 and network["gpu_s_per_token"] == pytest.approx(gpu_s())
    assert network["halved_gpu_s_per_token"] == pytest.approx(gpu_s("network.bandwidth=12.5 Gb/s"))
    assert network["doubled_gpu_s_per_token"] == pytest.approx(gpu_s("network.bandwidth=50 Gb/s"))
    assert bars["network.latency"]["doubled_gpu_s_per_token"] == pytest.approx(gpu_s("network.latency=18 us"))
    assert bars["parallel.data"]["doubled_gpu_s_per_token"] == pytest.approx(gpu_s("parallel.data=4"))
    assert bars["batch.global"]["doubled_gpu_s_per_token"] == pytest.approx(gpu_s("batch.global=32"))
    assert bars["batch.micro"]["halved_gpu_s_per_token"] is None  # one sequence
    sides = ("halved_gpu_s_per_token", "doubled_gpu_s_per_token")
    swings = [max(abs(bar[side] / bar["gpu_s_per_token"] - 1) for side in sides if bar[side]) for bar in bars.values()]
    assert swings == sorted(swings, reverse=True)


def test_points_that_cannot_be_are_counted_by_reason(small, cli):
    out = cli("sweep", "e.yaml", "--vary", "batch.global=4,7", "--vary", "batch.sequence=64,128", "-o", "out").out
    assert re.search(r"^2 infeasible: --vary batch.global=7: batch.global: 7 sequences do not divide", out, flags=re.MULTILINE)


def test_each_warning_is_said_once(small, cli):
    batches = ("--vary", "batch.global=2,4", "--vary", "batch.sequence=64,128", "--metric", "mfu", "-o", "out")
    for _ in range(2):  # the second time from the folder
        result = cli("sweep", "e.yaml", *batches)
        assert result.status == 0 and result.err.count("\n") == 1
        assert result.err.startswith("warning: 1 micro-batch on 2 pipeline stages")
    assert pd.read_csv("out/sweep.csv")["warnings"].notna().tolist() == [True, True, False, False]


def test_many_warnings_are_cut(small, cli):
    job = ("--set", "model.layers=16", "--set", "parallel={pipeline: 16}")
    result = cli("sweep", "e.yaml", *job, "--vary", "batch.global=1..14:lin14", "--metric", "mfu", "-o", "out")
    assert result.err.count("\n") == 11 and result.err.endswith("warning: 4 more like these; all are in sweep.csv\n")


def test_values_side_by_side_have_no_knees(small, cli):
    result = cli("sweep", "e.yaml", "--zip", "--vary", "batch.global=4,8", "--vary", "network.bandwidth=1,100Gb/s", "--json", "-o", "out")
    document = json.loads(result.out)
    assert [(point["batch.global"], point["network.bandwidth"]) for point in document["points"]] == [(4, 1.25e8), (8, 1.25e10)]
    assert document["knees"] == [] and document["points"][0]["slowdown"] > document["points"][1]["slowdown"] >= 1


def test_one_magnitude_in_two_units_and_no_picture_of_an_earlier_sweep(small, cli):
    both = ("--vary", "network.bandwidth=1Gb/s,1000Mb/s,2Gb/s", "--vary", "batch.global=4,8")
    assert cli("sweep", "e.yaml", *both, "--no-knees", "-o", "out").status == 0
    assert Path("out/heatmap.png").exists() and len(Path("out/sweep.csv").read_text().splitlines()) == 1 + 2 * 2
    assert cli("sweep", "e.yaml", "--zip", "--vary", "batch.global=8,8", "--vary", "strategy=lga,mpp", "-o", "out").status == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["knees.json", "points.jsonl", "sweep.csv", "sweep.parquet"]


def test_bandwidth_that_does_not_matter_has_no_knee(small, cli):
    result = cli("sweep", "e.yaml", "--set", "parallel={pipeline: 2}", "--vary", "network.bandwidth=1,2Gb/s", "-o", "out")
    assert "mpp has no knee (it takes no longer at 1,000 B/s: the bandwidth does not matter)" in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--vary", "network.bandwith=1,2Gb/s"), "network.bandwith: unknown key; did you mean 'bandwidth'?"),
        (("--vary", "batch.global=17,19"), "17 sequences do not divide"),
        (("--vary", "precision=bf16,fp9"), "--vary precision=fp9: precision: unknown value 'fp9'; did you mean 'fp8'?"),
        (("--vary", "recompute=full,al", "--vary", "batch.global=17,16"), "--vary recompute=al: recompute: unknown value 'al'"),
        (("--vary", "batch.micro=1,2,2.5"), "--vary batch.micro=2.5: batch.micro: expected a whole number, got 2.5"),
        (("--vary", "model.hidden=64,{"), "--vary model.hidden={: not valid YAML"),
        (("--vary", "cluster=pcie-ethernet,pcie-ethernt"), "--vary cluster=pcie-ethernt: cluster: unknown cluster 'pcie-ethernt'"),
        (("--vary", "cluster.gpu.memory=8GB,-1GB"), "--vary cluster.gpu.memory=-1GB: gpu.memory: must be more than zero"),
        (("--vary", "strategy.name=mpp,lgaa"), "--vary strategy.name: unknown strategy 'lgaa'; did you mean 'lga'?"),
        ((), "--vary: nothing to vary"),
        (("--vary", "batch.global=4", "--tolerance", "0"), "expected a percentage above 0"),
        (("--vary", "batch.global=4", "--jobs", "0"), "expected a whole number from 1"),
        (("--vary", "batch.global=4", "--metric", "mfuu"), "--metric mfuu: unknown figure; did you mean 'mfu'?"),
        (("--vary", "batch.global=4", "-o", "e.yaml"), "-o e.yaml: cannot be written as a folder"),
        (("--vary", "batch.global=4", "-o", ""), "-o: expected a folder"),
    ],
)
def test_wrong_input_is_one_line(small, cli, arguments, said):
    result = cli("sweep", "e.yaml", *arguments, *(() if "-o" in arguments else ("-o", "out")))
    assert not Path("out/sweep.csv").exists()
    slip = "--vary" in arguments and said.startswith("--vary ")
    assert not (slip and Path("out/points.jsonl").exists())  # not a point was simulated
    assert result.status == 2 and said in result.err and result.err.count("\n") == 1 and result.out == ""


def test_the_bar_is_on_a_terminal_only(small):
    command = [sys.executable, "-m", "clustersim", "sweep", "e.yaml", "--vary", "batch.global=4,8", "-o", "out"]
    main, terminal = pty.openpty()
    done = subprocess.run(command, stderr=terminal, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})
    os.close(terminal)
    shown = os.read(main, 1_000_000).decode()
    os.close(main)
    assert done.returncode == 0
    assert "2/2" in shown and "points/s" in shown and "left" in shown


def test_the_example_script(tmp_path):
    script = ROOT / "examples" / "bandwidth.py"
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(\w+) is within 5% of an infinite network from ([\d.]+) Gb/s on", done.stdout))
    assert float(found["lga"]) < float(found["standard"]) / 5


def test_the_committed_results_are_what_the_command_gives():
    folder = ROOT / "results" / "bandwidth"
    kept, knees = pd.read_csv(folder / "sweep.csv"), json.loads((folder / "knees.json").read_text())["knees"]
    knee = {one["strategy"]: one["value"] for one in knees}
    # A part of the command of the README: another point of each of the three would take ten seconds more.
    table = clustersim.sweep("x-160", {"strategy.name": ["mpp"], "network.bandwidth": ["200 Gb/s"]}, ["pcie.bandwidth=1 TB/s"], knees=False)
    row = kept[(kept["strategy.name"] == "mpp") & (kept["network.bandwidth"] == 25e9)].iloc[0]
    for name in ("step_time_s", "slowdown", "tokens_per_s", "overlap", "exposed_communication_s", "peak_memory_bytes"):
        assert table[name][0] == pytest.approx(row[name], rel=1e-12)
    for strategy, rows in kept.groupby("strategy.name"):
        slow = rows[rows["network.bandwidth"] < knee[strategy]]
        assert (slow["slowdown"] > 1.05).all() and (rows.drop(slow.index)["slowdown"] <= 1.05).all()
