"""``clustersim calibrate``: measured steps and layers, the file it writes, what it refuses."""

import json
import re
import shlex

import pytest

from clustersim import document
from clustersim.compute.calibration import read_calibration
from clustersim.errors import InputError
from clustersim.experiment import load, parse
from clustersim.fitting.rows import read_rows
from clustersim.fitting.times import middle_layer_s
from clustersim.simulation import simulate

BASE = """\
model: {layers: 3, hidden: 1024, heads: 16, vocab: 1000}
cluster: dgx-a100
software: megatron-2022
strategy: standard
batch: {global: 4, micro: 4, sequence: 512}
precision: fp16
"""
TRUTH = """\
gpu: A100-SXM4-80GB
software: megatron-2022
like: A100-SXM4-80GB/megatron-2022
source: by hand
matmul_efficiency: 0.4
memory_efficiency: 0.55
launch: 0 us
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE, encoding="utf-8")
    (tmp_path / "truth.yaml").write_text(TRUTH, encoding="utf-8")
    return tmp_path


def true_time(quantity="step", *overrides):
    """What the experiment takes under the figures that the fit is to find."""
    experiment = load("./base.yaml", ["software=", "cost=truth.yaml", *overrides])
    return simulate(experiment).summary["step_time_s"] if quantity == "step" else middle_layer_s(experiment)[quantity]


def measured_csv(path):
    """Steps of two tensor degrees, one with an empty field, and both ways of a layer."""
    lines = [
        "case,quantity,measured_ms,parallel.tensor,recompute,source",
        f"one GPU,,{1e3 * true_time()!r},,,by hand",
        f"two,step,{1e3 * true_time('step', 'parallel.tensor=2')!r},2,,by hand",
        f"layer,layer_forward,{1e3 * true_time('layer_forward', 'recompute=full')!r},1,full,",
        f"layer,layer_backward,{1e3 * true_time('layer_backward', 'recompute=full')!r},1,full,",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_steps_and_layers_give_the_figures_back(here, cli):
    measured_csv(here / "m.csv")
    (here / "start.yaml").write_text(BASE.replace("software: megatron-2022\n", ""), encoding="utf-8")
    done = cli(
        "calibrate", "m.csv", "--experiment", "./start.yaml", "--software", "megatron-2022",
        "--fit", "matmul_efficiency,memory_efficiency,launch", "-o", "own.yaml", "--json",
    )  # fmt: skip
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert (found["gpu"], found["software"], found["files"]) == ("A100-SXM4-80GB", "megatron-2022", ["own.yaml"])
    assert found["fitted"]["matmul_efficiency"] == pytest.approx(0.4, rel=5e-3)
    assert found["fitted"]["memory_efficiency"] == pytest.approx(0.55, rel=5e-3)
    assert [row["case"] for row in found["rows"]] == ["one GPU", "two", "layer, layer_forward", "layer, layer_backward"]
    assert found["mape"] < 1e-3 and all(abs(row["predicted_s"] / row["measured_s"] - 1 - row["error"]) < 1e-12 for row in found["rows"])


@pytest.mark.parametrize("like", [(), ("--like", "A100-SXM4-80GB/torch-2024")])
def test_cost_takes_the_file_and_gives_its_times(here, cli, like):
    """With --like the file holds what was fitted alone."""
    measured_csv(here / "m.csv")
    arguments = ["calibrate", "m.csv", "--experiment", "./base.yaml", "--fit", "memory_efficiency", *like, "-o", "own.yaml"]
    found = json.loads(cli(*arguments, "--json").out)
    text = (here / "own.yaml").read_text(encoding="utf-8")
    assert ("like:" in text) == bool(like) and ("matmul_efficiency: 0" in text) != bool(like)
    assert "\n# fitted: memory_efficiency; predicted / measured - 1 in the mean" in text and 'source: "by hand"' in text
    assert read_calibration(document.load(here / "own.yaml")).memory_efficiency == found["fitted"]["memory_efficiency"]
    step_s = simulate(load("./base.yaml", ["software=", "cost=own.yaml"])).summary["step_time_s"]
    assert step_s == pytest.approx(found["rows"][0]["predicted_s"], rel=1e-4)


def test_the_table(here, cli):
    (here / "m.csv").write_text("moved_bytes,kind,time_us\n1e9,pass,1000\n", encoding="utf-8")
    done = cli("calibrate", "m.csv", "--gpu", "A100-SXM4-80GB", "--fit", "memory_efficiency")
    assert done.status == 0 and "mean 0.0" in done.out and "memory_efficiency: 0.4" in done.out and "pass 1e+09 x 1" in done.out


def test_an_interrupted_fit_writes_nothing(here, cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("clustersim.commands.calibrate.fit", interrupted)
    measured_csv(here / "m.csv")
    before = sorted(path.name for path in here.iterdir())
    assert cli("calibrate", "m.csv", "--experiment", "./base.yaml", "-o", "own.yaml").status == 130
    assert sorted(path.name for path in here.iterdir()) == before


EIGHT_BITS = "rows,columns,inner,precision,time_us\n4096,4096,4096,fp8,600\n"
KERNEL = "rows,columns,inner,time_us\n4096,4096,4096,600\n"
LAYER = "quantity,batch.micro,model.layers,measured_s\n"
BASED = ("--experiment", "./base.yaml")
STEP = "model,cluster,strategy,batch.global,batch.sequence,measured_s\n"
GPT = '"{layers: 3, hidden: 512, heads: 8}"'


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (KERNEL, (), "m.csv: does not say on which GPU the kernels were measured; give --gpu"),
        (KERNEL, ("--gpu", "A101"), "--gpu: unknown GPU 'A101'"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "--software", "megatron-2022"), "no calibration of H100-SXM5-80GB under 'megatron-2022'"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "--like", "A100"), "--like: expected GPU/SOFTWARE"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "--like", "A100/x"), "--like: no calibration of A100 under 'x'"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "--experiment", "./base.yaml"), "--experiment: m.csv has measured kernels"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "--fit", "ramp,overhead"), "--fit: 2 figures cannot be fitted to 1 row"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "-o", "own.txt"), "-o own.txt: a calibration is a YAML file"),
        (KERNEL, ("--gpu", "H100-SXM5-80GB", "-o", "base.yaml/own.yaml"), "base.yaml: cannot be written as a folder"),
        (EIGHT_BITS, ("--gpu", "A100-SXM4-80GB"), "m.csv:2: precision: A100-SXM4-80GB has no peak for fp8; allowed: fp32, tf32"),
        ("rows,columns,inner\n1,1,1\n", (), "m.csv:1: expected one column of times, got none; allowed: time_us of kernels"),
        ("model,measured_s,measured_ms\nx,1,1\n", (), "m.csv:1: expected one column of times, got measured_s, measured_ms"),
        ("modle,measured_s\nx,1\n", (), "m.csv:1: unknown column 'modle'; did you mean 'model'?"),
        ("model,measured_s\nx,1\n", (), "m.csv:2: model=x: model: unknown model 'x'"),
        (STEP + f"{GPT},dgx-a100,standard,0,128,1\n", (), "m.csv:2: batch.global=0: batch.global: expected a whole number"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,0\n", (), "m.csv:2: measured_s: expected a number from 1e-09"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,1e-310\n", (), "m.csv:2: measured_s: expected a number from 1e-09"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,\n", (), "m.csv:2: measured_s: expected a number from 1e-09"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,1\n", ("--gpu", "H100-SXM5-80GB"), "m.csv:2: is of A100-SXM4-80GB under megatron-2024"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,1\n{GPT},dgx-h100,standard,1,128,1\n", (), "m.csv:3: is of H100-SXM5-80GB"),
        (STEP + f"{GPT},dgx-a100,standard,1,128,1\n", ("--software", "torch-2030"), "--software: unknown software 'torch-2030'"),
        ("software,measured_s\ntorch-2030,1\n", BASED, "m.csv:2: unknown software 'torch-2030'"),
        ("cost,measured_s\npeak,1\n", BASED, "m.csv:2: cost=peak: cost: is what is fitted; allowed: to leave it out"),
        ("quantity,measured_s\nlayer,1\n", BASED, "m.csv:2: quantity: unknown value 'layer'; did you mean"),
        (LAYER + "layer_forward,2,,1\n", BASED, "m.csv:2: base.yaml:5: batch.global: 2 micro-batches; allowed"),
        (LAYER + "layer_forward,,2,1\n", BASED, "m.csv:2: base.yaml:1: model: 2 layers; allowed"),
        ("measured_s\n1\n", ("--experiment", "nowhere"), "--experiment: unknown experiment 'nowhere'"),
    ],
)
def test_what_is_refused(here, cli, text, arguments, said):
    (here / "m.csv").write_text(text, encoding="utf-8")
    done = cli("calibrate", "m.csv", *arguments)
    assert done.status == 2 and done.out == "" and done.err.count("\n") == 1
    assert done.err.startswith(f"clustersim: {said}")


def test_no_such_file(here, cli):
    assert cli("calibrate", "none.csv").err == "clustersim: none.csv: no such file\n"


def test_layers_of_several_stages_cannot_be_timed(here):
    experiment = parse(document.loads(BASE.replace("standard", "standard\nparallel: {pipeline: 3}"), "e.yaml"), here)
    with pytest.raises(InputError, match=r"parallel.pipeline: 3 stages; allowed for the time of one layer: 1"):
        middle_layer_s(experiment)


def test_rows_of_one_experiment_share_it(here):
    (here / "m.csv").write_text("recompute,measured_s\nfull,1\nnone,2\nfull,3\n", encoding="utf-8")
    measurements = read_rows(here / "m.csv", None, None, "./base.yaml")
    assert [row.subject.experiment for row in measurements.rows] == [0, 1, 0] and len(measurements.experiments) == 2


def test_the_example_of_the_help_runs(here, cli):
    text = cli("calibrate", "--help").out
    example = shlex.split(re.search(r"example: clustersim (.*)", " ".join(text.split()))[1])
    done = cli(*example)
    assert done.status == 0, done.err
    assert read_calibration(document.load(here / "h100.yaml")).gpu.name == "H100-SXM5-80GB"
