"""The command line, called in this process, and a small experiment to call it with."""

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from clustersim.cli import main

# The same examples in every run: what fails here fails for everyone.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

# Its lines are referred to by number.
SMALL = """\
model: {layers: 8, hidden: 64, heads: 4}
cluster: pcie-ethernet
parallel: {data: 2, pipeline: 2, tensor: 2}
strategy: {name: mpp}
batch: {global: 16, micro: 1, sequence: 128}
"""


class Result(NamedTuple):
    """What a command did: exit status, both streams."""

    status: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run ``clustersim`` with these arguments."""

    def call(*arguments: str) -> Result:
        try:
            status = main(list(arguments))
        except SystemExit as exit:
            status = exit.code
        return Result(status, *capsys.readouterr())

    return call


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """A small experiment, ``e.yaml``, in an empty folder that is the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "e.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path
