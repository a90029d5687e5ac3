"""``clustersim collective`` and the importing commands."""

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.cluster.load import load_cluster
from clustersim.collectives.loads import alone_ps, fastest_algorithm

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
    to_the_end = rows(capsys, "--cluster", star, "--size", "1KB..4GB", "--algorithm", "ring")
    assert [row["size_bytes"] for row in to_the_end] == [1000 * 2**k for k in range(22)] + [4 * 10**9]
    exact = rows(capsys, "--cluster", star, "--size", "0.5KB,1e3B,1.5KiB..2KiB", "--algorithm", "ring")
    assert [row["size_bytes"] for row in exact] == [500, 1000, 1536, 2048]


def test_halving_the_bandwidth_doubles_the_time(tmp_path, star, capsys):
    slow = tmp_path / "slow.yaml"
    slow.write_text(SWITCH.replace("50 GB/s", "25 GB/s"), encoding="utf-8")
    both = [rows(capsys, "--cluster", str(path), "--size", "1GB", "--algorithm", "ring")[0]["time_s"] for path in (star, slow)]
    assert both[1] == pytest.approx(2 * both[0], rel=1e-12)


def test_the_table_and_the_picture(star, tmp_path, capsys):
    picture = tmp_path / "curve.png"
    assert main(["collective", "--cluster", star, "--size", "1MB", "-o", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "busbw (GB/s)" in printed and "auto takes it" in printed and str(picture) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_choice_of_auto_and_what_is_not_in_the_library(capsys):
    sizes = "1KB,1MB,1GB"
    found = rows(capsys, "--cluster", "dgx-h100", "--size", sizes)
    assert {row["algorithm"]: row["in_library"] for row in found} == {
        "multi-ring": True, "ring": False, "tree": True, "halving-doubling": False, "direct": False, "in-switch": True,
    }  # fmt: skip
    machine = load_cluster("dgx-h100", gpus=8, nodes=None, overrides={}, near=Path(), place="test")
    chosen = [(row["size_bytes"], row["algorithm"]) for row in found if row["auto"]]
    assert chosen == [(size, fastest_algorithm(machine, range(8), "all_reduce", size)) for size in (10**3, 10**6, 10**9)]
    by_name = rows(capsys, "--cluster", "dgx-h100", "--size", sizes, "--algorithm", "auto")
    assert by_name == [row for row in found if row["auto"]]
    exchange = rows(capsys, "--cluster", "dgx-h100", "--op", "all-to-all", "--size", "1MB")  # its library has no algorithm for it
    assert [(row["algorithm"], row["auto"], row["in_library"]) for row in exchange] == [("direct", True, True)]
    assert main(["collective", "--cluster", "dgx-h100", "--size", "1MB"]) == 0
    lines = {line.split("│")[2].strip(): line for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert [name for name, line in lines.items() if "auto takes it" in line] == ["tree"]
    assert lines["direct"].split("│")[-2].strip() == "no" and lines["multi-ring"].split("│")[-2].strip() == "yes"


def test_rows_are_the_times_of_the_collectives_alone(capsys):
    machine = load_cluster("dgx-h100", gpus=16, nodes=None, overrides={}, near=Path(), place="test")
    for op in ("all-reduce", "broadcast"):
        for row in rows(capsys, "--cluster", "dgx-h100", "--op", op, "--size", "1KB,3MB,1GB", "--ranks", "0-15"):
            alone = alone_ps(machine, range(16), op.replace("-", "_"), row["algorithm"], row["size_bytes"])
            assert row["time_s"] == alone / 1e12


def test_large_groups_leave_direct_out_with_a_note(capsys):
    assert main(["collective", "--cluster", "dgx-a100", "--size", "1MB", "--ranks", "0-1023", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)["rows"]
    assert [row["algorithm"] for row in found] == ["multi-ring", "ring", "tree", "halving-doubling", "hierarchical"]
    assert [row["algorithm"] for row in found if row["auto"]] == ["tree"]
    assert "direct is left out above 256 ranks" in err and err.count("\n") == 1


def test_without_a_library_the_choice_of_a_large_group_is_not_told(tmp_path, capsys):
    many = tmp_path / "many.yaml"
    many.write_text(SWITCH.replace("gpus: 8", "gpus: 258"), encoding="utf-8")
    found = rows(capsys, "--cluster", str(many), "--size", "1MB", "--ranks", "0-256")
    assert {row["auto"] for row in found} == {None} and {row["in_library"] for row in found} == {True}


@pytest.mark.parametrize(("cluster", "ranks"), [("dgx-a100", "3"), ("ideal", "0-3")])
def test_a_table_where_there_is_nothing_to_draw(cluster, ranks, tmp_path, capsys):
    picture = tmp_path / "curve.png"
    assert main(["collective", "--cluster", cluster, "--size", "1MB", "--ranks", ranks, "-o", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "multi-ring" in out and "none" in out and not picture.exists()
    assert f"{picture} is not drawn" in err and "nothing to draw" in err and err.count("\n") == 1


def test_the_picture(tmp_path, capsys):
    drawing = tmp_path / "curve.svg"
    assert main(["collective", "--cluster", "dgx-h100", "--size", "1KB..1GB", "-o", str(drawing)]) == 0
    assert capsys.readouterr().out.endswith(f"{drawing}\n")
    text = drawing.read_text(encoding="utf-8")
    for words in ("<!-- 1 KB -->", "<!-- 100 -->", "<!-- multi-ring -->", "(not in the library)", "8 GPUs of dgx-h100"):
        assert words in text
    assert "kB" not in text


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
        (["--ranks", "0-2", "--algorithm", "halving-doubling"], "for these 3 ranks; allowed: auto, multi-ring, ring, tree, direct"),
        (["--algorithm", "foo"], "--algorithm foo: unknown algorithm; allowed: auto, multi-ring"),
        (["--algorithm", "atuo"], "did you mean 'auto'"),
        (["--algorithm", "ring,ring"], "given twice"),
        (["--algorithm", ""], "unknown algorithm"),
        (["--op", "send", "--ranks", "0,1", "--algorithm", "ring"], "a send has no algorithm"),
        (["--ranks", "7-0"], "the range 7-0 is reversed; write the smaller rank first: 0-7"),
        (["--ranks", "\uff10-\uff13"], "expected rank numbers"),
        (["--ranks", "0-1_0"], "expected rank numbers"),
        (["--ranks", "+1,2"], "expected rank numbers"),
        (["--ranks", "0-1000000"], "more than 1,000,000 ranks"),
        (["--ranks", "0-100000"], "100,001 ranks; allowed: at most 100,000"),
        (["--ranks", "0-1024", "--algorithm", "direct"], "1,049,600 messages between 1,025 ranks; allowed: at most 1,024"),
        (["--ranks", "0-1024", "--op", "all-to-all"], "allowed: at most 1,024 ranks"),
        (["--size", "1.5B"], "not a whole number of bytes"),
        (["--size", "1.0005KB"], "not a whole number of bytes"),
        (["--size", ",".join(["1B..1000PB"] * 5)], "at most that many"),
        (["-o", "curve.gif"], "unknown picture format"),
        (["--op", "alltoall"], "did you mean 'all-to-all'"),
        (["--op", "send", "--ranks", "0-2"], "two ranks"),
        (["--ranks", "0-99"], "do not fit"),
    ],
)
def test_what_is_wrong_is_named(star, capsys, arguments, words):
    presets = {"0-99": "explicit-example", "0-1024": "dgx-a100"}
    cluster = next((presets[text] for text in arguments if text in presets), star)
    assert main(["collective", "--cluster", cluster, *arguments]) == 2
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
