"""The three five-line examples of CONTRIBUTING do what they say; the scripts of ``examples/`` run."""

import json
import re
import subprocess
import sys

import pytest

from clustersim.cli import main
from clustersim.cluster import gpus
from clustersim.compute import calibration
from clustersim.schedule.actions import Schedule, most_in_flight
from clustersim.schedule.validator import faults
from clustersim.schedule_run import Times, run_alone
from tests.docs.pages import ROOT, blocks

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def test_the_set_up_is_that_of_the_readme():
    assert blocks(PAGE)[0].text.splitlines()[0] in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_schedule():
    (code,) = (block.text for block in blocks(PAGE) if block.language == "python")
    shown = {}
    exec(compile(code, "CONTRIBUTING.md", "exec"), shown)
    ((name, order),) = shown["ONE_BY_ONE"].items()
    placement = (0, 1, 2, 3)
    schedule = Schedule(name, 8, placement, order.run(placement, 8))
    assert faults(schedule) == []
    assert run_alone(schedule, Times()).makespan_ps == 8 * 4 * 3 * 10**12  # m p (F + B)
    assert most_in_flight(schedule) == (1, 1, 1, 1)
    for several in ((0, 0), (0, 1, 0, 1), (0, 1, 1, 0)):  # as the tests of the catalogue ask for
        with pytest.raises(ValueError, match="order one-by-one does not take its stages so; allowed: chunks: 1"):
            order.run(several, 8)


def test_a_topology(tmp_path, capsys):
    path = tmp_path / "my-box.yaml"
    path.write_text(next(block.text for block in blocks(PAGE) if block.title == path.name), encoding="utf-8")
    assert main(["topology", "show", str(path), "--nodes", "16", "--json", "-o", str(tmp_path / "box.png")]) == 0
    links = {row["between"]: row for row in json.loads(capsys.readouterr().out)["links"]}
    # 8 nodes x 4 adapters x 25 GB/s into a leaf, half of it up over 4 links: 100 GB/s each; 2 leaves x 4 spines, both ways.
    assert (links["leaf - spine"]["bandwidth_bytes_s"], links["leaf - spine"]["count"]) == (100e9, 16)


@pytest.fixture
def with_gpu(tmp_path, monkeypatch):
    """The shipped GPUs, and the one of the page."""
    for folder in gpus.FOLDER.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    for block in blocks(PAGE):
        if block.title.startswith("MY-GPU"):
            (tmp_path / block.title).parent.mkdir(exist_ok=True)
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    caches = (gpus.gpu_names, gpus.find_gpu, calibration._shipped)
    for module in (gpus, calibration):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_a_gpu(with_gpu, tmp_path, capsys):
    cluster = re.search(r"`cluster: (\{base.*?\}\})`", PAGE)[1]
    overrides = [f"cluster={cluster}", "software=megatron-2024", "nodes=1", "parallel={tensor: 8}", "batch.global=1", "strategy=standard"]
    overrides.append("model={layers: 2, hidden: 1024, heads: 8}")
    options = [word for override in overrides for word in ("--set", override)]
    assert main(["run", "gpt3-175b", *options, "--no-plot", "--json", "-o", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["gpu_memory_bytes"] == 64 * 2**30
    assert calibration.load_calibration("MY-GPU-64GB", "megatron-2024").matmul_efficiency == 0.71


def test_the_changes_begin_with_this_version():
    version = re.search(r"^version = (.*)$", (ROOT / "setup.cfg").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1] == f"[Unreleased]: {version}"


def test_the_licence_is_that_of_the_package():
    assert "license = Apache-2.0" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").split()[:4] == ["Apache", "License", "Version", "2.0,"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "bandwidth.py"])  # that one is in tests/sweeps
def test_a_script_runs(script, tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "examples" / script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    wanted = {
        "own_schedule.py": r"last-in-first-out: 0 faults\nlast-in-first-out: 33 s\n1f1b: 33 s\n",  # (m + p - 1)(F + B)
        "what_if.py": r"(?:[\w %]+: a step of [\d.]+ s, bubble [\d.]+% of it\n){4}",
    }
    assert re.fullmatch(wanted[script], done.stdout)
