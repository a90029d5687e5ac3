"""The site is built without a warning, and has every command with every option."""

import doctest
import importlib.util
import re
import subprocess
import sys
from html import unescape

import pytest

from clustersim import cli
from tests.docs.pages import PAGES, ROOT
from tests.docs.test_pages import options

pytest.importorskip("mkdocs", reason="pip install '.[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("name", ["build", "docstrings"])
def test_examples_of_the_scripts(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    done = doctest.testmod(module)
    assert done.attempted and not done.failed


def test_every_page_is_there(site):
    for page in PAGES:
        path = page.removesuffix(".md")
        assert (site / ("index.html" if path == "index" else f"{path}/index.html")).is_file()
    for page in ("reference/topology", "reference/schedules", "explanation/validation", "contributing", "changelog"):
        assert (site / page / "index.html").stat().st_size > 1000


def test_nothing_of_a_page_comes_from_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', text), page
        assert not re.search(r'<link[^>]+rel="stylesheet"[^>]+href="(?:https?:)?//', text), page


def test_every_command_with_every_option(site):
    text = unescape((site / "reference" / "command-line" / "index.html").read_text(encoding="utf-8"))
    parts = dict(re.findall(r'<h2 id="[^"]*">clustersim ([\w ]+)<a.*?</h2>(.*?)(?=<h2|</article>)', text, flags=re.DOTALL))
    wanted = {command: found - {"-h", "--help"} for command, found in options(cli._parser()).items() if command and found}
    assert set(parts) == set(wanted)
    for command, part in parts.items():
        assert set(re.findall(r"<code>(-[\w-]+)</code>", part)) == wanted[command]


def test_pictures_are_found(site):
    for page in site.rglob("*.html"):
        for source in re.findall(r'<img[^>]+src="([^"]+)"', page.read_text(encoding="utf-8")):
            assert (page.parent / source).is_file(), (page, source)


def test_python_has_signatures_and_examples(site):
    text = (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    for name in ("load", "simulate", "analyze", "gantt", "sweep", "plan"):
        assert f'id="clustersim.{name}"' in text
    assert "blockquote" not in text and ":func:" not in text
