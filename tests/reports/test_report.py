"""The report: its figures are those of the analysis, nothing of a file is taken for markup, wrong input is one line."""

import argparse
import base64
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis.answer import analyze
from clustersim.analysis.answer_text import limits
from clustersim.analysis.link_bins import link_bins
from clustersim.commands.reading import read
from clustersim.commands.report import report
from clustersim.errors import InputError
from clustersim.reports.figures import split_figure
from clustersim.reports.timeline import timeline
from clustersim.reports.words import analysis_rows, summary_rows
from clustersim.simulation import write_run
from clustersim.trace.files import write_trace
from clustersim.trace.trace import Trace
from clustersim.units import time_text
from tests.conftest import SMALL
from tests.helpers import simulated

EVIL = '</script><img src=x onerror=alert(1)><a href="http://example.org">'
NO_ROWS = pd.DataFrame({"op": np.zeros(0, int), "on": np.zeros(0, int)})


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_run(simulated(SMALL), folder)
    return folder


def made(folder, output, **more):
    given = {"trace": [str(folder)], "output": str(output), "ranks": None, "start": None, "end": None, "json": False, **more}
    report(argparse.Namespace(**given))
    return output.read_text(encoding="utf-8")


def own(text):
    """The page without the plotting library."""
    scripts = re.findall(r"<script>.*?</script>", text, flags=re.DOTALL)
    return text.replace(max(scripts, key=len), "")


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)[1])


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])


def table(ops=6, name="op", **columns):
    place = np.arange(ops)
    given = {
        "op": place, "rank": place % 2, "stream": "compute", "kind": "forward", "name": name, "stage": 0, "layer": 0, "micro_batch": place,
        "start_ps": place * 10**9, "end_ps": (place + 1) * 10**9, "wait_ps": 0, "bytes": 0, "group": "", "peer": -1,
    }  # fmt: skip
    return pd.DataFrame({**given, **columns})


def trace_of(ops):
    return Trace(ops, NO_ROWS, pd.DataFrame({"link": []}), pd.DataFrame({"rank": [], "time_ps": [], "bytes": [], "what": []}))


@pytest.fixture
def profiled(tmp_path):
    """Two ranks of a profiler, each a kernel and an all-reduce; times in us."""
    folder = tmp_path / "profiled"
    folder.mkdir()
    for rank in (0, 1):
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 60, "pid": 0, "tid": 7, "args": {"stream": 7}}
        reduce = {**kernel, "name": "ncclDevKernel_AllReduce_Sum_f32", "ts": 80, "dur": 20, "tid": 20, "args": {"stream": 20}}
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [kernel, reduce]}))
    return folder


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.attributes = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += attrs


def test_the_page_asks_the_network_for_nothing_and_holds_the_library_once(run_folder, tmp_path):
    text = made(run_folder, tmp_path / "r.html")
    assert "http://" not in own(text) and "https://" not in own(text)
    assert text.count("plotly.js v") == 1
    tags = Tags()
    tags.feed(own(text))
    assert not [value for name, value in tags.attributes if name in ("src", "srcset") or (name == "href" and value != "data:,")]
    assert "default-src 'none'" in text
    assert list(tmp_path.iterdir()) == [tmp_path / "r.html"]


def test_the_figures_are_those_of_the_analysis(run_folder, tmp_path):
    text = html.unescape(made(run_folder, tmp_path / "r.html"))
    run = read([str(run_folder)]).run
    analysis = analyze(run.data.trace, None, run.data.link_totals)
    answer = limits(analysis)
    assert answer[0].upper() + answer[1:] in text
    for name, value, meaning in [*analysis_rows(analysis), *summary_rows(run.data.summary)]:
        assert f"<td>{name}</td><td>{value}</td><td>{meaning}</td>" in text
    rows = dict(row[:2] for row in analysis_rows(analysis))
    assert rows["window"] == time_text(run.data.summary["step_time_s"])
    assert rows["idle"].startswith(time_text(run.data.summary["idle_s"]))


def test_the_parts_of_every_bar_add_up_to_the_window(run_folder):
    run = read([str(run_folder)]).run
    analysis = analyze(run.data.trace, None, run.data.link_totals)
    figure = split_figure(analysis, tuple(analysis.ranks["rank"]))
    lengths = np.sum([part["x"] for part in figure["data"]], axis=0)
    np.testing.assert_allclose(lengths, figure["layout"]["xaxis"]["range"][1])
    assert len(lengths) == len(analysis.ranks) + 1


def test_what_the_ranks_do_over_time_adds_up_to_all_of_them(run_folder, tmp_path):
    figure = data(made(run_folder, tmp_path / "r.html"))["figures"]["activity"]
    shares = [unpacked(part["y"]) for part in figure["data"]]
    np.testing.assert_allclose(np.sum(shares, axis=0), 100, rtol=1e-5)
    names = [part["name"] for part in figure["data"]]
    assert names[0] == "compute" and any(name.startswith("exposed ") for name in names) and any(name.startswith("idle: ") for name in names)


def test_a_profiler_trace_says_what_it_can(profiled, tmp_path):
    text = html.unescape(made(profiled, tmp_path / "r.html"))
    assert "measured, not simulated" in text and "The trace counts no memory." in text and "The trace counts no traffic on links." in text
    assert "no bytes, no bandwidth" in text  # a note on what was left out
    rows = dict(row[:2] for row in re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", text))
    # 90 us, of which 60 compute and 20 exposed.
    assert rows["window"] == "90 us" and rows["compute"] == "60 us (67 %)" and rows["exposed communication"] == "20 us (22 %)"
    assert "ops without slack" not in rows
    assert data(text)["gantt"]["rows"] == ["rank 0 stream 7", "rank 0 stream 20", "rank 1 stream 7", "rank 1 stream 20"]


def test_ranks_count_for_those_that_they_stand_for(tmp_path):
    """Rank 0 computes all the time, rank 1 half of it: 75 % of the two, 87.5 % where rank 0 stands for three."""
    ops = table(ops=2, start_ps=0, end_ps=np.array([10**9, 5 * 10**8]))
    write_trace(trace_of(ops), tmp_path / "run")
    shares = {0: "750 us (75 %)", 2: "875 us (88 %)"}
    for more, expected in shares.items():
        ranks = [0, 1, *range(2, 2 + more)]
        pd.DataFrame({"rank": ranks, "simulated_as": [0, 1] + [0] * more}).to_parquet(tmp_path / "run" / "ranks.parquet")
        text = made(tmp_path / "run", tmp_path / "r.html")
        assert f"<td>compute</td><td>{expected}</td>" in text
        assert unpacked(data(text)["figures"]["activity"]["data"][0]["y"]).max() == 100
        assert ("rank 0 (x 3) compute" in data(text)["gantt"]["rows"]) == bool(more)


def test_the_gantt_holds_every_op_with_its_times_and_slack(run_folder, tmp_path):
    found = data(made(run_folder, tmp_path / "r.html"))["gantt"]
    run = read([str(run_folder)]).run
    analysis = analyze(run.data.trace, None, run.data.link_totals)
    ops = run.data.trace.ops.assign(slack=analysis.slack)
    ops = ops[ops["end_ps"] > ops["start_ps"]]
    assert found["total"] == found["known"] == len(ops)
    for column, key in (("start_ps", "start_ps"), ("end_ps", "end_ps"), ("slack", "slack_ps"), ("bytes", "bytes"), ("layer", "layer")):
        assert sorted(unpacked(found["ops"][key]).tolist()) == sorted(ops[column].tolist())
    path = unpacked(found["path_ps"])
    assert path[0] == 0 and path[-1] == run.data.trace.makespan_ps and (np.diff(path) >= 0).all()


def test_names_from_files_are_text(tmp_path):
    folder = tmp_path / "<b>run"
    write_trace(trace_of(table(name=EVIL, stream=f"compute{EVIL}", kind=f"<i>{EVIL}")), folder)
    (folder / "manifest.json").write_text(json.dumps({"title": EVIL, "version": EVIL, "inputs": {EVIL: EVIL}}))
    text = made(folder, tmp_path / "r.html")
    tags = Tags()
    tags.feed(own(text))
    assert not {"img", "a", "i", "b"} & set(tags.found)
    assert text.count("</script>") == made(write_plain(tmp_path), tmp_path / "s.html").count("</script>")
    shown = data(text)["gantt"]
    assert not [one for one in (*shown["names"], *shown["rows"], *shown["streams"], *(k["label"] for k in shown["kinds"])) if "<" in one]


def write_plain(tmp_path):
    write_trace(trace_of(table()), tmp_path / "plain")
    return tmp_path / "plain"


def test_many_ops_are_thinned_and_the_page_says_so(tmp_path):
    ops = table(ops=30_000, rank=np.arange(30_000) % 100)
    trace = trace_of(ops.assign(end_ps=ops["start_ps"] + 10**9 - np.arange(len(ops))))
    chart = timeline(trace.ops, analyze(trace), max_ops=50)
    assert len(chart.ops) == 50 and len(chart.chart.shown_ranks) == 64 and chart.narrow == chart.ops_in_window == 19_200
    length = trace.ops["end_ps"] - trace.ops["start_ps"]
    shown = length[trace.ops["rank"].isin(chart.chart.shown_ranks)]
    assert (chart.ops["end_ps"] - chart.ops["start_ps"]).min() > shown.nlargest(51).min()
    busy_ps = chart.busy.sum() * chart.column_ps
    assert busy_ps == pytest.approx(shown.sum())  # merged, not dropped
    write_trace(trace, tmp_path / "run")
    assert "64 of 100 ranks are shown" in made(tmp_path / "run", tmp_path / "r.html")


def test_link_bins_move_the_bytes_of_the_links():
    links = pd.DataFrame({"link": ["a", "a", "b"], "start_ps": [0, 6, 2], "end_ps": [3, 8, 10], "rate_bytes_s": [5.0, 10.0, 2.0]})
    found = link_bins(links, pd.Series({"a": 10, "b": 4}), ["a", "b"], (0, 10), 5)
    assert found.tolist() == [[0.5, 0.25, 0, 1, 0], [0, 0.5, 0.5, 0.5, 0.5]]
    assert (found.sum(axis=1) * 2).tolist() == [(15 + 20) / 10, 16 / 4]


def test_a_window_and_ranks(run_folder, tmp_path):
    run = read([str(run_folder)]).run
    rank = int(run.data.trace.ops["rank"].min())
    end = run.data.trace.makespan_ps // 2
    found = data(made(run_folder, tmp_path / "r.html", ranks=str(rank), end=f"{end / 1e12} s"))["gantt"]
    assert {label.split()[1] for label in found["rows"]} == {str(rank)}
    assert found["end_ps"] == pytest.approx(end, abs=1)


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        (lambda folder: (folder / "ops.parquet").unlink(), {}, "ops.parquet: no such file"),
        (lambda folder: (folder / "ops.parquet").write_bytes(b"PAR1"), {}, "not a readable Parquet"),
        (lambda folder: (folder / "manifest.json").write_text("{"), {}, "manifest.json: not readable JSON"),
        (lambda folder: (folder / "summary.json").write_text("[1]"), {}, "summary.json: expected a JSON object"),
        (lambda folder: table(stage="x").to_parquet(folder / "ops.parquet"), {}, "ops.parquet: stage"),
        (lambda folder: table(ops=0).to_parquet(folder / "ops.parquet"), {}, "no ops"),
        (lambda folder: table(start_ps=0, end_ps=0).to_parquet(folder / "ops.parquet"), {}, "takes time"),
        (lambda folder: None, {"ranks": "77"}, "rank 77"),
        (lambda folder: None, {"start": "5"}, "--from"),
        (lambda folder: None, {"start": "5 s"}, "--from, --to"),
    ],
)
def test_wrong_input_is_one_line_and_no_file(tmp_path, change, more, said):
    folder = write_plain(tmp_path)
    change(folder)
    with pytest.raises(InputError, match=re.escape(said)) as error:
        made(folder, tmp_path / "out" / "r.html", **more)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_report_is_a_page(run_folder, tmp_path):
    with pytest.raises(InputError, match=r"a name that ends in .html"):
        made(run_folder, tmp_path / "r.png")


def test_a_place_that_cannot_be_written(run_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        made(run_folder, tmp_path / "file" / "r.html")
