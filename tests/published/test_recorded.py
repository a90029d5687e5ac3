"""Errors get no worse than those recorded in ``results/validation``, which ``clustersim validate -o results/validation`` writes.

Sources that take long are represented by the rows that do not; the command runs them all.
"""

import pandas as pd
import pytest

from clustersim.published.catalogue import SOURCES, cases_of
from clustersim.published.predict import predict
from clustersim.published.report import table
from tests.published.readme import RECORDED, ROOT, with_table

ROWS = pd.read_csv(RECORDED / "rows.csv")
KEY = ["source", "use", "case", "quantity"]
TOLERANCE = 0.002
SHORT = {
    "nccl": None,
    "korthikanti-2022-layer": None,
    "megatron-2019": None,
    "megatron-2020": None,
    "torchtitan": None,
    "korthikanti-2022": ("22B", "175B, selective"),
    "megatron-2021": ("1.7B", "3.6B", "7.5B", "18.4B"),
    "zero-bubble-2024": ("1.5B, 24 micro-batches",),
    "dgx-cloud": ("nemotron4-15b", "llama31-8b on 8 GPUs"),
    "llm-foundry": ("30b at 512,", "7b at 1024,", "1b at 8192", "125m"),
    "bloom": ("22: ", "30: "),
}


def test_every_source_is_recorded_and_tried():
    assert set(SHORT) == set(SOURCES) == set(ROWS["source"])


@pytest.mark.parametrize("source", SHORT)
def test_no_error_is_worse_than_recorded(source):
    begins = SHORT[source]
    cases = [case for case in cases_of([source])[0] if begins is None or case.case.startswith(begins)]
    predictions, _ = predict(cases)
    found = table(predictions).merge(ROWS, on=KEY, suffixes=("", "_then"), validate="one_to_one")
    assert len(found) == len(cases) if begins else len(found) == (ROWS["source"] == source).sum()
    for (use, quantity), rows in found.groupby(["use", "quantity"]):
        now, then = rows["error"].abs().mean(), rows["error_then"].abs().mean()
        assert now <= then + TOLERANCE, f"{source}, {use}, {quantity}: mean error {now:.4f}, recorded {then:.4f}"


def test_the_recorded_errors_of_sources_are_those_of_the_rows():
    for row in pd.read_csv(RECORDED / "sources.csv").itertuples():
        of = ROWS[(ROWS["source"] == row.source) & (ROWS["use"] == row.use) & (ROWS["quantity"] == row.quantity)]
        sizes = (of["predicted"] - of["measured"]).abs() / of["measured"].where(of["measured"] > 0, 1)
        assert len(of) == row.rows
        assert sizes.mean() == pytest.approx(row.mape, rel=1e-3, abs=1e-5) and sizes.max() == pytest.approx(row.max_ape, rel=1e-3, abs=1e-5)
        assert sizes[of["case"] == row.worst].max() == pytest.approx(row.max_ape, rel=1e-3, abs=1e-5)


def test_the_readme_has_the_recorded_table():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page == with_table(page), "write it with python -m tests.published.readme"
    assert page.count("| korthikanti-2022 | test |") == 1
