"""``clustersim gantt``: its charts, of run folders and of profiler traces, and what it refuses."""

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

CHARTS = ("gantt", "utilization", "links")


@pytest.fixture
def done(small, cli):
    """A run folder, ``done``, in the working folder."""
    assert cli("run", "e.yaml", "--no-plot", "-o", "done").status == 0
    return small.parent / "done"


@pytest.fixture
def profiled(tmp_path, monkeypatch):
    """Two ranks of a profiler, each a kernel on stream 7 and an all-reduce on stream 20; times in us."""
    monkeypatch.chdir(tmp_path)
    Path("profiled").mkdir()
    for rank in (0, 1):
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 60, "pid": 0, "tid": 7, "args": {"stream": 7}}
        reduce = {**kernel, "name": "ncclDevKernel_AllReduce_Sum_f32", "ts": 80, "dur": 20, "tid": 20, "args": {"stream": 20}}
        text = json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [kernel, reduce]})
        Path(f"profiled/rank{rank}.json").write_text(text)
    return tmp_path


def words(path):
    """What an SVG file says, from the comments that matplotlib writes beside the outlines."""
    return re.findall(r"<!-- (.*?) -->", Path(path).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_in_every_format(done, cli, chart, suffix):
    assert cli("gantt", "done", "--chart", chart, "-o", f"x{suffix}").status == 0
    assert Path(f"x{suffix}").stat().st_size > 1000


def test_the_critical_path_is_marked_where_asked_for(done, cli):
    for name, more in (("a", ()), ("b", ("--critical-path",))):
        assert cli("gantt", "done", "-o", f"{name}.svg", *more).status == 0
    assert "critical path" not in words("a.svg") and "critical path" in words("b.svg")


def test_a_rank_that_stands_for_others_says_so_and_counts_for_them(done, cli):
    present = sorted(pd.read_parquet("done/ops.parquet")["rank"].unique().tolist())
    extra = range(1000, 1000 + 3)
    table = pd.DataFrame({"rank": [*present, *extra], "simulated_as": [*present, *[present[0]] * len(extra)]})
    table.to_parquet("done/ranks.parquet")
    assert cli("gantt", "done", "-o", "a.svg").status == 0
    assert f"rank {present[0]} (x 4) compute" in words("a.svg") and f"rank {present[1]} compute" in words("a.svg")
    assert "(x n): a rank that stands for n alike" in words("a.svg")
    assert cli("gantt", "done", "-o", "b.svg", "--chart", "utilization").status == 0
    assert f"share of {len(present) + 3} ranks (%)" in words("b.svg")


@pytest.mark.parametrize("names", [("profiled",), ("profiled/rank0.json", "profiled/rank1.json")])
def test_profiler_traces(profiled, cli, names):
    assert cli("gantt", *names, "-o", "a.svg", "--critical-path").status == 0
    said = words("a.svg")
    for text in ("rank 0 stream 7", "stream 20", "rank 1 stream 7", "compute kernel", "all-reduce", "critical path"):
        assert text in said
    assert any(text.endswith(": trace 90 us") for text in said)
    assert cli("gantt", *names, "-o", "b.svg", "--chart", "utilization").status == 0
    # 60 of 90 us compute, 20 of 90 us exposed.
    assert "67 % compute" in words("b.svg") and "22 % exposed all-reduce" in words("b.svg")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["done", "--chart", "utilisation"], "did you mean 'utilization'"),
        (["done", "--chart", "links", "--critical-path"], "--critical-path: not with --chart links"),
        (["done", "--chart", "utilization", "--ranks", "0"], "--ranks: not with --chart utilization"),
        (["done", "--chart", "links", "-o", "x.html"], "unknown picture format '.html'"),
        (["done", "--chart", "utilization", "--from", "5 s"], "--from, --to: no time of the trace"),
        (["done", "--ranks", "77"], "done: rank 77 is not in the trace"),
        (["done", "done"], "expected one run folder, got 2"),
        (["none"], "none: no such run folder"),
        (["empty"], "empty: neither a run folder"),
        (["text.json"], "text.json: "),
    ],
)
def test_wrong_input_is_one_line_and_no_file(done, cli, arguments, said):
    Path("empty").mkdir()
    Path("text.json").write_text("[1, 2")
    files = sorted(os.listdir())
    result = cli("gantt", *arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err
    assert sorted(os.listdir()) == files


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame({"rank": [0], "simulated_as": [77]}), "ranks.parquet: simulated_as 77: the ops have no such rank"),
        (pd.DataFrame({"rank": [0], "simulated_as": ["0"]}), "ranks.parquet: simulated_as holds what is no whole number"),
        (pd.DataFrame({"rank": [0]}), "ranks.parquet: columns missing: simulated_as"),
    ],
)
def test_a_damaged_table_of_ranks(done, cli, table, said):
    table.to_parquet("done/ranks.parquet")
    result = cli("gantt", "done", "-o", "x.png")
    assert (result.status, result.err.count("\n")) == (2, 1) and said in result.err
    assert not Path("x.png").exists()


def test_a_trace_without_links_has_no_chart_of_them(profiled, cli):
    result = cli("gantt", "profiled", "--chart", "links")
    assert result.status == 2 and "profiled: the trace counts no traffic on links" in result.err


@pytest.mark.parametrize("chart", CHARTS)
def test_of_several_steps_the_steady_state_is_shown_as_in_analyze(small, cli, chart):
    """Of 3 steps the one in the middle; ``--from 0s`` shows all."""
    assert cli("run", "e.yaml", "--set", "steps=3", "--no-plot", "-o", "three").status == 0
    found = json.loads(cli("analyze", "three", "--json").out)
    assert found["window_begin_s"] > 0
    assert cli("gantt", "three", "--chart", chart, "-o", "a.svg").status == 0
    assert "the steady state, step 1 of 0 to 2 shown" in " ".join(" ".join(words("a.svg")).split())
    begin, end = (f"{time!r}s" for time in (found["window_begin_s"], found["window_begin_s"] + found["window_s"]))
    assert cli("gantt", "three", "--chart", chart, "-o", "b.svg", "--from", begin, "--to", end).status == 0
    assert cli("gantt", "three", "--chart", chart, "-o", "c.svg", "--from", "0s").status == 0
    numbers = [[text for text in words(name) if re.fullmatch(r"[0-9.]+", text)] for name in ("a.svg", "b.svg", "c.svg")]
    assert numbers[0] == numbers[1] != numbers[2]


@pytest.mark.parametrize("column", ["stage", "layer", "micro_batch", "start_ps", "end_ps", "rank"])
@pytest.mark.parametrize("wrong", ["x", None, float("inf")])
def test_a_column_that_holds_no_whole_numbers_is_named(done, cli, column, wrong):
    table = pd.read_parquet("done/ops.parquet")
    values = table[column].astype(object)
    values.iloc[0] = wrong
    table[column] = values.astype(str) if wrong == "x" else values.astype(float)
    table.to_parquet("done/ops.parquet")
    result = cli("gantt", "done", "-o", "x.png")
    assert (result.status, result.err.count("\n")) == (2, 1) and column in result.err and "done" in result.err
    assert not Path("x.png").exists()


def test_ops_without_places_are_drawn_all_the_same(done, cli):
    table = pd.read_parquet("done/ops.parquet")
    table[["rank", "stream", "kind", "start_ps", "end_ps"]].to_parquet("done/ops.parquet")
    assert cli("gantt", "done", "-o", "x.svg").status == 0
    assert "forward" in words("x.svg") and not any("alternate" in text for text in words("x.svg"))


def test_long_and_foreign_names_fit(done, cli):
    table = pd.read_parquet("done/ops.parquet")
    table["stream"] = table["stream"].astype(str).replace("compute", "流\n" + "q" * 3000)
    table["kind"] = table["kind"].astype(str).replace("forward", "k" * 3000)
    table.to_parquet("done/ops.parquet")
    manifest = json.loads(Path("done/manifest.json").read_text())
    Path("done/manifest.json").write_text(json.dumps(manifest | {"title": "題\x1b " + "t" * 3000}))
    for chart in CHARTS:
        result = cli("gantt", "done", "-o", f"{chart}.svg", "--chart", chart)
        assert (result.status, result.err) == (0, "")
        assert max(map(len, words(f"{chart}.svg"))) < 200


@pytest.mark.parametrize("chart", CHARTS)
def test_a_trace_in_which_nothing_takes_time(done, cli, chart):
    table = pd.read_parquet("done/ops.parquet")
    table.assign(start_ps=0, end_ps=0, wait_ps=0).to_parquet("done/ops.parquet")
    result = cli("gantt", "done", "-o", "x.png", "--chart", chart)
    assert (result.status, result.err.count("\n")) == (2, 1) and "time" in result.err
    assert not Path("x.png").exists()


def test_a_page_is_that_of_report(done, cli):
    assert cli("gantt", "done", "-o", "a.html").status == 0 and cli("report", "done", "-o", "b.html").status == 0
    assert Path("a.html").read_text() == Path("b.html").read_text()
    refused = cli("gantt", "done", "-o", "a.html", "--chart", "links")
    assert refused.status == 2 and "unknown picture format '.html'" in refused.err


@pytest.fixture
def folded(small, cli):
    """Two ranks that stand for eight: data-parallel 4 over an ideal network."""
    assert cli("run", "e.yaml", "--no-plot", "-o", "folded", "--set", "cluster=ideal", "--set",
               "parallel={pipeline: 2, data: 4}").status == 0
    assert sorted(pd.read_parquet("folded/ops.parquet")["rank"].unique().tolist()) == [0, 4]
    return small.parent / "folded"


def test_ranks_that_others_stand_for_are_shown_as_themselves(folded, cli):
    assert cli("gantt", "folded", "-o", "a.svg", "--ranks", "1,6").status == 0
    assert {"rank 1 compute", "rank 6 compute"} <= set(words("a.svg"))
    refused = cli("gantt", "folded", "-o", "b.svg", "--ranks", "8")
    assert refused.status == 2 and "rank 8 is not in the trace" in refused.err


def test_ranks_that_others_stand_for_are_exported(folded, cli):
    assert cli("convert", "folded", "--to", "parquet", "-o", "part", "--ranks", "1,5").status == 0
    part, whole = (pd.read_parquet(f"{name}/ops.parquet") for name in ("part", "folded"))
    for told, simulated in ((1, 0), (5, 4)):
        mine, theirs = part[part["rank"] == told], whole[whole["rank"] == simulated]
        assert mine[["start_ps", "end_ps"]].values.tolist() == theirs[["start_ps", "end_ps"]].values.tolist()
    assert set(part.loc[part["kind"] == "send", "peer"]) == {1, 5}
    assert pd.read_parquet("part/ranks.parquet").values.tolist() == [[1, 1], [5, 5]]
