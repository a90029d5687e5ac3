"""results/lga-mpp is what its script makes, and meets the published figures."""

import doctest
import sys
from dataclasses import replace

import pandas as pd
import pytest

from tests.results.scripts import RESULTS, alike, script

FOLDER = RESULTS / "lga-mpp"
make = script("lga-mpp")
tables, closed_form, configurations = (sys.modules[name] for name in ("tables", "closed_form", "configurations"))
KEPT = make.read(FOLDER)


@pytest.fixture(scope="module")
def intensity():
    return tables.intensity()


class Here:
    """Simulates in this process."""

    def solve(self, points):
        from clustersim.sweeps.points import solve

        base = configurations.base()
        return enumerate(solve(base, point) for point in points)


def days(cost, method):
    table = KEPT["comparison"]
    (found,) = table[(table["cost"] == cost) & (table["dimensions"] == "3d") & (table["method"] == method)]["days"]
    return found


@pytest.mark.parametrize("cost", ["peak", "megatron-2024"])
def test_improved_is_twice_as_fast(cost):
    assert days(cost, "baseline") / days(cost, "improved") == pytest.approx(2.0, rel=0.15)


def test_days_at_peak():
    """8 P s 2,417 sequences x 100,000 steps at 312 TFLOP/s on 35,840 and 38,640 GPUs, over the efficiencies 0.45 and 0.85."""
    for method, gpus, efficiency, published in (("baseline", 35_840, 0.45, 14.5), ("improved", 38_640, 0.85, 7.15)):
        derived = 8 * 12 * 160**5 * 2560 * 2417 * 1e5 / 312e12 / gpus / efficiency / 86400
        assert derived == pytest.approx(published, rel=0.02)
        assert days("peak", method) == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize(
    ("method", "traffic", "published"),
    [
        ("baseline", "reduce", 1920), ("baseline", "state", 1707), ("improved", "reduce", 9600), ("improved", "state", 8533),
        ("improved", "pipeline", 307_200), ("baseline", "tensor", 3413), ("improved", "tensor", 3413),
        ("baseline", "pipeline", 12 * 25_600 * 160 / 5),
    ],
)  # fmt: skip
def test_intensities_of_the_paper(intensity, method, traffic, published):
    (found,) = intensity[(intensity["method"] == method) & (intensity["traffic"] == traffic)]["counted"]
    assert found == pytest.approx(published, rel=0.01)


def test_the_committed_intensities_are_what_the_script_makes(intensity):
    pd.testing.assert_frame_equal(intensity, KEPT["intensity"], check_dtype=False, rtol=1e-12)


def test_committed_rows_are_what_the_script_makes():
    row = pd.DataFrame(configurations.simulated([configurations.PAPER[1]], Here()))
    table = KEPT["comparison"]
    kept = table[(table["cost"] == "peak") & (table["dimensions"] == "3d") & (table["method"] == "improved")]
    pd.testing.assert_frame_equal(row, kept[row.columns].reset_index(drop=True), check_dtype=False, rtol=1e-12)
    made = tables.sizes(Here(), [32])
    pd.testing.assert_frame_equal(made, KEPT["sizes"][KEPT["sizes"]["x"] == 32].reset_index(drop=True), check_dtype=False, rtol=1e-12)


def test_the_committed_page_is_that_of_the_tables():
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == make.page(KEPT)


def test_what_the_text_of_the_page_claims_is_so():
    def days_of(case, network, method):
        (found,) = networks[(networks["case"] == case) & (networks["network"] == network) & (networks["method"] == method)]["days"]
        return found

    networks, memory, sizes = KEPT["networks"], KEPT["memory"], KEPT["sizes"]
    assert days_of("shortest", "Ethernet", "improved") < days_of("shortest", "InfiniBand", "baseline")
    assert days_of("as on InfiniBand", "Ethernet", "improved") > days_of("as on InfiniBand", "Ethernet", "baseline")
    held = memory.set_index(["method", "partition", "offload"])
    assert held.loc[("baseline", "none", "all"), "peak_memory_bytes"] < held.loc[("improved", "parameters", "all"), "peak_memory_bytes"]
    assert held.loc[("improved", "gradients", "none"), "fits"] and not held.loc[("improved", "optimizer", "none"), "fits"]
    assert held.loc[("improved", "parameters", "none"), "peak_memory_bytes"] < 80 * 2**30 / 3
    assert sizes[(sizes["x"] == 320) & (sizes["method"] == "improved")]["days"].item() > 365
    assert set(sizes[sizes["method"] == "improved"]["partition"]) == {"none", "parameters"}
    peak = KEPT["comparison"].query("cost == 'peak' and pipeline == 1").groupby("dimensions")["days"]
    assert (peak.max() / peak.min() - 1 < 1e-3).all()  # without a pipeline the same time


def test_the_pictures_are_those_of_the_tables(tmp_path):
    for name in make.draw(KEPT, tmp_path):
        assert alike(tmp_path / name, FOLDER / name)


def test_closed_form_is_the_golden_one_without_traffic():
    """X_160 on 5 stages, 5 micro-batches: ((K-1) max(p,m) + m + p - 1)(t_f+t_b) = 164 (t_f+t_b); on 160, 172: 331 (t_f+t_b)."""
    for one, passes in zip(configurations.PAPER, (331, 164), strict=True):
        one = replace(one, data=1)  # nothing is reduced
        layer = closed_form.layer_of(one)
        waits = layer.send_s + layer.join_s
        messages = 2 * waits * (331 if one.method == "baseline" else 160)
        assert closed_form.step_s(one) - messages == pytest.approx(passes * (layer.forward_s + layer.backward_s), rel=1e-9)


def test_closed_forms_hold_in_every_committed_table():
    for name in ("sizes", "networks", "nodes"):
        table = KEPT[name].dropna(subset="closed_form_days")
        assert (table["closed_form_days"] / table["days"]).between(0.85, 1.1).all()
        assert table["fits"].all() and (table["micro_batches"] >= table["pipeline"]).all()


@pytest.mark.parametrize("module", [closed_form, configurations])
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
