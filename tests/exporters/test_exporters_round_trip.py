"""An export read again gives the same analysis, to the last digit: a tighter bound than the nanosecond an op that the formats promise."""

import io
import json
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.cli import main
from clustersim.exporters import chrome, kineto, tables
from clustersim.exporters.files import write_file, write_folder
from clustersim.exporters.selection import complete, cut
from clustersim.importers import exported
from clustersim.importers.exported import is_export, read_exports
from clustersim.simulation import write_run
from clustersim.trace.files import TABLES, RunData
from clustersim.trace.trace import Trace
from tests.exporters.samples import DELAYED, every_kind, run_of
from tests.helpers import simulated

MODEL = "model: {layers: 8, hidden: 64, heads: 4}\ncluster: pcie-ethernet\nbatch: {global: 16, micro: 1, sequence: 128}\n"
NODES = MODEL.replace("pcie-ethernet", "paper-a100")
EXPERTS = MODEL.replace("heads: 4", "heads: 4, experts: 4, top_k: 2")
JOBS = {
    "1f1b with tensor": NODES + "parallel: {data: 2, pipeline: 4, tensor: 4}\nstrategy: {name: 1f1b}\n",
    "lga with partition": MODEL + "parallel: {data: 8}\nstrategy: {name: lga, partition: parameters}\n",
    "mpp": MODEL + "parallel: {data: 2, pipeline: 4}\nstrategy: {name: mpp}\n",
    "zb-v with context": MODEL + "parallel: {pipeline: 4, context: 2}\nstrategy: {name: zb-v}\n",
    "experts": EXPERTS + "parallel: {data: 4, expert: 4, tensor: 2}\nstrategy: {name: standard}\n",
    "offload, three steps": MODEL + "parallel: {data: 8}\nstrategy: {name: standard, offload: all}\nsteps: 3\n",
    "without links": DELAYED,
}


FOLDED = ("1f1b with tensor", "lga with partition")


@pytest.fixture(scope="module", params=[*JOBS, *(f"{job}, folded" for job in FOLDED)])
def run(request) -> RunData:
    """Two jobs are there with every rank, and again with one for all that are alike."""
    job = request.param.removesuffix(", folded")
    found = run_of(JOBS[job], fold=job != request.param)
    ranks, simulated = found.summary["ranks"], found.trace.ops["rank"].unique()
    assert (len(simulated) < ranks) == (job != request.param)
    stands_for = [one if one in simulated else 0 for one in range(ranks)]  # means weigh by it
    return replace(found, ranks=pd.DataFrame({"rank": range(ranks), "simulated_as": stands_for}))


def said(place: Path, *options: str) -> dict:
    """What ``clustersim analyze --json`` says of it."""
    with redirect_stdout(io.StringIO()) as out:
        assert main(["analyze", str(place), "--json", *options]) == 0
    return json.loads(out.getvalue())


def as_parquet(run: RunData, folder: Path) -> Path:
    write_folder(tables.parquet(run).parts, folder / "parquet", lambda count: None)
    return folder / "parquet"


def as_chrome(run: RunData, folder: Path) -> Path:
    [part] = chrome.export(run, "t.json.gz").parts
    return write_file(part, folder / "t.json.gz", lambda count: None)[0]


def as_kineto(run: RunData, folder: Path) -> Path:
    write_folder(kineto.export(run).parts, folder / "kineto", lambda count: None)
    return folder / "kineto"


def test_chrome_gives_the_same_analysis(run, tmp_path):
    assert said(as_chrome(run, tmp_path)) == said(as_parquet(run, tmp_path))


def test_chrome_gives_all_that_the_run_folder_has(run, tmp_path):
    back = read_exports([as_chrome(run, tmp_path)])
    assert back.manifest == run.manifest and back.summary == run.summary
    for name in ("ranks", "link_totals"):
        pd.testing.assert_frame_equal(getattr(back, name), getattr(run, name), check_dtype=False, check_exact=True)


def test_chrome_gives_the_same_tables(run, tmp_path):
    back = read_exports([as_chrome(run, tmp_path)])
    for name in ("ops", "dependencies", "links", "memory"):
        ours, again = (plain(getattr(one.trace, name)) for one in (run, back))
        if name == "dependencies":
            ours = ours.sort_values("op", kind="stable", ignore_index=True)
        if name == "links":
            ours, again = (one.sort_values(["link", "start_ps"], ignore_index=True) for one in (ours, again))
        pd.testing.assert_frame_equal(ours, again, check_dtype=False)


def plain(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype({name: object for name in table if table[name].dtype == "category"})


def test_kineto_gives_the_same_analysis_but_for_links_and_memory(run, tmp_path):
    trace = Trace(run.trace.ops, run.trace.dependencies, run.trace.links[:0], run.trace.memory[:0])
    assert said(as_kineto(run, tmp_path)) == said(as_parquet(replace(run, trace=trace), tmp_path))


def test_csv_is_the_tables_for_pandas(run, tmp_path):
    write_folder(tables.csv(run).parts, tmp_path / "out", lambda count: None)
    read = {name: pd.read_csv(tmp_path / "out" / f"{name}.csv", keep_default_na=False) for name in TABLES}
    empty = {name: getattr(run.trace, name) for name, table in read.items() if not len(table)}  # text without rows says no types
    back = complete(Trace(**read | empty))
    pd.testing.assert_frame_equal(plain(back.ops), plain(run.trace.ops), check_dtype=False)


def test_a_part_gives_the_same_analysis(tmp_path, capsys):
    whole = run_of(JOBS["1f1b with tensor"])
    half = whole.trace.makespan_ps // 2
    for name, part in (("ranks", cut(whole, ranks={1, 5})), ("times", cut(whole, start_ps=half))):
        chart = as_chrome(part, tmp_path / name)
        assert said(chart) == said(as_parquet(part, tmp_path / name))
        assert read_exports([chart]).manifest["cut"]
    assert main(["analyze", str(tmp_path / "ranks" / "parquet")]) == 0
    assert "2 ranks" in (told := capsys.readouterr().out) and "stand for" not in told


def test_a_rank_may_be_read_alone(run, tmp_path):
    rank = int(run.trace.ops["rank"].max())
    alone = as_kineto(run, tmp_path) / f"rank{rank}.json.gz"
    trace = cut(run, ranks={rank}).trace
    part = cut(replace(run, trace=Trace(trace.ops, trace.dependencies, trace.links[:0], trace.memory[:0])), ranks={rank})
    expected = as_parquet(replace(part, manifest=run.manifest), tmp_path)
    assert said(alone)["ranks"] == said(expected)["ranks"]


TIMES, STREAMS = st.integers(0, 5000), st.sampled_from(["compute", "data", "send:1", 'data (2) "'])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), STREAMS, TIMES, TIMES, TIMES, st.text(max_size=3)), min_size=1, max_size=20))
def test_any_picosecond_comes_back(rows):
    """Ops that overlap, that have no duration, that share a nanosecond; streams called as a second lane is."""
    kinds = {"compute": "forward", "data": "reduce", "send:1": "send", 'data (2) "': "tensor"}
    ops = pd.DataFrame(rows, columns=["rank", "stream", "start_ps", "span", "wait_ps", "name"])
    ops = ops.assign(kind=ops["stream"].map(kinds), end_ps=ops["start_ps"] + ops["span"], flops=0.1).drop(columns="span")
    other = every_kind()
    trace = complete(Trace(ops, other.dependencies[:0], other.links, other.memory))
    with tempfile.TemporaryDirectory() as folder:
        for made in (as_chrome(RunData(trace), Path(folder)), as_kineto(RunData(trace), Path(folder))):
            pd.testing.assert_frame_equal(plain(read_exports([made]).trace.ops), plain(trace.ops), check_dtype=False)


def test_exports_are_analysed_and_converted_on(cli, small):
    write_run(simulated(JOBS["lga with partition"] + "steps: 3\n"), Path("a"))
    for format, name in (("chrome", "c.json.gz"), ("kineto", "k"), ("parquet", "p")):
        assert cli("convert", "a", "--to", format, "-o", name).status == 0
        for options in ([], ["--step", "1"], ["--from", "1 ms"]):
            ours, again = said(Path("a"), *options), said(Path(name), *options)
            for one in (*ours["ranks"], *again["ranks"]) if format == "kineto" else ():  # whose files have no memory
                one.update(peak_memory_bytes=None, peak_memory_at_s=None)
            assert again["ranks"] == ours["ranks"] and again["window_s"] == ours["window_s"]
        assert cli("convert", name, "--to", "parquet", "-o", f"{name}-p").status == 0
        assert said(Path(f"{name}-p")) == said(Path(name))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"kind":"forward",', "", "has no op or kind in its args"),
        ('"op":3,', '"op":4,', "op 4 is there 2 times"),
        ('"ts":0.000', '"ts":"soon"', "invalid JSON in the events"),
        ('"ts":0.000', '"ts":1e300', "is no time"),
        ('"stage":0', '"stage":99999999999', "larger than a trace can hold"),
        ('"ph":"C","pid":0', '"ph":"C","pid":99999999999', "larger than a trace can hold"),
        ("thread_name", "thread_nome", "has no thread_name"),
        ('"manifest": {', '"manifest": 1, "x": {', "the head of the export is damaged"),
        ("\n]}\n", "", "truncated"),
        ('"ph":"X"', '"ph":"Y"', "the export has no ops"),
    ],
)
def test_what_is_not_as_exported_is_one_line(cli, small, old, new, words):
    (small.parent / "j.yaml").write_text(JOBS["mpp"])
    assert cli("run", "j.yaml", "-o", "a", "--no-plot").status == 0 and cli("convert", "a", "--to", "chrome", "-o", "c.json").status == 0
    text = (small.parent / "c.json").read_text()
    assert old in text
    (small.parent / "c.json").write_text(text.replace(old, new))
    for command in (["analyze", "c.json"], ["convert", "c.json", "--to", "parquet", "-o", "out"]):
        result = cli(*command)
        assert result.status == 2 and words in result.err and result.err.count("\n") == 1, result.err
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize("style", [{"indent": 4}, {"separators": (",", ":")}, {"sort_keys": True}, {}])
def test_an_export_that_was_formatted_anew_is_read_all_the_same(cli, small, style):
    (small.parent / "j.yaml").write_text(JOBS["mpp"])
    assert cli("run", "j.yaml", "-o", "a", "--no-plot").status == 0 and cli("convert", "a", "--to", "chrome", "-o", "c.json").status == 0
    path = small.parent / "c.json"
    before = cli("analyze", "c.json", "--json").out
    path.write_text(json.dumps(json.loads(path.read_text()), **style))
    assert cli("analyze", "c.json", "--json").out == before != ""


def test_a_head_longer_than_what_is_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "_HEAD_BYTES", 20)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"clustersim": {"manifest": {"title": "ü" * 500}, "summary": {}}, "traceEvents": []}))
    assert exported._about(path) == {"manifest": {"title": "ü" * 500}, "summary": {}}


def test_exports_of_two_runs_are_refused(cli, small):
    for name, batch in (("a", "16"), ("b", "32")):
        assert cli("run", "e.yaml", "--set", f"batch.global={batch}", "-o", name, "--no-plot").status == 0
        assert cli("convert", name, "--to", "kineto", "-o", f"k{name}").status == 0
    assert is_export(small.parent / "ka") and not is_export(small.parent / "a")
    result = cli("analyze", "ka/rank0.json.gz", "kb/rank1.json.gz")
    assert result.status == 2 and "exports of different runs" in result.err
    (small.parent / "ka" / "rank9.json").write_text('{"traceEvents": []}')
    result = cli("analyze", "ka")
    assert result.status == 2 and "rank9.json: not an export of clustersim" in result.err
