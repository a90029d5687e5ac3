"""Good input on the command line: what the commands print and leave, and how they help."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim import units
from clustersim.cli import main

ROOT = Path(__file__).parents[1]
COMMANDS = (["run"], ["compare"], ["sweep"], ["gantt"], ["topology", "show"], ["topology", "check"], ["schedule", "show"])
# DESIGN.md, "summary.json"
SUMMARY_KEYS = {
    "step_time_s", "ideal_compute_s", "tokens_per_s", "model_flops_per_gpu_s", "hardware_flops_per_gpu_s", "mfu", "hfu",
    "bubble_of_total", "bubble_of_ideal", "compute_utilization", "overlap", "exposed_communication_s", "idle_s", "wait_s",
    "peak_memory_bytes", "memory_at_peak_bytes", "reserved_memory_bytes", "reserve_bytes", "used_memory_bytes",
    "usable_memory_bytes", "gpu_memory_bytes", "fits", "mfu_causal", "hfu_causal", "communication_bytes", "links", "ranks",
    "simulated_ranks", "symmetry_broken_by", "events",
    "wall_s", "per_rank",
}  # fmt: skip
RUN_FILES = {"ops.parquet", "dependencies.parquet", "links.parquet", "link_totals.parquet", "ranks.parquet", "memory.parquet",
             "summary.json", "manifest.json"}
FIXED = ("--set", "cluster=ideal", "--set", "cost={forward: 1 s, backward: 3 s}", "--set", "parallel={pipeline: 2}")


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def only_json(result):
    """The one document that is all of stdout; NaN and Infinity are no JSON."""
    assert result.status == 0 and result.err == ""
    return json.loads(result.out, parse_constant=refuse_constant)


def test_run_prints_its_summary_as_json(small, cli):
    summary = only_json(cli("run", "e.yaml", "--no-plot", "--json", "-o", "out"))
    assert summary.keys() >= SUMMARY_KEYS
    assert summary["ranks"] == 8 and summary["tokens_per_s"] == pytest.approx(16 * 128 / summary["step_time_s"])
    parts = summary["ideal_compute_s"] + summary["exposed_communication_s"] + summary["idle_s"]
    assert parts == pytest.approx(summary["step_time_s"], rel=1e-12)
    assert json.loads(Path("out/summary.json").read_text()) == summary
    assert {path.name for path in Path("out").iterdir()} == RUN_FILES


def test_run_lists_its_files_and_prints_units(small, cli):
    result = cli("run", "e.yaml", "-o", "out")
    assert result.status == 0 and result.err == ""
    listed = {line.strip() for line in result.out.partition("files:\n")[2].splitlines()}
    assert listed == {f"out/{name}" for name in RUN_FILES | {"gantt.png"}} == {str(path) for path in Path("out").iterdir()}
    assert re.search(r"step time\W+[\d.]+ [mun]?s\b", result.out) and "step of" not in result.out


def test_compare_prints_one_run_for_each_strategy(small, cli):
    document = only_json(cli("compare", "e.yaml", "--strategies", "mpp, standard", "--json", "-o", "out"))
    assert [run["strategy"] for run in document["runs"]] == ["mpp", "standard"]
    assert all(run.keys() >= SUMMARY_KEYS for run in document["runs"])
    assert {path.name for path in Path("out").iterdir()} == {"mpp", "standard", "comparison.png"}


def test_overrides_take_effect(small, cli):
    def step_s(*overrides):
        settings = (part for override in overrides for part in ("--set", override))
        return only_json(cli("run", "e.yaml", "--no-plot", "--json", "-o", "out", *FIXED, *settings))["step_time_s"]

    # 8 layers, p 2, m 16, F + B = 4 s a layer. Modular: (16 x 4 + 1) x 4 s; 1F1B: (16 + 1) x 4 layers x 4 s.
    assert step_s() == 65 * 4
    assert step_s("strategy.name=standard") == 17 * 16
    assert step_s("batch.global=32") == 129 * 4
    assert step_s("cost.forward=2 s") == 65 * 5
    assert step_s("model.layers=4") == 33 * 4
    assert step_s("model.layers=4", "model.layers=8") == 65 * 4
    assert json.loads(Path("out/manifest.json").read_text())["inputs"]["cost"] == {"forward": "1 s", "backward": "3 s"}


def test_half_the_bandwidth_takes_twice_as_long(small, cli):
    # Two nodes of four GPUs that do nothing but reduce, over a network so slow that the rest does not count.
    def step_s(bandwidth):
        settings = ("parallel={data: 8}", "cost={forward: 0 s, backward: 0 s}", f"network={{bandwidth: {bandwidth}, latency: 0 s}}")
        arguments = (part for setting in settings for part in ("--set", setting))
        return only_json(cli("run", "e.yaml", "--no-plot", "--json", "-o", "out", *arguments))["step_time_s"]

    assert step_s("500 kB/s") == pytest.approx(2 * step_s("1 MB/s"), rel=1e-3)


def test_the_default_folder_is_named_after_the_experiment(small, cli):
    small.rename("megatron-1.2b.yaml")
    assert cli("run", "megatron-1.2b.yaml", "--no-plot").status == 0
    assert cli("compare", "./megatron-1.2b.yaml", "--strategies", "mpp").status == 0
    assert {path.name for path in Path("runs").iterdir()} == {"megatron-1.2b", "megatron-1.2b-compare"}


def test_a_second_run_replaces_the_first(small, cli):
    for global_batch in (16, 32):
        assert cli("run", "e.yaml", "--no-plot", "-o", "out", "--set", f"batch.global={global_batch}").status == 0
    assert json.loads(Path("out/manifest.json").read_text())["inputs"]["batch"]["global"] == 32
    assert {path.name for path in Path("out").iterdir()} == RUN_FILES


def test_schedule_show(cli):
    document = only_json(cli("schedule", "show", "standard", "-p", "2", "-m", "3", "--json"))
    # 1F1B by hand: one warm-up forward on the first rank.
    assert document["ranks"] == [["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]
    assert (document["p"], document["v"], document["m"], document["placement"]) == (2, 1, 3, [0, 1])
    text = cli("schedule", "show", "standard", "-p", "2", "-m", "3").out
    assert text.startswith("standard: p 2, v 1, m 3 (arXiv 2006.09503") and "rank 0 |  0F0  0F1  0B0  0F2  0B1  0B2" in text


def test_tables_into_a_pipe_are_not_wrapped(cli):
    text = cli("schedule", "show", "mpp", "-p", "2", "-v", "4", "-m", "64").out
    assert len(text.splitlines()) == 7  # four lines of facts, a blank, one line for each rank


def test_topology_show_and_check(cli):
    document = only_json(cli("topology", "show", "dgx-a100", "--nodes", "2", "--json"))
    assert (document["nodes"], document["gpus_per_node"], document["gpus"]) == (2, 8, 16)
    assert only_json(cli("topology", "check", "dgx-h100", "--json"))["valid"] is True
    assert "dgx-h100: right" in cli("topology", "check", "dgx-h100").out


def test_gantt(small, cli):
    assert cli("run", "e.yaml", "--no-plot", "-o", "out").status == 0
    assert only_json(cli("gantt", "out", "-o", "x.svg", "--json")) == {"files": ["x.svg"]}
    assert Path("x.svg").read_text().startswith("<?xml")


def test_help_names_every_command(cli):
    text = cli("--help").out
    assert all(command[0] in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_example_of_the_help_runs(command, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = cli(*command, "--help").out
    example = shlex.split(re.search(r"example: clustersim (.*)", " ".join(text.split()))[1])
    assert example[: len(command)] == command
    if command == ["gantt"]:  # of a run that was made before
        assert cli("run", "pipeline-shapes", "--no-plot").status == 0
    result = cli(*example)
    assert result.status == 0 and result.out and "Traceback" not in result.err


def test_version(cli):
    assert re.fullmatch(r"clustersim \d+\.\d+\.\d+\n", cli("--version").out)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["rn"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    script = f"""
import sys
from clustersim.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
heavy = {{"numpy", "pandas", "networkx", "matplotlib", "simpy", "pyarrow", "rich"}} & sys.modules.keys()
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_main_takes_its_arguments_from_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clustersim", "schedule", "show", "mpp", "--json"])
    assert main() == 0 and json.loads(capsys.readouterr().out)["name"] == "mpp"


def test_a_chart_shows_the_memory_that_the_summary_counts(small, cli):
    summary = only_json(cli("run", "e.yaml", "--json", "--no-plot", "-o", "out"))
    assert cli("gantt", "out", "-o", "a.svg").status == 0
    peak, gpu = (units.size_text(summary[key]) for key in ("peak_memory_bytes", "gpu_memory_bytes"))
    assert re.search(rf"memory of rank \d+: peak {re.escape(peak)} at [\d.]+ \w+, of {re.escape(gpu)}", Path("a.svg").read_text())
    Path("out/summary.json").unlink()
    assert cli("gantt", "out", "-o", "b.svg").status == 0
    assert gpu not in Path("b.svg").read_text()
