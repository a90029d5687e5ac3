"""A disk that is full: each command ends in one line, and what was there before is there afterwards, whole, and nothing else."""

import errno
import os
import resource
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.importers import samples

KERNELS = "rows,columns,inner,batch,precision,time_us\n" + "".join(f"{n},{n},{n},1,bf16,{n / 100}\n" for n in (1024, 2048, 4096))
COMMANDS = {
    "run": "run e.yaml -o out",
    "compare": "compare e.yaml --strategies standard,mpp -o out",
    "sweep": "sweep e.yaml --vary batch.global=4,8 --jobs 1 --no-knees -o out",
    "report": "report done -o out/report.html",
    "gantt": "gantt done -o out/gantt.svg",
    "analyze": "analyze done -o out",
    "convert to a file": "convert done --to chrome -o out/step.json.gz",
    "convert to a folder": "convert done --to csv -o out/csv",
    "convert to parquet": "convert done --to parquet -o out/parquet",
    "validate": "validate --source korthikanti-2022-layer -o out",
    "plan": "plan megatron-1.7b dgx-a100 --gpus 8 --batch 8 --strategies standard --micro-batch 1 --jobs 1 -o out",
    "calibrate": "calibrate k.csv --gpu A100-SXM4-80GB -o out/c.yaml",
    "topology import": "topology import topo.txt -o out/t.yaml",
    "topology show": "topology show pcie-ethernet -o out/t.png",
    "collective": "collective --cluster pcie-ethernet --size 1MB -o out/c.png",
    "import": "import job.sh --gpus 1024 -o out/job.yaml",
    "schedule show": "schedule show 1f1b -o out/s.svg",
    "schedule compare": "schedule compare -p 2 -m 4 --schedules 1f1b -o out/s.svg",
    "schedule convert": "schedule convert 1f1b -o out/s.csv",
}


@contextmanager
def no_file_longer_than(size):
    """The system refuses what lies behind ``size`` bytes of any file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def contents(folder="."):
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.fixture
def inputs(small, cli):
    Path("k.csv").write_text(KERNELS)
    Path("topo.txt").write_text(samples.dgx_1())
    Path("job.sh").write_text(samples.SCRIPT_175B)
    assert cli("run", "e.yaml", "--no-plot", "-o", "done").status == 0


def assert_said(result, code):
    assert (result.status, result.out) == (2, "")
    lines = [line for line in result.err.splitlines() if line.startswith("clustersim: ")]
    assert result.err.splitlines()[-1:] == lines and f"cannot be written: {os.strerror(code)}" in lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_left_of_what_does_not_fit(inputs, cli, command):
    before = contents()
    with no_file_longer_than(0):
        result = cli(*COMMANDS[command].split())
    assert_said(result, errno.EFBIG)
    assert {name: data for name, data in contents().items() if data} == before
    assert not [name for name in contents() if name not in before and name != "out/points.jsonl"]


OTHERS = {
    "run": ["--no-plot", "--set", "strategy.name=standard"],
    "sweep": ["--set", "strategy.name=standard"],
    "analyze": ["--from", "1 ms"],
    "validate": ["--source", "nccl"],
}


@pytest.mark.parametrize("command", OTHERS)
def test_what_belongs_together_is_replaced_together(inputs, cli, command):
    """The first files fit, a later one does not: the earlier result stays, not a mixture of both."""
    arguments = [*COMMANDS[command].split(), *(["--no-plot"] if command == "run" else [])]
    assert cli(*arguments).status == 0
    before = {name: data for name, data in contents("out").items() if name != "out/curves.png"}
    smallest, largest = min(map(len, before.values())), max(map(len, before.values()))
    with no_file_longer_than((smallest + largest) // 2):
        result = cli(*arguments, *OTHERS[command])
    assert_said(result, errno.EFBIG)
    after = {name: data for name, data in contents("out").items() if name != "out/curves.png"}
    kept = after.pop("out/points.jsonl", b""), before.pop("out/points.jsonl", b"")
    assert after == before and kept[0].startswith(kept[1])
    assert cli(*arguments, *OTHERS[command]).status == 0
    assert {name: data for name, data in contents("out").items() if name in before} != before


def mounted(folder, pages):
    command = ["mount", "-t", "tmpfs", "-o", f"size={pages * resource.getpagesize()}", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("pages", [1, 2, 4, 8, 1000])
def test_a_small_disk_holds_all_of_a_run_or_nothing(small, cli, pages):
    os.mkdir("disk")
    if not mounted("disk", pages):
        pytest.skip("needs leave to mount a file system")
    try:
        result = cli("run", "e.yaml", "--no-plot", "-o", "disk/out")
        if pages == 1000:
            assert result.status == 0 and len(contents("disk")) == 8
        else:
            assert_said(result, errno.ENOSPC)
            assert contents("disk") == {}
    finally:
        subprocess.run(["umount", "disk"], check=True)


@pytest.mark.parametrize("command", ["schedule convert", "topology import", "import"])
@pytest.mark.parametrize("place", ["pipe", "link"])
def test_a_device_or_pipe_is_no_place_for_a_file(inputs, cli, command, place):
    """And stays what it is: a file that is renamed to its name would take its place."""
    os.mkfifo("pipe")
    os.symlink("/dev/full", "link")
    result = cli(*COMMANDS[command].split()[:-1], place)
    assert (result.status, result.out) == (2, "") and f"{place}: cannot be written: a device or pipe, not a file" in result.err
    assert Path("pipe").is_fifo() and os.readlink("link") == "/dev/full"
