"""``clustersim collective`` and the importing commands."""

import json

import pytest

from clustersim.cli import main

SWITCH = """\
name: star
gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}
node:
  gpus: 8
  nvlink: {layout: switch, bandwidth: 50 GB/s, latency: 0 us}
  pcie: {bandwidth: 16 GB/s, latency: 1 us}
"""


@pytest.fixture
def star(tmp_path):
    path = tmp_path / "star.yaml"
    path.write_text(SWITCH, encoding="utf-8")
    return str(path)


def rows(capsys, *arguments):
    assert main(["collective", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_the_worked_example(star, capsys):
    found = {row["algorithm"]: row for row in rows(capsys, "--cluster", star, "--op", "all-reduce", "--size", "1GB")}
    ring = found["ring"]
    assert ring["op"] == "all-reduce" and ring["size_bytes"] == 10**9
    assert ring["time_s"] == pytest.approx(0.035, abs=1e-12)
    assert ring["algbw_bytes_s"] == pytest.approx(28.571e9, rel=1e-4)
    assert ring["busbw_bytes_s"] == pytest.approx(50e9)
    assert set(found) == {"ring", "multi-ring", "tree", "halving-doubling", "direct"}
    gather = rows(capsys, "--cluster", star, "--op", "all-gather", "--size", "1GB", "--algorithm", "ring")
    assert gather[0]["time_s"] == pytest.approx(0.0175, abs=1e-12)


def test_sizes_ranks_and_one_member(star, capsys):
    found = rows(capsys, "--cluster", star, "--size", "1B,1KB..4KB", "--ranks", "0-3", "--algorithm", "ring")
    assert [row["size_bytes"] for row in found] == [1, 1000, 2000, 4000]
    assert found[3]["time_s"] == pytest.approx(2 * 3 / 4 * 4000 / 50e9, abs=2e-12)
    alone = rows(capsys, "--cluster", star, "--ranks", "5", "--size", "1MB", "--algorithm", "ring")
    assert alone == [{**alone[0], "time_s": 0.0, "algbw_bytes_s": None, "busbw_bytes_s": None}]


def test_halving_the_bandwidth_doubles_the_time(tmp_path, star, capsys):
    slow = tmp_path / "slow.yaml"
    slow.write_text(SWITCH.replace("50 GB/s", "25 GB/s"), encoding="utf-8")
    both = [rows(capsys, "--cluster", str(path), "--size", "1GB", "--algorithm", "ring")[0]["time_s"] for path in (star, slow)]
    assert both[1] == pytest.approx(2 * both[0], rel=1e-12)


def test_the_table_and_the_picture(star, tmp_path, capsys):
    picture = tmp_path / "curve.png"
    assert main(["collective", "--cluster", star, "--size", "1MB", "-o", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "busbw (GB/s)" in printed and "fastest" in printed and str(picture) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "0B"], "at least 1 byte"),
        (["--size=-1MB"], "at least 1 byte"),
        (["--size", "5"], "no unit"),
        (["--size", "2MB..1MB"], "smaller first"),
        (["--ranks", "1,2,1"], "rank 1 is given twice"),
        (["--ranks", "0-x"], "expected rank numbers"),
        (["--ranks", "0-3", "--algorithm", "rings"], "did you mean 'ring'"),
        (["--ranks", "0-2", "--algorithm", "halving-doubling"], "allowed: ring, multi-ring, tree, direct"),
        (["--op", "alltoall"], "did you mean 'all-to-all'"),
        (["--op", "send", "--ranks", "0-2"], "two ranks"),
        (["--ranks", "0-99"], "do not fit"),
    ],
)
def test_what_is_wrong_is_named(star, capsys, arguments, words):
    nodes = ["--cluster", star] if "0-99" not in arguments else ["--cluster", "explicit-example"]
    assert main(["collective", *nodes, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


def test_import_of_a_job_and_of_a_topology(tmp_path, capsys):
    config = tmp_path / "ds.json"
    config.write_text('{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}')
    made = tmp_path / "job.yaml"
    assert main(["import", str(config), "--model", "llama2-7b", "--gpus", "8", "--cluster", "dgx-a100", "-o", str(made)]) == 0
    assert str(made) in capsys.readouterr().out
    assert main(["run", str(made), "--no-plot", "--json", "-o", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 8
    assert main(["import", str(config), "--gpus", "8"]) == 2
    assert "--model" in capsys.readouterr().err
    box = tmp_path / "topo.txt"
    box.write_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\nGPU1\tNV12\t X \t0-15\n")
    file = tmp_path / "box.yaml"
    assert main(["topology", "import", str(box), "--gpu", "A100-SXM4-80GB", "-o", str(file)]) == 0
    capsys.readouterr()
    assert main(["topology", "check", str(file)]) == 0
    assert "2 GPUs a node" in capsys.readouterr().out
    assert main(["topology", "import", str(box), "--format", "nccl", "--nics", "a"]) == 2
    assert "--nics" in capsys.readouterr().err
