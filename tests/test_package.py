"""The installed package, away from its source tree."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The unpacked wheel of a copy of the tree that git would give."""
    folder = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "results/")):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(folder / "source")]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


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
