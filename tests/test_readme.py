"""Every command of the README, and its Python example, do what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.experiment import KEYS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_block_has_the_two_set_up_lines():
    first = blocks("sh")[0].strip().splitlines()
    assert len(first) == 2
    assert "clustersim compare gpt3-175b --strategies standard,lga,mpp" in first[0] and "pip install" in first[0]
    assert first[1].endswith("-m pytest") and ".[test]" in first[1]


def test_continuous_integration_runs_the_second_line():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extract = re.search(r"command=\$\((.*)\)\n", script)[1]
    found = subprocess.run(["bash", "-c", extract], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert found == blocks("sh")[0].strip().splitlines()[1]


def test_the_main_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = blocks("sh")[0].splitlines()[0].rpartition(".venv/bin/clustersim ")[2]
    assert main([*shlex.split(command), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    times = {run["strategy"]: run["step_time_s"] for run in runs}
    assert list(times) == ["standard", "lga", "mpp"]
    assert times["mpp"] < times["standard"] < times["lga"]
    assert (tmp_path / "results/gpt3-175b/comparison.png").stat().st_size > 10_000


def test_the_commands_of_the_use_section_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = blocks("sh")[1].strip().splitlines()
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "clustersim"
        assert main(words[1:]) == 0, line
        assert capsys.readouterr().out.strip()
    assert {"ops.parquet", "summary.json", "gantt.png"} <= {path.name for path in (tmp_path / "runs/gpt3").iterdir()}
    assert (tmp_path / "step.svg").is_file()


def test_the_python_example(tmp_path):
    done = subprocess.run([sys.executable, "-c", blocks("python")[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.match(r"\d+\.\d+ kind\n", done.stdout)
    assert (tmp_path / "gpt3.png").is_file()


def test_the_example_experiment(tmp_path, capsys):
    path = tmp_path / "example.yaml"
    path.write_text(blocks("yaml")[0], encoding="utf-8")
    assert main(["run", str(path), "--no-plot", "--json", "-o", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 1024


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_explained(key):
    assert re.search(rf"`{key}\b", README) or key == "steps"


def test_the_pictures_are_there():
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", README):
        assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")


def test_every_shipped_experiment_loads():
    for path in sorted((ROOT / "schedules").glob("*.yaml")):
        from clustersim.experiment import load

        assert load(path).grid.ranks >= 1
        assert f"`{path.stem}`" in README


@pytest.mark.parametrize(("name", "strategies"), [("pipeline-shapes", "standard,lga,mpp"), ("x-32-ethernet", "standard,lga")])
def test_the_committed_results_are_what_the_command_gives(name, strategies, tmp_path, capsys):
    assert main(["compare", name, "--strategies", strategies, "-o", str(tmp_path), "--json"]) == 0
    for run in json.loads(capsys.readouterr().out)["runs"]:
        kept = json.loads((ROOT / "results" / name / run.pop("strategy") / "summary.json").read_text(encoding="utf-8"))
        for timed in ("wall_s", "events"):
            del run[timed], kept[timed]
        assert run == kept
