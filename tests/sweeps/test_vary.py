"""Values and ranges as they are written, and grids of them."""

import itertools
import re

import pytest

from clustersim.errors import InputError
from clustersim.sweeps.settings import read_plan
from clustersim.sweeps.vary import combined, parse_field


def texts(text):
    return [value.text for value in parse_field(text).values]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1..8", ["1", "2", "4", "8"]),
        ("a=1..10", ["1", "2", "4", "8", "10"]),
        ("a=3..3", ["3", "3"][:1]),
        ("a=1..9:lin5", ["1", "3", "5", "7", "9"]),
        ("a=1..5:lin9", ["1", "2", "3", "4", "5"]),  # whole numbers stay whole, each once
        ("a=0.5..1.0:lin3", ["0.5", "0.75", "1"]),
        ("a=-1..1:lin3", ["-1", "0", "1"]),
        ("a=1..1000Gb/s:log4", ["1 Gb/s", "10 Gb/s", "100 Gb/s", "1000 Gb/s"]),
        ("a=100Mb/s..10Gb/s:log3", ["0.1 Gb/s", "1 Gb/s", "10 Gb/s"]),
        ("a=1,10,25 Gb/s", ["1 Gb/s", "10 Gb/s", "25 Gb/s"]),
        ("a=0,1..2us", ["0 us", "1 us", "2 us"]),
        ("a=lga, mpp,1f1b", ["lga", "mpp", "1f1b"]),
        ("a={x: 1, y: [2, 3]},{x: 2}", ["{x: 1, y: [2, 3]}", "{x: 2}"]),
        ('a="p,q",r', ['"p,q"', "r"]),
        ("a=../model/config.json", ["../model/config.json"]),
    ],
)
def test_what_values_mean(text, values):
    assert texts(text) == values


def test_values_in_base_units():
    assert [value.number for value in parse_field("a=8,16Gb/s").values] == [10**9, 2 * 10**9]
    assert [value.number for value in parse_field("a=1.5us").values] == [1.5e-6]
    assert [value.number for value in parse_field("a=8,0.5,yes").values] == [8, 0.5, None]
    assert (parse_field("a=1KB..4KB").base_unit, parse_field("a=1").base_unit, parse_field("a=mpp").base_unit) == ("B", "", "")


@pytest.mark.parametrize("steps", [2, 5, 8, 33])
def test_log_ranges_have_equal_ratios_and_exact_ends(steps):
    numbers = [value.number for value in parse_field(f"network.bandwidth=10..400Gb/s:log{steps}").values]
    assert (len(numbers), numbers[0], numbers[-1]) == (steps, 1.25e9, 50e9)
    assert [b / a for a, b in itertools.pairwise(numbers)] == pytest.approx([40 ** (1 / (steps - 1))] * (steps - 1), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("network.bandwidth", "expected PATH=VALUES"),
        ("=1,2", "expected PATH=VALUES"),
        ("a..b=1", "expected PATH=VALUES"),
        ("a=", "a value is missing"),
        ("a=1,,2", "a value is missing"),
        ("a=5..1", "reversed"),
        ("a=0..8", "above zero"),
        ("a=0..8us:log3", "a range at equal ratios cannot start at 0; allowed: a first value above zero, or equal steps, as 0..8us:lin5"),
        ("a=1..8:lin1", ":lin1 asks for 1 value; allowed: 2 to 10,000"),
        ("a=1..8:log20000", ":log20000 asks for 20000 values; allowed: 2 to 10,000"),
        ("a=1..8:exp4", "1..8:exp4 is no range; expected a..b, a..b:lin5 or a..b:log8, for example network.bandwidth=10..400Gb/s:log8"),
        ("a=1..2Gb", "unknown unit 'Gb'"),
        ("a=1GB..2Gb/s", "not units of one kind"),
        ("a=1us,2GB", "not all of one sort"),
        ("a=1us,mpp", "not all of one sort"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text, said):
    with pytest.raises(InputError) as refused:
        parse_field(text)
    assert said in str(refused.value) and str(refused.value).startswith("--vary ") and "\n" not in str(refused.value)


def test_all_combinations_or_side_by_side():
    fields = [parse_field("a=1,2"), parse_field("b=x,y")]
    assert [[value.text for value in point.values()] for point in combined(fields)] == [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]
    assert [[value.text for value in point.values()] for point in combined(fields, zipped=True)] == [["1", "x"], ["2", "y"]]
    with pytest.raises(InputError, match=r"--zip: .*a 2, c 3"):
        combined([fields[0], parse_field("c=1,2,3")], zipped=True)
    with pytest.raises(InputError, match="1,000,000 points; allowed: at most 100,000"):
        combined([parse_field("a=1..1000:lin1000"), parse_field("b=1..1000:lin1000")])


def planned(small, section, vary=(), **more):
    small.write_text(small.read_text() + section)
    return read_plan("e.yaml", vary, **more)


def test_the_section_of_the_file(small):
    vary = "  vary: {strategy.name: [standard, mpp], network.bandwidth: '1..4Gb/s', batch.micro: 2}\n"
    made = planned(small, f"sweep:\n{vary}  zip: false\n  tolerance_percent: 2\n  metric: mfu\n")
    assert {field.path: [value.text for value in field.values] for field in made.plan.fields} == {
        "strategy.name": ["standard", "mpp"], "network.bandwidth": ["1 Gb/s", "2 Gb/s", "4 Gb/s"], "batch.micro": ["2"],
    }  # fmt: skip
    assert (made.plan.tolerance, made.plan.zipped, made.metric) == (0.02, False, "mfu")
    assert "sweep" not in made.plan.base.document.data


def test_the_caller_has_the_last_word(small):
    made = planned(small, "sweep: {vary: {batch.micro: [1, 2], batch.global: 16}}\n", {"batch.micro": [4]}, tolerance_percent=1)
    assert {field.path: len(field.values) for field in made.plan.fields} == {"batch.micro": 1, "batch.global": 1}
    assert made.plan.fields[0].values[0].number == 4 and made.plan.tolerance == 0.01


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("sweep: {very: {}}\n", "e.yaml:6: sweep.very: unknown key; did you mean 'vary'?"),
        ("sweep: {vary: [1]}\n", "e.yaml:6: sweep.vary: expected a mapping"),
        ("sweep:\n  vary:\n    batch.micro: {a: 1}\n", "e.yaml:8: sweep.vary.batch.micro: expected values, ranges or a list"),
        ("sweep:\n  vary:\n    batch.micro: 4..1\n", "e.yaml:8: sweep.vary.batch.micro: the range 4..1 is reversed"),
        ("sweep: {vary: {batch.micro: []}}\n", "at least one value"),
        ("sweep: {vary: {batch.micro: 2}, tolerance_percent: 0}\n", "e.yaml:6: sweep.tolerance_percent: expected a number above 0"),
        ("sweep: {vary: {strategy: mpp, strategy.name: lga}}\n", "e.yaml: sweep.vary: a path is given twice"),
        ("sweep: {vary: {batch.micro: 2}, zip: 1}\n", "e.yaml:6: sweep.zip: expected true or false"),
        ("", "--vary: nothing to vary"),
    ],
)
def test_a_wrong_section_is_refused_with_its_line(small, section, said):
    with pytest.raises(InputError) as refused:
        planned(small, section)
    assert said in str(refused.value)


def test_other_commands_take_a_file_with_a_sweep_and_refuse_its_unknown_keys(small, cli):
    small.write_text(small.read_text() + "sweep: {vary: {batch.micro: [1, 2]}}\n")
    assert cli("run", "e.yaml", "--no-plot", "-o", "out").status == 0
    refused = cli("run", "e.yaml", "--no-plot", "-o", "out", "--set", "sweep.verry=1")
    assert refused.status == 2 and "sweep.verry: unknown key; did you mean 'vary'?" in refused.err


def test_a_path_twice_is_refused():
    with pytest.raises(InputError, match="given twice"):
        read_plan("pipeline-shapes", ["batch.global=8", "batch.global=16"])


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        (["strategy.name=standard", "strategy=lga"], "given twice: strategy.name, strategy.name"),
        (["strategy.name=standard", "strategy={name: lga}"], "strategy.name is a part of strategy; allowed: one of the two"),
        (["model.layers=8,16", "model=x-32"], "model.layers is a part of model;"),
        (["sweep.tolerance_percent=1,2"], "--vary sweep.tolerance_percent: what a sweep does cannot be varied"),
    ],
)
def test_of_two_fields_none_replaces_the_other(vary, said):
    with pytest.raises(InputError, match=re.escape(said)):
        read_plan("pipeline-shapes", vary)


def test_a_value_twice_is_one_point_of_a_grid_and_two_side_by_side():
    grid = read_plan("pipeline-shapes", ["network.bandwidth=1Gb/s,1000Mb/s", "batch.micro=1,2,1"]).plan
    assert [[value.text for value in field.values] for field in grid.fields] == [["1Gb/s"], ["1", "2"]]
    pairs = read_plan("pipeline-shapes", ["batch.global=8,8,16", "batch.micro=1,2,2"], zipped=True).plan
    points = combined(pairs.fields, pairs.zipped)
    assert [(point["batch.global"].number, point["batch.micro"].number) for point in points] == [(8, 1), (8, 2), (16, 2)]


def test_large_numbers_are_shown_in_full():
    field = parse_field("network.bandwidth=1000Mb/s,10Gb/s")
    assert [field.shown(bytes_s) for bytes_s in (1.25e8, 1.25e9, 29.3e9 / 8)] == ["1000 Mb/s", "10000 Mb/s", "29300 Mb/s"]


def test_the_short_form_of_a_field_is_the_field(small):
    assert [field.path for field in planned(small, "sweep: {vary: {strategy: [lga, mpp]}}\n").plan.fields] == ["strategy.name"]
    assert [field.path for field in read_plan("pipeline-shapes", ["strategy={name: lga},{name: mpp}"]).plan.fields] == ["strategy"]
    with pytest.raises(InputError, match="unknown strategy 'lgaa'"):
        read_plan("e.yaml", ["strategy=mpp,lgaa"])
