"""Results of earlier commands that were damaged: points of a sweep are made again, a run folder is refused by the file at fault."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

SWEEP = ["sweep", "e.yaml", "--vary", "batch.global=4,8", "--set", "model.layers=2", "--jobs", "1", "--no-knees", "--json", "-o", "out"]


def test_a_point_with_another_figure_is_made_again(small, cli):
    first = json.loads(cli(*SWEEP).out)["points"]
    store = Path("out/points.jsonl")
    one, other = store.read_text().splitlines()
    entry = json.loads(one)
    entry["row"]["step_time_s"] *= 2
    torn = other[: len(other) // 2]
    store.write_text(f"{json.dumps(entry)}\n\x00\n[[[\n{'[' * 100_000}\n{torn}")
    again = json.loads(cli(*SWEEP).out)["points"]
    assert [point | {"wall_s": 0} for point in again] == [point | {"wall_s": 0} for point in first]
    kept = store.read_text()
    assert json.loads(cli(*SWEEP).out)["points"] == again and store.read_text() == kept  # nothing is missing any more


def test_a_table_of_an_earlier_sweep_that_is_none_is_replaced(small, cli):
    assert cli(*SWEEP).status == 0
    good = Path("out/sweep.parquet").read_bytes()
    Path("out/sweep.parquet").write_bytes(b"PAR1")
    Path("out/knees.json").write_text("{")
    assert cli(*SWEEP).status == 0
    assert Path("out/sweep.parquet").read_bytes() == good and json.loads(Path("out/knees.json").read_text()) is not None


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
@pytest.mark.parametrize("name", ["summary", "manifest"])
def test_a_document_with_what_is_no_number_is_named(small, cli, name, number):
    assert cli("run", "e.yaml", "--set", "model.layers=2", "--no-plot", "-o", "run").status == 0
    document = Path(f"run/{name}.json")
    document.write_text(document.read_text().replace("{", f'{{"more": {number}, ', 1))
    for to in ("chrome", "parquet"):
        result = cli("convert", "run", "--to", to, "-o", "x.json")
        assert (result.status, result.out) == (2, "")
        assert result.err.startswith(f"clustersim: run/{name}.json: not readable JSON: {number} is ") and result.err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["e.yaml", "run"]


@pytest.mark.parametrize("command", ["analyze run", "gantt run -o g.svg", "report run -o r.html", "convert run --to csv -o c"])
@pytest.mark.parametrize("name", ["ops", "dependencies", "links", "memory", "link_totals", "ranks"])
@pytest.mark.parametrize("damage", [b"", b"PAR1", b"\x00" * 1000, None], ids=["empty", "magic", "zeros", "cut"])
def test_an_unreadable_table_is_named(small, cli, command, name, damage):
    assert cli("run", "e.yaml", "--set", "model.layers=2", "--no-plot", "-o", "run").status == 0
    table = Path(f"run/{name}.parquet")
    table.write_bytes(table.read_bytes()[:-20] if damage is None else damage)
    result = cli(*command.split())
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"clustersim: run/{name}.parquet: not a readable Parquet table") and result.err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["e.yaml", "run"]


@pytest.mark.parametrize("command", ["analyze run", "report run -o r.html", "gantt run --chart links -o g.svg", "convert run --to csv"])
def test_a_link_that_is_there_twice_is_named(small, cli, command):
    assert cli("run", "e.yaml", "--set", "model.layers=2", "--no-plot", "-o", "run").status == 0
    table = pd.read_parquet("run/link_totals.parquet")
    first = str(table["link"].iloc[0])
    pd.concat([table, table.iloc[:1]]).to_parquet("run/link_totals.parquet")
    result = cli(*command.split())
    assert (result.status, result.out) == (2, "")
    assert result.err == f"clustersim: run/link_totals.parquet: link: '{first}' is there twice; expected one row a link\n"


@pytest.mark.parametrize("columns", ["[{}]", "[3]", "3", "[", '[{"name": "link", "numpy_type": 9}]'])
def test_a_table_whose_notes_are_damaged_is_read_or_named(small, cli, columns):
    """Parquet files say in a note, as JSON, what pandas they came from; nothing in it is needed."""
    assert cli("run", "e.yaml", "--set", "model.layers=2", "--no-plot", "-o", "run").status == 0
    table = pyarrow.parquet.read_table("run/link_totals.parquet").replace_schema_metadata({b"pandas": f'{{"columns": {columns}}}'.encode()})
    pyarrow.parquet.write_table(table, "run/link_totals.parquet")
    result = cli("analyze", "run", "--json")
    named = result.err.startswith("clustersim: run/link_totals.parquet: not a readable Parquet table") and result.err.count("\n") == 1
    assert result.status == 0 or (result.status == 2 and named)
