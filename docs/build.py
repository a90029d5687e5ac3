"""What the documentation takes from elsewhere when it is built: pages that lie beside what they describe, and the commands."""

from __future__ import annotations

import argparse
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.structure.files import File, Files, InclusionLevel

from clustersim import cli

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "topologies/README.md": "reference/topology.md",
    "schedules/README.md": "reference/schedules.md",
    "results/validation/README.md": "explanation/validation.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""By the place in the source tree, the page."""
COMMANDS = "reference/command-line.md"

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config) -> Files:
    """Add the pages of ``ELSEWHERE``, the pictures that any page shows, and the page of the commands."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    for picture in sorted({picture for page in files.documentation_pages() for picture in _pictures(page)}):
        files.append(File.generated(config, f"pictures/{picture}", abs_src_path=str(ROOT / picture), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Links that leave the folder of the documentation: to a page, to a picture of the site, or plain text where the site has none."""
    source = _source(page.file.src_uri)
    return _LINK.sub(lambda link: _within(link, source, page.file.src_uri), markdown)


def _source(page: str) -> str:
    """Where a page lies in the source tree."""
    return next((source for source, other in ELSEWHERE.items() if other == page), f"docs/{page}")


def _pictures(page: File) -> Iterator[str]:
    """The pictures of a page outside of the folder of the documentation, as paths in the source tree."""
    for link in _LINK.finditer(page.content_string):
        path = _path(_source(page.src_uri), link[3])
        if link[1] and not path.startswith(("docs/", "http")):
            yield path


def _path(source: str, target: str) -> str:
    """The place of a link's target in the source tree.

    >>> _path("docs/how-to/plan.md", "../../examples/what_if.py")
    'examples/what_if.py'
    """
    return target if "://" in target else posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _within(link: re.Match[str], source: str, page: str) -> str:
    mark, text, target = link.groups()
    file, _, anchor = target.partition("#")
    path = _path(source, file)
    if not file or "://" in target or (path.startswith("docs/") and source.startswith("docs/")):
        return link[0]
    if mark:
        inside = f"pictures/{path}"
    elif path in ELSEWHERE:
        inside = ELSEWHERE[path]
    elif path.startswith("docs/"):
        inside = path.removeprefix("docs/")
    else:
        return text
    relative = os.path.relpath(inside, posixpath.dirname(page) or ".")
    return f"{mark}[{text}]({relative}{'#' + anchor if anchor else ''})"


def commands_page() -> str:
    """Every command with its options, from the parser itself."""
    intro = (
        "# The command line\n\nResults go to stdout, progress to stderr; with `--json` stdout is one JSON document. The exit status is 0"
        " when done, 2 when the input is wrong (one line says where, what, and what is allowed), 130 after Ctrl-C.\n"
    )
    return intro + "".join(_command(parser, summary) for parser, summary in _leaves(cli._parser()))


def _leaves(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """The commands that do something."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help for choice in action._choices_actions}
            for name, inner in action.choices.items():
                if any(isinstance(one, argparse._SubParsersAction) for one in inner._actions):
                    yield from _leaves(inner)
                else:
                    yield inner, summaries[name]


def _command(parser: argparse.ArgumentParser, summary: str) -> str:
    rows = "".join(_row(action) for action in parser._actions if "--help" not in action.option_strings)
    example = (parser.epilog or "").removeprefix("example: ")
    return (
        f"\n## {parser.prog}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{example}\n```\n\n"
        f"| argument | is |\n|---|---|\n{rows}"
    )


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    if action.choices:
        value = ", ".join(map(str, action.choices))
    names = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{value}`"
    shown = f" `{value}`" if action.option_strings and action.nargs != 0 and value else ""
    text = (action.help or "") % {"default": action.default}
    required = "" if not action.option_strings or not action.required else "; required"
    return f"| {_cell(names + shown)} | {_cell(text + required)} |\n"


def _cell(text: str) -> str:
    """
    >>> print(_cell("`N|A..B`"))
    `N\\|A..B`
    """
    return text.replace("|", "\\|")


