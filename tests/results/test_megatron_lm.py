"""results/megatron-lm is what its script makes; what lies within 4 points of the paper stays there."""

import doctest

import pandas as pd
import pytest

from tests.results.scripts import RESULTS, alike, script

FOLDER = RESULTS / "megatron-lm"
make = script("megatron-lm")
KEPT = pd.read_csv(FOLDER / "table.csv")

# arXiv 1909.08053, typed in by hand: figure 5 and section 5.1, tables 7 and 8.
PUBLISHED = {
    ("baseline", "1.2B on 1 GPU"): (39, 39),
    ("model parallel", "2.5B on 2 GPUs"): (95, 95),
    ("model parallel", "4.2B on 4 GPUs"): (82, 82),
    ("model parallel", "8.3B on 8 GPUs"): (77, 77),
    ("model + data parallel", "1.2B on 64 GPUs"): (96, 96),
    ("model + data parallel", "2.5B on 128 GPUs"): (83, 83),
    ("model + data parallel", "4.2B on 256 GPUs"): (79, 79),
    ("model + data parallel", "8.3B on 512 GPUs"): (74, 74),
    ("reduction", "overlapped"): (74, 76),
    ("reduction", "after the backward"): (60, 60),
    ("reduction", "gap"): (14, 16),
    ("headline", "8.3B on 512 GPUs"): (15.1, 15.1),
    ("heads", "16 heads"): (82, 82),
    ("heads", "24 heads"): (80, 80),
    ("heads", "32 heads"): (77, 77),
    ("strong scaling", "1.2B on 2 GPUs"): (1.64, 1.64),
    ("strong scaling", "1.2B on 4 GPUs"): (2.34, 2.34),
    ("strong scaling", "1.2B on 8 GPUs"): (2.98, 2.98),
}
POINTS = 4
# Further off, and said so in the README: with adapters beside GPUs 0 to 7, and in the order that a DGX-2 prints.
OUTSIDE = {"simulated": {"2.5B on 128 GPUs"}, "printed_simulated": {"2.5B on 128 GPUs", "after the backward", "gap"}}


@pytest.fixture(scope="module")
def made():
    return make.table(jobs=1)


def test_the_committed_table_is_what_the_script_makes(made):
    pd.testing.assert_frame_equal(made, KEPT, check_dtype=False, atol=2e-3, rtol=0)


def test_every_published_figure_is_there(made):
    found = {(row.panel, row.case): (row.published_low, row.published_high) for row in made.itertuples()}
    assert found == PUBLISHED


@pytest.mark.parametrize("column", OUTSIDE)
def test_within_four_points_but_for_what_the_readme_names(made, column):
    percents = made[made["unit"].isin(["% of one GPU", "points"])]
    off = {
        row["case"]
        for _, row in percents.iterrows()
        if not row["published_low"] - POINTS <= row[column] <= row["published_high"] + POINTS
    }
    assert off == OUTSIDE[column]


def test_the_headline_and_the_baseline(made):
    by_panel = made.set_index("panel")
    assert by_panel.loc["baseline", "simulated"] == pytest.approx(39, rel=1e-3)
    for column in OUTSIDE:
        assert by_panel.loc["headline", column] == pytest.approx(15.1, rel=0.04)


def test_the_gap_and_the_headline_follow_from_the_percentages(made):
    value = made.set_index(["panel", "case"])["simulated"]
    assert value["reduction", "gap"] == pytest.approx(value["reduction", "overlapped"] - value["reduction", "after the backward"], abs=2e-3)
    assert value["headline", "8.3B on 512 GPUs"] == pytest.approx(value["reduction", "overlapped"] / 100 * 39 * 512 / 1000, abs=1e-3)


def test_the_figures_in_the_text_of_the_page():
    """Every percentage but one within 2.5 points, that one 11 too high; strong scaling 0.05, 0.3, 0.6 too high: 40, 100, 120 ms a step.

    The step of one GPU: 96 B s l h^2 (1 + s/6h + V/16lh) = 86.3 TFLOP at 39 TFLOP/s.
    """
    percents = KEPT[KEPT["unit"].isin(["% of one GPU", "points"])].set_index("case")["error"]
    assert percents.drop("2.5B on 128 GPUs").abs().max() <= 2.5 and round(percents["2.5B on 128 GPUs"]) == 11
    strong = KEPT[KEPT["panel"] == "strong scaling"]
    assert [round(error, 2 if error < 0.1 else 1) for error in strong["error"]] == [0.05, 0.3, 0.6]
    one_s = 96 * 8 * 1024 * 40 * 1536**2 * (1 + 1024 / (6 * 1536) + 51200 / (16 * 40 * 1536)) / 39e12
    assert [round(one_s * (1 / row.published_low - 1 / row.simulated), 2) for row in strong.itertuples()] == [0.04, 0.10, 0.12]


def test_errors_are_from_the_nearer_end():
    overlapped = next(figure for figure in make.figures() if figure.label == "overlapped")
    assert [overlapped.error(value) for value in (70, 74, 75, 76, 79)] == [-4, 0, 0, 0, 3]


def test_page_and_picture(tmp_path):
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == make.page(KEPT)
    make.draw(KEPT, tmp_path / "scaling.png")
    assert alike(tmp_path / "scaling.png", FOLDER / "scaling.png")


def test_examples():
    assert doctest.testmod(make) == (0, 1)
