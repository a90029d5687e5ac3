"""``clustersim validate``: the table, the document, the files, and what is refused."""

import json

import pandas as pd
import pytest

from clustersim.errors import InputError
from clustersim.plots.scatter import scatter_writer
from clustersim.published import predict
from clustersim.published.case import TEST, Case, LeftOut, experiment, of
from clustersim.published.report import by_source, document, table

PEAK = {
    "model": {"layers": 1, "hidden": 64, "heads": 4}, "cluster": "ideal", "strategy": {"name": "standard"},
    "parallel": {"data": 1}, "batch": {"global": 1, "sequence": 128}, "cost": {"forward": "2 s", "backward": "5 s"},
}  # fmt: skip


def case(name, measured, **changes):
    return Case("example", TEST, name, "iteration time", "s", measured, (experiment(None, **{**PEAK, **changes}),), of("step_time_s"))


def test_document(cli):
    shown = cli("validate", "--source", "megatron-2020", "--json")
    assert shown.status == 0 and "experiments" in shown.err
    made = json.loads(shown.out)
    rows = made["rows"]
    assert [row["measured"] for row in rows] == [1121, 1093, 1238, 1407, 1076, 1026, 1162, 1343]
    assert set(rows[0]) == {"source", "use", "case", "quantity", "unit", "measured", "predicted", "error"}
    for row in rows:
        assert row["unit"] == "ms" and row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    fitted, tests = made["sources"]
    assert (fitted["use"], fitted["rows"]) == ("calibration", 2) and (tests["use"], tests["rows"]) == ("test", 6)
    sizes = [abs(row["error"]) for row in rows if row["use"] == "test"]
    assert tests["mape"] == pytest.approx(sum(sizes) / 6) and tests["max_ape"] == max(sizes)
    assert made["left_out"] == []


def test_table_and_files(cli, tmp_path):
    shown = cli("validate", "--source", "nccl", "-o", str(tmp_path / "out"))
    assert shown.status == 0
    assert "| nccl" not in shown.out and "nccl" in shown.out and "left out, 1 of nccl: no collective reduce" in shown.out
    files = {"rows.csv", "rows.parquet", "sources.csv", "scatter.png", "README.md"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files and all(name in shown.out for name in files)
    rows = pd.read_parquet(tmp_path / "out" / "rows.parquet")
    assert len(rows) == len(pd.read_csv(tmp_path / "out" / "rows.csv")) == 112
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"clustersim validate --source nccl -o {tmp_path / 'out'}" in page and "| nccl | calibration | collective time | 85 |" in page
    assert "no collective reduce is modelled" in page


def test_unknown_source(cli):
    shown = cli("validate", "--source", "megatron-2012")
    assert shown.status == 2 and shown.err.count("\n") == 1 and "Traceback" not in shown.err
    assert "--source megatron-2012: unknown source; did you mean 'megatron-2021'" in shown.err and "bloom" in shown.err


def test_a_place_that_cannot_be_written(cli, tmp_path):
    (tmp_path / "file").write_text("")
    shown = cli("validate", "--source", "nccl", "-o", str(tmp_path / "file" / "out"))
    assert shown.status == 2 and shown.err.startswith("clustersim: -o ") and shown.out == ""


def test_predictions_are_what_was_asked_in_its_order():
    """A layer forward and backward takes 7 s, two layers 14 s; equal experiments are simulated once."""
    done = []
    two = {**PEAK["model"], "layers": 2}
    cases = [case("two", 14.0, model=two), case("one", 10.0), case("again", 7.0)]
    predictions, left_out = predict.predict(cases, jobs=1, progress=lambda *counts: done.append(counts))
    assert [each.case.case for each in predictions] == ["two", "one", "again"]
    assert [each.predicted for each in predictions] == [14.0, 7.0, 7.0]
    assert [each.error for each in predictions] == pytest.approx([0, -0.3, 0])
    assert left_out == [] and done == [(1, 2), (2, 2)]


def test_what_is_refused_is_left_out_with_the_reason():
    def refused(_):
        raise InputError("no such layer")

    here = Case("example", TEST, "here", "layer time", "s", 1.0, (), refused)
    predictions, left = predict.predict([case("right", 7.0), case("wrong", 1.0, recompute="some"), here], jobs=1)
    assert [each.case.case for each in predictions] == ["right"]
    assert [each.case for each in left] == ["wrong, iteration time", "here, layer time"]
    assert "'some'" in left[0].reason and left[1].reason == "no such layer"


def test_nothing_predicted_is_an_empty_document():
    left_out = [{"source": "a", "case": "b", "reason": "c"}]
    assert document(table([]), [LeftOut("a", "b", "c")]) == {"rows": [], "sources": [], "left_out": left_out}
    assert by_source(table([])).empty


def example_rows():
    figures = [
        ("a", "calibration", "s", 1.0, 1.1), ("a", "test", "ms", 50.0, 40.0), ("b", "test", "GiB", 80.0, 70.0),
        ("b", "test", "pairs", 6.0, 6.0),
    ]  # fmt: skip
    frame = pd.DataFrame(figures, columns=["source", "use", "unit", "measured", "predicted"])
    return frame.assign(case="x", quantity="q", error=frame["predicted"] / frame["measured"] - 1)


def test_the_picture_has_a_panel_for_each_kind_of_unit(tmp_path):
    """Milliseconds are seconds in it, GiB are GB, and counts are not drawn."""
    path = tmp_path / "scatter.svg"
    scatter_writer(example_rows())(path)
    text = path.read_text(encoding="utf-8")
    for words in ("time (s)", "peak memory (GB)", "measured", "predicted", "calibration", "test", "within 10 %"):
        assert f"<!-- {words} -->" in text
    assert "<!-- samples" not in text and "pairs" not in text


def test_equal_rows_give_equal_pictures(tmp_path):
    paths = [tmp_path / name for name in ("1.png", "2.png")]
    for path in paths:
        scatter_writer(example_rows()[:1])(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
