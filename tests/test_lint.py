"""The checkout passes the linter and the type checker, with the commands of CONTRIBUTING and the settings of ruff.toml and setup.cfg."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USER = """\
import clustersim

clustersim.load(3)
"""


def lint(module, *arguments):
    pytest.importorskip(module)
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_linter_finds_nothing():
    done = lint("ruff", "check", "--no-cache", "--output-format", "concise", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_type_checker_finds_nothing_but_what_a_user_does_wrong(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER)
    done = lint("mypy", "--cache-dir", os.devnull, "clustersim", str(user))
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(found) == 1 and re.search(r"user\.py:3: error: Argument 1 to \"load\" .* \[arg-type\]", found[0]), done.stdout + done.stderr


def test_the_commands_are_those_that_contributors_are_told():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert "\n.venv/bin/ruff check .\n.venv/bin/mypy\n" in text
