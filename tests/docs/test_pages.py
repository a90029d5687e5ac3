"""What the pages show is so: commands run, files load, figures are those that come out."""

import doctest
import json
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from clustersim import cli as command_line
from clustersim.cli import main
from clustersim.compute.calibration import load_calibration
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, text_of

INSTALL = ("python3 -m venv .venv && .venv/bin/pip install -q .", "source .venv/bin/activate")
"""Tried by the first line of the README, on a fresh machine."""
WITH_CODE = [page for page in PAGES if blocks(text_of(page))]


class Ran(NamedTuple):
    """Where the blocks of a page ran, and by line (a block of Python is one) what was printed."""

    folder: Path
    printed: dict[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Runs the blocks of a page in order, in a folder of its own with the files that the page shows; each page once."""

    @cache
    def run(page):
        folder = tmp_path_factory.mktemp("page")
        for block in blocks(text_of(page)):
            if block.title:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(block.text, encoding="utf-8")
        with chdir(folder):
            return Ran(folder, {one: printed_by(page, one) for one in steps(page)})

    return run


def steps(page):
    """Lines of the shell, and texts of Python that are not only shown."""
    for block in blocks(text_of(page)):
        if block.language == "sh":
            yield from block.text.strip().splitlines()
        elif block.language == "python" and not block.title:
            yield block.text


def printed_by(page, one):
    if one in INSTALL:
        return ""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        if one.startswith("import "):
            exec(compile(one, page, "exec"), {"__name__": "shown"})
            return out.getvalue()
        words = shlex.split(one, comments=True)
        assert words[0] == "clustersim", one
        assert main(words[1:]) == 0, f"{one}: {err.getvalue()}"
    return out.getvalue()


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_command_of_a_page_runs_in_order(page, ran):
    folder, printed = ran(page)
    for one, text in printed.items():
        assert text.strip() or one in INSTALL, one
        for output in re.findall(r"(?<= -o )\S+", one):
            assert (folder / output).exists(), one


def test_the_installation_is_that_of_the_readme():
    assert (ROOT / "README.md").read_text(encoding="utf-8").split("```sh\n")[1].startswith(INSTALL[0])


@pytest.mark.parametrize("page", WITH_CODE)
def test_python_that_needs_a_gpu_compiles(page):
    for block in blocks(text_of(page)):
        if block.language == "python":
            compile(block.text, page, "exec")


@pytest.mark.parametrize("page", [page for page in PAGES if ">>> " in text_of(page)])
def test_examples_of_python_give_what_is_shown(page):
    shown = "\n\n".join(block.text for block in blocks(text_of(page)) if block.language == "pycon")
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(shown, {}, page, page, 0))
    assert runner.tries and not runner.failures


def test_no_block_has_another_language():
    found = {block.language for page in PAGES for block in blocks(text_of(page))}
    assert found <= {"sh", "python", "pycon", "yaml", "csv", "json", "text"}
    assert all(block.title for page in PAGES for block in blocks(text_of(page)) if block.language not in ("sh", "python", "pycon"))


def options(parser, prefix=""):
    """By command its options, and of a group of commands nothing."""
    inner = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    if not inner:
        return {prefix: set(chain.from_iterable(action.option_strings for action in parser._actions))}
    found = {prefix: set()}
    for name, one in inner[0].items():
        found |= options(one, f"{prefix} {name}".strip())
    return found


def test_commands_and_options_in_the_text_exist():
    known = options(command_line._parser())
    every = set().union(*known.values())
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
        for text in re.findall(r"`([^`]+)`", prose):
            if text.startswith("clustersim "):
                words = text.split()[1:3]
                assert words[0] in known or " ".join(words) in known, f"{page}: {text}"
            for option in re.findall(r"(?<![\w-])--[a-z-]+", text):
                assert option in every, f"{page}: {text}"


def test_the_knees_of_the_tutorial(ran):
    found = json.loads((ran("tutorial.md").folder / "runs/bandwidth/knees.json").read_text())["knees"]
    knees = {knee["strategy"]: knee["value"] * 8e-9 for knee in found}
    said = re.search(r"Standard accumulation needs (\d+) Gb/s, LGA (\d+) Gb/s", text_of("tutorial.md"))
    assert [round(knees[name]) for name in ("standard", "lga")] == [int(value) for value in said.groups()]


def test_errors_of_collectives_are_the_recorded_ones():
    said = re.search(r"mean error of (\d+) % on the machines.*?of (\d+) % on others", text_of("explanation/network.md"), flags=re.DOTALL)
    recorded = pd.read_csv(ROOT / "results/validation/sources.csv").query("source == 'nccl'").set_index("use")["mape"]
    assert [int(each) for each in said.groups()] == [round(100 * recorded[use]) for use in ("calibration", "test")]


def test_slowdown_beside_collectives():
    said = re.search(r"compute takes (\d+) % longer", text_of("explanation/network.md"))
    assert int(said[1]) == round(100 * load_calibration("A100-SXM4-80GB", "megatron-2024").slowdown)


def step_time_s(folder):
    return json.loads((folder / "summary.json").read_text())["step_time_s"]


def test_both_ways_to_give_a_model_are_the_same(ran):
    runs = ran("how-to/own-model.md").folder / "runs"
    assert step_time_s(runs / "sizes") == step_time_s(runs / "config")


def test_what_if_is_slower_where_it_must_be(ran):
    runs = ran("how-to/what-if.md").folder / "runs"
    now = step_time_s(runs / "now")
    assert all(step_time_s(runs / name) > now for name in ("slow-network", "throttled", "slow-link"))
    assert "rank 30" in ran("how-to/what-if.md").printed["clustersim analyze runs/throttled"].splitlines()[0]


def test_pictures_and_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)):
            if "://" not in target:
                assert (DOCS / page).parent.joinpath(target).exists() or target.endswith(made_elsewhere()), f"{page}: {target}"


def made_elsewhere():
    """Names of pages that are made when the site is built."""
    return ("topology.md", "schedules.md", "command-line.md", "validation.md", "contributing.md", "changelog.md")
