"""The installed package, away from its source tree."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "site", "runs", "*.parquet", "manifest.json", "points.jsonl"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source distribution of a copy of the tree."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "tree", stdout=subprocess.DEVNULL, check=True)
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (found,) = (folder / "unpacked").iterdir()
    return found


@pytest.fixture(scope="module")
def installed(source, tmp_path_factory):
    """The unpacked wheel of the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_the_source_distribution_has_all_that_tests_and_documentation_need(source):
    for name in ("benchmarks", "docs", "examples", "schedules", "tests", "topologies"):
        assert files(source / name) == files(ROOT / name), name
    pages = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "mkdocs.yml", "pyproject.toml", "setup.cfg", "setup.py"}
    assert pages <= {path.name for path in source.iterdir()}
    assert {path.suffix for path in files(source / "results")} >= {".md", ".csv", ".png", ".py"}


def test_a_build_writes_nothing_into_a_tree_that_may_not_be_written(source, tmp_path):
    """As setup.py is told by the system, which lets root write anywhere."""
    before = files(source)
    build = "import os, runpy; os.access = lambda *_: False; runpy.run_path('setup.py', run_name='__main__')"
    command = [sys.executable, "-B", "-c", build, "-q", "bdist_wheel", "-b", str(tmp_path / "tree"), "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0 and len(list(tmp_path.glob("clustersim-*.whl"))) == 1, done.stderr
    assert files(source) == before


def in_site(installed, tmp_path, *arguments):
    script = f"import sys; sys.path.insert(0, {str(installed)!r}); from clustersim.cli import main; sys.exit(main({list(arguments)!r}))"
    return subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True)


def test_presets_are_found_by_name_from_any_folder(installed, tmp_path):
    done = in_site(installed, tmp_path, "run", "pipeline-shapes", "--no-plot", "--json", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step_time_s"] == 140
    assert in_site(installed, tmp_path, "topology", "show", "dgx-1-v100", "--json").returncode == 0


def test_every_preset_and_module_is_in_the_wheel(installed):
    for kind in ("topologies", "schedules"):
        assert {p.name for p in (installed / "clustersim" / kind).iterdir() if p.suffix == ".yaml"} == {
            p.name for p in (ROOT / kind).glob("*.yaml")
        }
    measured = Path("clustersim", "published", "data")
    assert {p.name for p in (installed / measured).iterdir()} == {p.name for p in (ROOT / measured).iterdir()}
    here = {path.relative_to(ROOT) for path in (ROOT / "clustersim").rglob("*.py")}
    assert here == {path.relative_to(installed) for path in (installed / "clustersim").rglob("*.py")}
    assert (installed / "clustersim" / "py.typed").is_file()
