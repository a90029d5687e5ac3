"""SIGINT and SIGKILL while files are written, of a run and of a report."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

AT_WRITING = {
    "run": ("run e.yaml --no-plot -o out", "pandas.DataFrame", "to_parquet"),
    "report": ("report done -o out/report.html", "pathlib.Path", "write_text"),
}
SCRIPT = """
import importlib, os, signal, sys
module, name, method, number, *arguments = sys.argv[1:]
owner = getattr(importlib.import_module(module), name)
true, calls = getattr(owner, method), []

def stopped(self, *given, **more):
    calls.append(self)
    if len(calls) == 3 or method == "write_text":
        if method == "write_text":
            true(self, given[0][:1000], **more)
        os.kill(os.getpid(), int(number))
    return true(self, *given, **more)

setattr(owner, method, stopped)
from clustersim.cli import main
sys.exit(main(arguments))
"""


@pytest.fixture
def done(small, cli):
    assert cli("run", "e.yaml", "--no-plot", "-o", "done").status == 0


def stopped(command, number):
    """The command in a process that sends itself the signal when its third table, or a part of its page, is being written."""
    arguments, owner, method = AT_WRITING[command]
    script = [sys.executable, "-c", SCRIPT, *owner.split("."), method, str(int(number)), *arguments.split()]
    return subprocess.run(script, capture_output=True, text=True, timeout=120)


def shown(folder):
    return [name for name in os.listdir(folder) if not name.startswith(".")]


@pytest.mark.parametrize("command", AT_WRITING)
def test_an_interrupt_leaves_one_line_and_nothing_else(done, command):
    result = stopped(command, signal.SIGINT)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "clustersim: interrupted\n")
    assert os.listdir("out") == []


@pytest.mark.parametrize("command", AT_WRITING)
def test_after_a_kill_nothing_is_there_by_its_name_and_the_command_makes_it(done, cli, command):
    assert stopped(command, signal.SIGKILL).returncode == -signal.SIGKILL
    assert shown("out") == []
    if command == "run":
        refused = cli("analyze", "out")
        assert refused.status == 2 and refused.err.startswith("clustersim: out/") and refused.err.count("\n") == 1
    assert cli(*AT_WRITING[command][0].split()).status == 0
    if command == "run":
        assert sorted(shown("out")) == sorted(os.listdir("done"))
        pd.testing.assert_frame_equal(pd.read_parquet("out/ops.parquet"), pd.read_parquet("done/ops.parquet"))
        assert cli("analyze", "out").status == 0
    else:
        assert Path("out/report.html").read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_earlier_run_stays_as_it_was(done, number):
    os.rename("done", "out")
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    stopped("run", number)
    assert {path: path.read_bytes() for path in Path("out").iterdir() if not path.name.startswith(".")} == before
    assert json.loads(Path("out/summary.json").read_text())["step_time_s"] > 0


def test_what_a_killed_export_left_is_no_trace(done, cli):
    """Hidden, half of a rank, in a folder of ranks."""
    for kind, name in (("kineto", "k"), ("chrome", "k2/step.json.gz")):
        assert cli("convert", "done", "--to", kind, "-o", name).status == 0
    for folder, file in (("k", "rank0.json.gz"), ("k2", "step.json.gz")):
        before = cli("analyze", folder, "--json")
        assert before.status == 0
        half = Path(folder, f".{file.split('.')[0]}.4711.json.gz")
        half.write_bytes(Path(folder, file).read_bytes()[:200])
        assert cli("analyze", folder, "--json") == before
