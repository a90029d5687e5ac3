"""Numbers of more digits than Python reads, wherever text becomes a number."""

from pathlib import Path

import pytest

from clustersim import units
from clustersim.importers.kineto_kinds import Arguments, group_ranks
from clustersim.plots.layout import _natural

NINES = "9" * 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sweep", "e.yaml", "--vary", f"batch.global={NINES}"), "--vary batch.global=999"),
        (("sweep", "e.yaml", "--vary", f"batch.global=1..{NINES}"), "--vary batch.global=1..999"),
        (("sweep", "e.yaml", "--vary", f"batch.global=1..{NINES}:lin3"), "--vary batch.global=1..999"),
        (("sweep", "e.yaml", "--vary", "batch.global=1..1e999999999"), "--vary batch.global=1..1e999999999"),
        (("sweep", "e.yaml", "--vary", "batch.global=0e999999999..1:lin2"), "--vary batch.global=0e999999999..1:lin2"),
        (("run", "e.yaml", "--set", f"batch.global={NINES}"), "--set batch.global=999"),
        (("run", "e.yaml", "--set", f"variability.failed_links=[node{NINES}/nic3>network]"), "--set variability.failed_links=[node999"),
        (("collective", "--cluster", "dgx-a100", "--ranks", f"0-{NINES}"), "--ranks 0-999"),
        (("collective", "--cluster", "dgx-a100", "--size", f"{NINES}MB"), "--size 999"),
        (("plan", "llama3-8b", "dgx-a100", "--gpus", NINES), "--gpus 999"),
    ],
)
def test_on_the_command_line(small, cli, arguments, words):
    result = cli(*arguments, *(("-o", "out") if arguments[0] in ("run", "sweep") else ()))
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"clustersim: {words}") and result.err.count("\n") == 1 and len(result.err) < 1000
    assert not Path("out").exists() or not any(Path("out").iterdir())


def test_in_names():
    """Ordered by size all the same."""
    assert sorted([f"stream {NINES}", "stream 20", "stream 007"], key=_natural) == ["stream 007", "stream 20", f"stream {NINES}"]
    assert group_ranks(Arguments(ranks=f"[0, {NINES}]")) == ()


def test_a_quantity_of_half_a_million_digits():
    """Is refused in no time too."""
    with pytest.raises(ValueError, match=r"is not a number with a unit; write for example 5 us or 1.5 s"):
        units.parse("9" * 400_000 + " us us", "time")


def test_a_line_of_a_hundred_thousand_columns(small, cli):
    """Is refused in no time, not in the square of it."""
    Path("k.csv").write_text("," * 300_000 + "\n1\n")
    result = cli("calibrate", "k.csv", "--gpu", "A100-SXM4-80GB")
    assert result.status == 2 and result.err == "clustersim: k.csv:1: the column '' stands twice or has no name\n"
