"""``clustersim plan`` on the command line, and ``clustersim.plan``."""

import json
from pathlib import Path

import pytest

import clustersim
from clustersim.cli import main

SMALL = ("x-32", "paper-a100", "--gpus", "2", "--batch", "8", "--micro-batch", "1", "--tokens", "1e9", "--jobs", "1", "--top", "3")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_document_and_the_files(folder, cli):
    result = cli("plan", *SMALL, "--price", "2.5/h", "--gpu-power", "500W", "--pue", "1.5", "--json", "-o", "out")
    assert result.status == 0
    document = json.loads(result.out, parse_constant=pytest.fail)
    best, second = document["plans"][:2]
    assert best["lost_by"] == "the best" and len(document["plans"]) == 3
    assert best["step_time_s"] / best["batch"] <= second["step_time_s"] / second["batch"]
    assert best["step_time_bound_s"] <= best["step_time_s"] and best["fits"]
    # 1e9 tokens are 1e9 / (8 x 512) steps
    hours = 1e9 / (8 * 512) * best["step_time_s"] / 3600
    expected = {
        "days": hours / 24,
        "gpu_hours": best["gpus"] * hours,
        "cost": 2.5 * best["gpus"] * hours,
        "energy_kwh": 0.75 * best["gpus"] * hours,
    }
    assert {name: best[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert document["search"]["simulated"] <= document["search"]["candidates"]
    assert Path("out/pareto.png").read_bytes().startswith(b"\x89PNG")
    again = clustersim.simulate(clustersim.load("out/best.yaml")).summary
    assert again["step_time_s"] == best["step_time_s"]


def test_what_is_printed(folder, cli):
    result = cli("plan", *SMALL[:1], "--cluster", *SMALL[1:], "--strategies", "standard,mpp", "--gpus", "1..2", "-o", "out")
    assert result.status == 0
    assert "the best 3 by time" in result.out and "the best of each strategy" in result.out and "at most so many GPUs" in result.out
    assert result.out.partition("files:\n")[2].split() == ["out/plans.csv", "out/best.yaml", "out/pareto.png"]


def test_python_gives_the_same(folder, cli):
    table = clustersim.plan("x-32", "paper-a100", gpus=2, batch=8, micro_batch=1, tokens=1e9, jobs=1, top=3)
    document = json.loads(cli("plan", *SMALL, "--json", "-o", "out").out)
    assert table["step_time_s"].tolist() == [plan["step_time_s"] for plan in document["plans"]]


def test_at_least_as_fast_as_the_papers_improved_configuration(folder):
    """Lamy-Poirier 2021: data 483, pipeline 5, tensor 16, 5 micro-batches, MPP with LGA, partitioned; here with full recompute too."""
    improved = clustersim.simulate(clustersim.load("x-160")).summary
    table = clustersim.plan(
        "x-160", "paper-a100", batch="critical", cost="peak", tensor=16, pipeline=5, micro_batch=1, strategies="mpp", recompute="full",
        data=483, top=1,
    )  # fmt: skip
    best = table.iloc[0]
    assert best["batch"] <= 2417
    assert best["step_time_s"] / best["batch"] <= improved["step_time_s"] / 2415


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt3-175x", "dgx-a100"], "MODEL: model: unknown model 'gpt3-175x'; did you mean 'gpt3-175b'?"),
        (["gpt3-175b", "dgx-a101"], "CLUSTER: cluster: unknown cluster 'dgx-a101'"),
        (["gpt3-175b"], "CLUSTER: missing"),
        (["gpt3-175b", "dgx-a100", "--cluster", "dgx-h100"], "CLUSTER: given twice"),
        (["gpt3-175b", "dgx-a100", "--gpus", "8", "--batch", "64", "--sequence", "2048"], "fits in memory: the smallest needs"),
        (["gpt3-175b", "dgx-a100", "--gpus", "many"], "--gpus many: expected a number of GPUs"),
        (["x-32", "dgx-a100", "--gpus", "4", "--tensor", "8"], "the degrees given need at least 8 GPUs"),
        (["x-32", "dgx-a100", "--tensor", "3"], "--tensor 3: the model and the cluster do not allow it; allowed: 1, 2, 4, 8"),
        (["x-32", "dgx-a100", "--data", "7", "--batch", "64", "--batch-slack", "0"], "a batch of 64 sequences does not divide"),
        (["x-32", "dgx-a100", "--batch", "few"], "--batch few: expected a number of sequences a step, or critical"),
        (["x-32", "dgx-a100", "--objective", "cost"], "--objective cost: the price of a GPU is missing"),
        (["x-32", "dgx-a100", "--price", "2.5"], "--price 2.5: expected a number with its unit"),
        (["x-32", "dgx-a100", "--limit", "cost=5"], "--price is missing"),
        (["x-32", "dgx-a100", "--limit", "weeks=5"], "--limit weeks=5: unknown 'weeks'"),
        (["x-32", "dgx-a100", "--limit", "memory=500 GB"], "a GPU of dgx-a100 has 85.9 GB"),
        (["x-32", "dgx-a100", "--steps", "5", "--tokens", "5"], "--steps, --tokens: both say"),
        (["x-32", "dgx-a100", "--strategies", "mppp"], "--strategies: unknown 'mppp'; did you mean 'mpp'?"),
        (["x-32", "dgx-a100", "--set", "parallel.tensor=2"], "--set parallel.tensor=2: parallel.tensor is what the planner chooses"),
        (
            ["x-32", "dgx-a100", "--gpus", "2", "--batch", "8", "--micro-batch", "1", "--jobs", "1", "--limit", "days=1e-3"],
            "days at most 0.001",
        ),
    ],
)
def test_bad_input_is_one_line(folder, cli, arguments, said):
    result = cli("plan", *arguments)
    assert result.status == 2 and result.out == ""
    assert said in result.err.splitlines()[-1] and result.err.count("clustersim:") == 1
    assert not list(folder.rglob("*.png")) and not list(folder.rglob("*.csv"))


def test_a_best_plan_at_the_edge_of_the_micro_batches_says_so(capsys, tmp_path):
    def said(micro):
        command = ["plan", "megatron-1.2b", "dgx-a100", "--gpus", "8", "--batch", "64", "--data", "8", "--strategies", "standard", "--micro-batch", micro]
        assert main([*command, "--jobs", "1", "-o", str(tmp_path / micro)]) == 0
        return capsys.readouterr().out

    assert "the largest micro-batch looked at, 2; a larger --micro-batch may be faster still" in said("1,2")
    assert "largest micro-batch" not in said("8")  # 64 sequences on 8 replicas: one micro-batch, there is no larger
