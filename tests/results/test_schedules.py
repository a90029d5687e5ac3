"""results/schedules is what its script makes, and meets the closed forms."""

import doctest

import pandas as pd
import pytest

from tests.results.scripts import RESULTS, alike, script

FOLDER = RESULTS / "schedules"
make = script("schedules")
KEPT, DELAYED = (pd.read_csv(FOLDER / name) for name in ("table.csv", "delays.csv"))
CASES = pytest.mark.parametrize("m", [16, 32])
P, F, B, W, V = 8, 1, 2, 1, 4


@pytest.fixture(scope="module")
def made():
    return make.table([16])


def column(m, name):
    return KEPT[KEPT["m"] == m].set_index("schedule")[name]


def late(m, delay_s):
    return DELAYED[(DELAYED["m"] == m) & (DELAYED["delay_s"] == delay_s)].set_index("schedule")["makespan_s"]


def test_the_committed_table_is_what_the_script_makes(made):
    pd.testing.assert_frame_equal(made, KEPT[KEPT["m"] == 16].reset_index(drop=True), check_dtype=False)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved-1f1b", "breadth-first", "zb-h1", "pipedream-2bw"])
def test_committed_delays_are_what_the_script_makes(name):
    for delay_s in (0.25, 0.5):
        assert make.makespan_s(name, 16, delay_s) == late(16, delay_s)[name]


def test_without_delay_both_tables_agree():
    for m in (16, 32):
        assert late(m, 0.0).to_dict() == column(m, "makespan_s").to_dict()


@CASES
def test_closed_forms_without_delay(m):
    """Of tests/golden: (m+p-1)(F+B), its fill divided by v, LGA over contiguous stages, ZB-H1; DualPipe's (P/2-1)(FB+B-3W), FB = F + B."""
    both, layer = F + B, (F + B) / V
    expected = {
        **dict.fromkeys(("gpipe", "1f1b", "eager-1f1b"), (m + P - 1) * both),
        **dict.fromkeys(("interleaved-1f1b", "breadth-first"), m * both + (P - 1) * both / V),
        "mpp": ((V - 1) * max(P, m) + m + P - 1) * layer,
        "lga": (P * (V - 1) * m + m + P - 1) * layer,
        "zb-h1": m * both + (P - 1) * (F + 1 - W),
        "dualpipe": m * both + (P // 2 - 1) * (both + B - 3 * W),
        "pipedream-2bw": m * both,
    }
    makespans = column(m, "makespan_s")
    assert {name: makespans[name] for name in expected} == expected
    bubble = (makespans - m * both) / makespans
    assert column(m, "bubble_of_total").to_dict() == pytest.approx(bubble.to_dict(), abs=1e-6)
    assert column(m, "bubble_of_ideal").to_dict() == pytest.approx((makespans / (m * both) - 1).to_dict(), abs=1e-6)


@CASES
def test_steady_state_and_memory_as_their_authors_have_them(m):
    steady, held = column(m, "steady_s"), column(m, "peak_activations")
    assert steady["zb-h2"] == steady["zb-v"] == m * (F + B)
    expected = {
        "1f1b": P, "gpipe": m, "zb-h1": P, "zb-h2": 2 * P - 1, "zb-v": P, "v-half": (P + 2) // 2, "v-min": (P + 4) // 3,
        "breadth-first": m, "mpp": m, "interleaved-1f1b": (2 * (P - 1) + (V - 1) * P + 1) / V, "dualpipe": P + 1,
    }  # fmt: skip
    assert {name: held[name] for name in expected} == expected
    assert column(m, "weights")[lambda of: of > 1].index.tolist() == ["dualpipe", "chimera", "pipedream-2bw"]


@CASES
def test_messages(m):
    messages = column(m, "pipeline_messages")
    assert messages["1f1b"] == 2 * m * (P - 1) and messages["breadth-first"] == messages["interleaved-1f1b"] == 2 * m * (P * V - 1)


def test_golden_values_with_delay():
    assert [late(16, delay_s)["1f1b"] for delay_s in (0.0, 0.25, 0.5)] == [69, 79, 89]
    assert [late(16, delay_s)["interleaved-1f1b"] for delay_s in (0.0, 0.25, 0.5)] == [53.25, 68.75, 92]


@CASES
def test_a_delay_costs_gpipe_and_breadth_first_two_ways_through_the_pipeline(m):
    for delay_s in make.DELAYS_S:
        assert late(m, delay_s)["gpipe"] == (m + P - 1) * (F + B) + 2 * (P - 1) * delay_s
        if (m - P) * F / V >= P * delay_s:
            assert late(m, delay_s)["breadth-first"] == m * (F + B) + (P - 1) * (F + B) / V + 2 * (P - 1) * delay_s


@CASES
def test_interleaving_loses_to_1f1b_at_a_high_delay_and_breadth_first_does_not(m):
    for delay_s in make.DELAYS_S:
        of = late(m, delay_s)
        assert (of["interleaved-1f1b"] > of["1f1b"]) == (delay_s > 0.48)
        assert of["breadth-first"] < of["1f1b"]


def test_page_and_pictures(tmp_path):
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == make.page(KEPT, DELAYED)
    make.draw_delays(DELAYED, tmp_path / "delay.png")
    make.draw_memory(KEPT, tmp_path / "memory.png")
    for name in ("delay.png", "memory.png"):
        assert alike(tmp_path / name, FOLDER / name)


def test_spread_keeps_labels_apart_and_their_order():
    assert make.spread([3.0], apart=1.0) == [3.0]
    assert make.spread([0.0, 0.5, 1.0, 9.0], apart=1.0) == [-0.5, 0.5, 1.5, 9.0]
    assert make.spread([0.0, 0.0, 1.0], apart=1.0) == pytest.approx([-2 / 3, 1 / 3, 4 / 3])


def test_examples():
    assert doctest.testmod(make) == (0, 3)
