"""What the pictures of a sweep show."""

import re

import pytest

import clustersim
from clustersim.plots.sweep import axis_fields, curves, heat_maps, line_groups
from clustersim.sweeps.knee import Knee
from clustersim.sweeps.vary import Value, parse_field
from tests.conftest import SMALL

FIELDS = [parse_field("strategy.name=standard,mpp"), parse_field("network.bandwidth=1,10Gb/s"), parse_field("model.hidden=64,65536")]


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    (path := tmp_path_factory.mktemp("pictures") / "e.yaml").write_text(SMALL)
    vary = {field.path: [value.text for value in field.values] for field in FIELDS}
    return clustersim.sweep(path, vary, ["batch.global=4", "parallel={data: 2, pipeline: 2}"], knees=False)


def test_a_line_for_all_that_is_not_the_axis(frame):
    assert [field.path for field in axis_fields(FIELDS)] == ["network.bandwidth", "model.hidden"]
    groups = line_groups(frame, FIELDS, zipped=False)
    assert [label for label, _ in groups] == [
        "standard, model.hidden 64", "standard, model.hidden 65536", "mpp, model.hidden 64", "mpp, model.hidden 65536",
    ]  # fmt: skip
    assert all(rows["network.bandwidth"].tolist() == [1.25e8, 1.25e9] for _, rows in groups)
    assert [label for label, _ in line_groups(frame, FIELDS, zipped=True)] == ["standard", "mpp"]


def test_a_bandwidth_is_the_axis_whatever_comes_first():
    texts = ("batch.global=4,8", "nvlink.bandwidth=1,2GB/s", "strategy.name=lga,mpp", "pcie.bandwidth=1,2GB/s")
    assert [field.path for field in axis_fields(list(map(parse_field, texts)))] == ["nvlink.bandwidth", "pcie.bandwidth", "batch.global"]


def test_knees_are_ticks_in_the_colours_of_their_lines(frame, tmp_path):
    slow, fast = (Value(text, int(text)) for text in ("64", "65536"))
    places = [(slow, "standard", 125e6 * 2), (fast, "standard", 125e6 * 4), (fast, "mpp", 125e6 * 6)]
    knees = [
        Knee(name, "network.bandwidth", 0.05, {"model.hidden": hidden, "strategy.name": Value(name, None)}, high_bytes_s=int(at))
        for hidden, name, at in places
    ]
    fields = [FIELDS[2], FIELDS[1], FIELDS[0]]
    text = curves(frame, fields, tmp_path / "c.svg", title="", metrics=("slowdown",), knees=knees).read_text()
    ticks = re.findall(r'<path id="\w+" d="[^"]*" style="stroke: (#\w+); stroke-width: 2.4"', text)
    # Lines in the order of the rows: 64 standard, 65536 standard, 64 mpp, 65536 mpp.
    assert ticks == ["#e69f00", "#0072b2", "#cc79a7"]
    assert "stroke-width: 2.4" not in curves(frame, fields, tmp_path / "d.svg", title="", metrics=("slowdown",)).read_text()


def test_curves_name_the_axis_its_unit_the_lines_and_what_does_not_fit(frame, tmp_path):
    text = curves(frame, FIELDS, tmp_path / "c.svg", title="a title").read_text()
    lines = ("standard, model.hidden 64", "mpp, model.hidden 65536")
    for said in ("network.bandwidth (Gb/s)", "step time (s)", "peak memory (GB)", *lines, "hollow: does not fit in memory", "a title"):
        assert f"<!-- {said} -->" in text
    fits = frame[frame["status"] == "ok"]
    assert len(fits) == 4 and "does not fit" not in curves(fits, FIELDS, tmp_path / "d.svg", title="").read_text()


def test_a_heat_map_has_a_number_in_each_cell_and_a_cross_where_there_is_none(frame, tmp_path):
    assert heat_maps(frame, FIELDS, tmp_path / "h.svg", metric="step_time_s", title="").is_file()
    text = (tmp_path / "h.svg").read_text()
    for value in frame["step_time_s"]:
        assert f"<!-- {value:.3g} -->" in text
    holed = frame.copy()
    holed.loc[0, "step_time_s"] = None
    gone = f"<!-- {frame['step_time_s'][0]:.3g} -->"
    rest = heat_maps(holed, FIELDS, tmp_path / "i.svg", metric="step_time_s", title="").read_text()
    assert rest.count(gone) == text.count(gone) - 1
