"""``clustersim plan`` on the command line, and ``clustersim.plan``."""

import json
import re
from pathlib import Path

import pytest
import yaml

import clustersim
from clustersim.cli import main
from clustersim.planner.answer import answer_to, write
from clustersim.planner.question import read_question

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
    assert best["step_time_s"] / best["batch"]["global"] <= second["step_time_s"] / second["batch"]["global"]
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
    assert result.status == 0 and "cost" not in result.out
    assert "the best 3 by time" in result.out and "the best of each strategy" in result.out and "at most so many GPUs" in result.out
    assert result.out.partition("files:\n")[2].split() == ["out/plans.csv", "out/best.yaml", "out/pareto.png"]


def test_with_a_price_every_plan_has_its_cost(folder, cli):
    result = cli("plan", *SMALL, "--price", "2.5/h", "--top", "1")
    heads, row = (re.split(r"[┃│|]", line) for line in result.out.splitlines() if re.search(r"GPU hours|mpp|standard", line))
    made = {head.strip(): cell.strip().replace(",", "") for head, cell in zip(heads, row, strict=True)}
    assert float(made["cost"]) == pytest.approx(2.5 * float(made["GPU hours"]), rel=1e-3, abs=0.5)


def test_the_choices_of_a_row_are_those_of_an_experiment_file(folder, cli):
    mixture = "{layers: 2, hidden: 256, heads: 4, experts: 4, top_k: 2, vocab: 500}"
    result = cli("plan", "x-32", *SMALL[1:], "--set", f"model={mixture}", "--sequence", "256", "--tensor", "2", "--json")
    row = json.loads(result.out)["plans"][0]
    pasted = {"model": yaml.safe_load(mixture), "cluster": "paper-a100"}
    pasted |= {key: row[key] for key in ("parallel", "strategy", "batch", "recompute")}
    Path("pasted.yaml").write_text(yaml.safe_dump(pasted), encoding="utf-8")
    again = json.loads(cli("run", "pasted.yaml", "--no-plot", "--json", "-o", "again").out)
    assert again["step_time_s"] == row["step_time_s"] and again["ranks"] == row["gpus"] == 2
    assert row["batch"] == {"global": 8, "micro": 1, "sequence": 256} and row["micro_batches"] == 8
    assert row["parallel"]["tensor"] == 2 and row["parallel"]["sequence_parallel"] is True


def test_without_a_folder_nothing_is_written(folder, cli):
    result = cli("plan", *SMALL)
    assert result.status == 0 and "files:" not in result.out and list(folder.iterdir()) == []


def test_an_interrupt_leaves_no_half_of_the_files(folder):
    asked = read_question("x-32", "paper-a100", gpus=1, batch=2, tokens=1e6, strategies="standard", recompute="none")
    answer = answer_to(asked, jobs=1)
    out = folder / "out"

    def interrupted(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(answer, out, interrupted)
    assert list(out.iterdir()) == []
    write(answer, out, lambda path: path.write_bytes(b"whole"))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(before) == {"plans.csv", "best.yaml", "pareto.png"}
    with pytest.raises(KeyboardInterrupt):
        write(answer, out, interrupted)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


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
    assert best["batch.global"] <= 2417
    assert best["step_time_s"] / best["batch.global"] <= improved["step_time_s"] / 2415


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt3-175x", "dgx-a100"], "MODEL: model: unknown model 'gpt3-175x'; did you mean 'gpt3-175b'?"),
        (["gpt3-175b", "dgx-a101"], "CLUSTER: cluster: unknown cluster 'dgx-a101'"),
        (["gpt3-175b"], "CLUSTER: missing"),
        (["gpt3-175b", "dgx-a100", "--cluster", "dgx-h100"], "CLUSTER: given twice"),
        (["gpt3-175b", "dgx-a100", "--gpus", "8", "--batch", "64", "--sequence", "2048"], "fits in memory: the smallest needs 352.5 GB"),
        (["gpt3-175b", "dgx-a100", "--gpus", "many"], "--gpus many: expected a number of GPUs"),
        (["x-32", "dgx-a100", "--gpus", "0"], "--gpus 0: expected a number of GPUs up to 200,000"),
        (["x-32", "dgx-a100", "--gpus=-4"], "--gpus -4: expected a number of GPUs up to 200,000"),
        (["x-32", "dgx-a100", "--gpus", "4..2"], "--gpus 4..2: the range is reversed; allowed: the smaller number first, 2..4"),
        (["x-32", "dgx-a100", "--tensor", "4..2"], "--tensor 4..2: the range is reversed; allowed: the smaller number first, 2..4"),
        (["x-32", "dgx-a100", "--sequence", "512", "--context", "3"], "--context 3: does not divide a sequence of 512 tokens; allowed"),
        (["x-32", "dgx-a100", "--limit", "days=3", "--limit", "days=5"], "--limit days=5: days is limited twice, before as days=3"),
        (["x-32", "dgx-a100", "--limit", "days=-3"], "--limit days=-3: expected a number above 0"),
        (["x-32", "dgx-a100", "--limit", "gpu-hours=0"], "--limit gpu-hours=0: expected a number above 0"),
        (["x-32", "dgx-a100", "--limit", "memory=-5GB"], "allowed: above 0 and at most that"),
        (["x-32", "dgx-a100", "--price", "inf/h"], "--price inf/h: expected a number above 0 with its unit"),
        (["x-32", "dgx-a100", "--price=-2/h"], "--price -2/h: expected a number above 0 with its unit"),
        (["x-32", "dgx-a100", "--gpu-power", "0W"], "--gpu-power 0W: expected a number above 0 with its unit"),
        (
            ["x-32", "dgx-a100", "--gpus", "12", "--data", "5", "--pipeline", "2", "--tensor", "1", "--batch", "10"],
            "no stage of a pipeline fills nodes of 8 GPUs, or divides one",
        ),
        (
            ["mixtral-8x7b", "dgx-a100", "--gpus", "4", "--data", "3", "--expert", "2", "--tensor", "1", "--pipeline", "1", "--batch", "3"],
            "expert groups of 2 do not divide the data ranks",
        ),
        (["x-32", "dgx-a100", "--gpus", "8..8", "--data", "4", "--tensor", "1", "--pipeline", "1"], "nothing takes 8 GPUs or more"),
        (
            ["x-32", "dgx-a100", "--gpus", "2", "--strategies", "interleaved-1f1b", "--pipeline", "2", "--chunks", "5", "--batch", "8"],
            "no strategy of interleaved-1f1b can have 5 chunks with 32 layers on 2 stages",
        ),
        (["x-32", "dgx-a100", "--gpus", "4", "--tensor", "8"], "the degrees given need at least 8 GPUs"),
        (["x-32", "dgx-a100", "--tensor", "3"], "--tensor 3: the model and the cluster do not allow it; allowed: 1, 2, 4, 8"),
        (["x-32", "dgx-a100", "--data", "7", "--batch", "64", "--batch-slack", "0"], "a batch of 64 sequences does not divide"),
        (["x-32", "dgx-a100", "--batch", "few"], "--batch few: expected a number of sequences a step, or critical"),
        (["x-32", "dgx-a100", "--objective", "cost"], "--objective cost: the price of a GPU is missing"),
        (["x-32", "dgx-a100", "--price", "2.5"], "--price 2.5: expected a number above 0 with its unit"),
        (["x-32", "dgx-a100", "--limit", "cost=5"], "--price is missing"),
        (["x-32", "dgx-a100", "--limit", "weeks=5"], "--limit weeks=5: unknown 'weeks'"),
        (["x-32", "dgx-a100", "--limit", "memory=500 GB"], "a job can use 84.99 GB"),
        (["x-32", "dgx-a100", "--steps", "5", "--tokens", "5"], "--steps, --tokens: both say"),
        (["x-32", "dgx-a100", "--strategies", "mppp"], "--strategies: unknown 'mppp'; did you mean 'mpp'?"),
        (["x-32", "dgx-a100", "--set", "parallel.tensor=2"], "--set parallel.tensor=2: parallel.tensor is what the planner chooses"),
        (
            ["x-32", "dgx-a100", "--gpus", "2", "--batch", "8", "--micro-batch", "1", "--jobs", "1", "--limit", "days=1e-3"],
            "days at most 0.001",
        ),
        (
            ["x-32", "dgx-a100", "--gpus", "2", "--batch", "8", "--micro-batch", "1", "--jobs", "1", "--limit", "gpu-hours=1e-3"],
            "gpu-hours at most 0.001, but no candidate is below",
        ),
    ],
)
def test_bad_input_is_one_line(folder, cli, arguments, said):
    result = cli("plan", *arguments)
    assert result.status == 2 and result.out == ""
    assert said in result.err.splitlines()[-1] and result.err.count("clustersim:") == 1
    assert not list(folder.rglob("*.png")) and not list(folder.rglob("*.csv"))


@pytest.mark.parametrize(
    ("model", "gpus", "needed", "helps"),
    [
        # 70 billion parameters of 16 bytes on 8 GPUs are 138 GB each; without the optimizer's 12 bytes 34.5 GB
        ("llama2-70b", "8", r"needs 1(39|4\d)\.?\d* GB", r"--offload optimizer, with which one needs 3[5-9]\.?\d* GB"),
        # 8 billion on one: 128 GB; without the optimizer's 32 GB
        ("llama3-8b", "1", r"needs 1(29|3\d)\.?\d* GB", r"--offload optimizer, with which one needs [34]\d\.?\d* GB"),
        # 175 billion on 8: 349 GB, and without the optimizer's 87 GB, more than the 85 GB there are
        ("gpt3-175b", "8", r"needs 35\d\.?\d* GB", r"has 84.99 GB for a job; allowed: more GPUs; GPUs with so much$"),
    ],
)
def test_where_nothing_fits_the_error_says_what_would(folder, cli, model, gpus, needed, helps):
    result = cli("plan", model, "dgx-a100", "--gpus", gpus, "--batch", "8", "--sequence", "2048", "--jobs", "1")
    assert result.status == 2
    assert re.search(needed, result.err) and re.search(helps, result.err.strip()), result.err


def test_what_the_error_says_would_help_does(folder, cli):
    """70 billion parameters on 8 GPUs of 85 GB do not fit, and do with the optimizer's state on the host."""
    command = ("plan", "llama2-70b", "dgx-a100", "--gpus", "8", "--batch", "8", "--sequence", "2048", "--jobs", "1", "--top", "1")
    narrow = ("--strategies", "standard", "--tensor", "8", "--recompute", "full", "--micro-batch", "1")
    assert cli(*command, *narrow).status == 2
    best = json.loads(cli(*command, *narrow, "--offload", "optimizer", "--json").out)["plans"][0]
    assert best["strategy"]["offload"] == "optimizer" and best["fits"]


def test_a_best_plan_at_the_edge_of_the_micro_batches_says_so(capsys, tmp_path):
    def said(micro):
        command = ["plan", "megatron-1.2b", "dgx-a100", "--gpus", "8", "--batch", "64", "--data", "8", "--strategies", "standard"]
        assert main([*command, "--micro-batch", micro, "--jobs", "1"]) == 0
        return capsys.readouterr().out

    assert "the largest micro-batch looked at, 2; a larger --micro-batch may be faster still" in said("1,2")
    assert "largest micro-batch" not in said("8")  # 64 sequences on 8 replicas: one micro-batch, there is no larger
