"""The table of errors in the README, from the recorded errors: ``python -m tests.published.readme`` writes it."""

from pathlib import Path

import pandas as pd

from clustersim.published.report import markdown

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "results" / "validation"
BEGIN, END = "<!-- errors of clustersim validate -->\n", "\n<!-- end of errors -->"


def with_table(page: str) -> str:
    """The page with the recorded table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end
    return f"{before}{begin}\n{markdown(pd.read_csv(RECORDED / 'sources.csv'))}\n{end}{after}"


if __name__ == "__main__":
    README = ROOT / "README.md"
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
