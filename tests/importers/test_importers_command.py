"""``clustersim import`` and ``clustersim topology import``: what is refused, and where, before anything is written or said."""

import pytest

from tests.importers import samples

TRAIN = "torchrun --nnodes 1 --nproc_per_node 8 p.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048"
TRAIN += " --micro-batch-size 1 --global-batch-size 64"
CONFIG = '{"train_batch_size": 64,\n "train_micro_batch_size_per_gpu": 2}'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(CONFIG)
    (tmp_path / "train.sh").write_text(TRAIN)
    (tmp_path / "topo.txt").write_text(samples.hgx_h100())
    return tmp_path


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("ds.json --gpus 8 --model nope", "--model: unknown model 'nope'; allowed: gpt3-175b,"),
        ("ds.json --gpus 8 --model nope.json", "--model: no such model file: 'nope.json'"),
        ("ds.json --gpus 8 --model llama2-7b --cluster dgx-h10", "--cluster: unknown cluster 'dgx-h10'; did you mean 'dgx-h100'?"),
        ("train.sh --cluster box.yaml", "--cluster: no such cluster file: box.yaml"),
        ("train.sh --cluster ds.json", "ds.json:1: train_batch_size: unknown key"),
        (
            "ds.json --gpus 64 --model llama2-7b --tensor 16",
            "ds.json: the experiment that it makes cannot run: parallel.tensor: 16 ranks do not fit in a node of dgx-a100",
        ),
        ("train.sh --model llama2-7b",
         "--model: has no meaning for megatron input; leave it out (the content is taken for megatron; --format"),
        ("train.sh --format megatron --model llama2-7b", "--model: has no meaning for megatron input; leave it out\n"),
        ("ds.json --model llama2-7b --gpus 8 --env A=1",
         "--env: has no meaning for deepspeed input; leave it out (the content is taken for dee"),
    ],
)
def test_an_experiment_that_cannot_run_is_not_written(cli, folder, arguments, message):
    result = cli("import", *arguments.split(), "-o", "job.yaml")
    assert result.status == 2 and not result.out and result.err.count("\n") == 1 and result.err.startswith(f"clustersim: {message}")
    assert not (folder / "job.yaml").exists()


@pytest.mark.parametrize("command", ["import train.sh", "import ds.json --model llama2-7b --gpus 8", "topology import topo.txt"])
def test_a_place_that_cannot_be_written_is_all_that_is_said(cli, folder, command):
    (folder / "there").mkdir()
    result = cli(*command.split(), "-o", "there")
    assert result.status == 2 and not result.out
    assert result.err.startswith("clustersim: there: cannot be written") and result.err.count("\n") == 1


@pytest.mark.parametrize("command", ["import train.sh --cluster ideal", "topology import topo.txt"])
def test_notes_go_beside_the_file(cli, folder, command):
    result = cli(*command.split(), "-o", "out.yaml")
    assert (result.status, result.out) == (0, "files:\n  out.yaml\n") and "note: " in result.err
    assert cli(*command.split()).out == (folder / "out.yaml").read_text()


def test_another_number_of_gpus_a_node_is_said(cli, folder):
    for launcher, said in (("--nnodes 8 --nproc_per_node 4", True), ("--nnodes 4 --nproc_per_node 8", False),
                           ("--nnodes 1 --nproc_per_node 4", False)):
        (folder / "train.sh").write_text(TRAIN.replace("--nnodes 1 --nproc_per_node 8", launcher))
        result = cli("import", "train.sh")
        assert result.status == 0 and ("the launcher has 4 GPUs a node, dgx-a100 8: the job takes 4 nodes of it" in result.err) == said


@pytest.mark.parametrize(
    "text, message",
    [
        (f"// from the wiki\n{CONFIG}", "ds.json:1: not valid JSON: it has no comments; remove this one (//)"),
        (f"\n/* from\nthe wiki */ {CONFIG}", "ds.json:2: not valid JSON: it has no comments; remove this one (/*)"),
        (CONFIG.replace("\n", " // all\n"), "ds.json:1: not valid JSON: it has no comments; remove this one (//)"),
        (CONFIG.replace("\n", "\n\n# one\n"), "ds.json:3: not valid JSON: it has no comments; remove this one (#)"),
        ("{\n// all\n}", "ds.json:2: not valid JSON: it has no comments"),
    ],
)
def test_json_has_no_comments(cli, folder, text, message):
    (folder / "ds.json").write_text(text)
    result = cli("import", "ds.json", "--model", "llama2-7b", "--gpus", "8")
    assert (result.status, result.err) == (2, f"clustersim: {message}\n" if ")" in message else result.err) and message in result.err


def test_a_script_may_begin_with_a_bracket(cli, folder):
    for first in ("[ -z $N ] && N=8", "[[ -z $N ]] && N=8", "{ echo hello; }"):
        (folder / "train.sh").write_text(f"{first}\n{TRAIN}")
        assert cli("import", "train.sh").status == 0
