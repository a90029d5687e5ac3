"""The pages of the documentation as text: their blocks, and the tables below their headings."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


class Block(NamedTuple):
    """``title`` is the name of the file that the block shows, empty where it is none."""

    language: str
    title: str
    text: str


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(text):
    """In order, those that are code."""
    found = re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', text, flags=re.DOTALL | re.MULTILINE)
    return [Block(*each) for each in found]


def tables(page):
    """By heading the rows of the tables below it, without heads: cells each."""
    found = {}
    for part in re.split(r"^#+ ", text_of(page), flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        lines = re.sub(r"^\|.*\n(?=\|---)", "", body, flags=re.MULTILINE).splitlines()
        rows = [re.split(r" \| ", line.strip("| ")) for line in lines if re.match(r"\|(?!---)", line)]
        found[heading.strip().strip("`")] = [[cell.strip() for cell in row] for row in rows]
    return found


def names(cell):
    """The words in backticks."""
    return re.findall(r"`([\w.]+)`", cell)
