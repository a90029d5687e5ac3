"""``clustersim convert``: every format, whole or not at all, wrong input in one line."""

import gzip
import itertools
import json
import signal

import pandas as pd
import pytest

from clustersim.commands import convert as command
from clustersim.exporters import files
from clustersim.exporters.selection import rank_text

FORMATS = {"chrome": ("out.json.gz", 1), "kineto": ("out", 4), "chakra": ("out", 5), "csv": ("out", 8), "parquet": ("out", 8)}


@pytest.fixture
def run(cli, small):
    """A run folder, ``a``, of four ranks."""
    assert cli("run", "e.yaml", "--set", "parallel.tensor=1", "-o", "a", "--no-plot", "--no-fold").status == 0
    return small.parent


@pytest.mark.parametrize("format", FORMATS)
def test_files_are_written_and_listed_and_their_size_told_before(cli, run, format):
    name, count = FORMATS[format]
    result = cli("convert", "a", "--to", format, "-o", name)
    assert result.status == 0 and "about " in result.err and "ops of ranks 0-3" in result.err
    listed = result.out.split("files:\n")[1].split()
    assert len(listed) == count and all((run / path).stat().st_size for path in listed)
    assert sorted(path.name for path in run.iterdir()) == ["a", "e.yaml", name]


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_twice_is_the_same_bytes(cli, run, format):
    name, _ = FORMATS[format]
    contents = []
    for _ in range(2):
        found = json.loads(cli("convert", "a", "--to", format, "-o", name, "--json").out)
        contents.append([(run / path).read_bytes() for path in found["files"]])
        assert found["written_bytes"] == sum(map(len, contents[-1])) and found["format"] == format
        assert found["estimated_bytes"] == pytest.approx(found["written_bytes"], rel=0.2)
    assert contents[0] == contents[1]


def test_ranks_and_times_make_it_smaller(cli, run):
    ops = pd.read_parquet(run / "a" / "ops.parquet")
    middle = f"{int(ops['end_ps'].max()) // 2_000_000} us"
    whole = json.loads(cli("convert", "a", "--to", "chrome", "-o", "w.json", "--json").out)
    for options in (["--ranks", "0,2"], ["--from", middle], ["--until", middle]):
        part = json.loads(cli("convert", "a", "--to", "chrome", "-o", "p.json", "--json", *options).out)
        assert 0 < part["ops"] < whole["ops"] and part["written_bytes"] < whole["written_bytes"]
    slices = [one for one in json.loads((run / "w.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert len(slices) == whole["ops"] == len(ops)


def test_the_default_is_a_packed_file_named_after_the_run(cli, run):
    assert cli("convert", "a", "--to", "chrome").status == 0
    assert json.loads(gzip.decompress((run / "a.json.gz").read_bytes()))["traceEvents"]
    assert cli("convert", "a", "--to", "csv").status == 0 and (run / "a-csv" / "ops.csv").is_file()


def test_parquet_is_what_analyze_takes(cli, run):
    assert cli("convert", "a", "--to", "parquet", "-o", "b").status == 0
    one, other = (json.loads(cli("analyze", name, "--json").out)["ranks"] for name in "ab")
    assert one == other


# The n-th event of each rank, so many us long from so many us on; the ranks' all-reduces end together.
PROFILED = {
    0: [("gemm", 10, 100), ("ncclDevKernel_AllReduce_Sum", 60, 90)],
    1: [("gemm", 10, 60), ("ncclDevKernel_AllReduce_Sum", 100, 50)],
}


@pytest.fixture
def profiled(small):
    """A folder ``t`` of the files of two ranks."""
    (small.parent / "t").mkdir()
    for rank, rows in PROFILED.items():
        events = [
            {"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, "ts": start, "dur": span, "args": {"stream": stream}}
            for stream, (name, start, span) in enumerate(rows, 7)
        ]
        content = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (small.parent / "t" / f"r{rank}.json").write_text(json.dumps(content))
    return small.parent


@pytest.mark.parametrize("format", ["chrome", "parquet"])
def test_profiler_files_are_converted_and_analysed_alike(cli, profiled, format):
    assert cli("convert", "t", "--to", format, "-o", FORMATS[format][0]).status == 0
    ranks = json.loads(cli("analyze", FORMATS[format][0], "--json").out)["ranks"]
    # From 10 to 150 us; rank 0 computes to 110 and communicates to 150, rank 1 computes to 70 and communicates from 100.
    times = [[row[key] for key in ("compute_s", "exposed_communication_s", "hidden_communication_s", "idle_s")] for row in ranks]
    assert times == [[1e-4, 4e-5, 5e-5, 0.0], [6e-5, 5e-5, 0.0, 3e-5]]
    assert [row["communication_s"] for row in ranks] == [9e-5, 5e-5] and [row["wait_s"] for row in ranks] == [4e-5, 0.0]


@pytest.mark.parametrize("format", ["chrome", "parquet"])
def test_waits_that_could_not_be_measured_are_not_known_afterwards_either(cli, profiled, format):
    assert cli("convert", "t/r0.json", "--to", format, "-o", FORMATS[format][0]).status == 0
    [rank] = json.loads(cli("analyze", FORMATS[format][0], "--json").out)["ranks"]
    assert rank["wait_s"] is None


def test_profiler_files_become_csv_and_chakra_and_no_profiler_files(cli, profiled):
    assert cli("convert", "t", "--to", "csv", "-o", "c").status == 0
    ops = pd.read_csv("c/ops.csv", keep_default_na=False)
    assert sorted(ops["start_ps"]) == [0, 0, 50_000_000, 90_000_000] and set(ops["kind"]) == {"kernel", "all_reduce"}
    assert cli("convert", "t/r1.json", "--to", "chakra").status == 0 and (profiled / "r1-chakra" / "chakra.1.et").is_file()
    result = cli("convert", "t", "--to", "kineto", "-o", "k")
    assert result.status == 2 and "t: is a profiler trace already; allowed: --to chrome" in result.err and result.err.count("\n") == 1
    assert not (profiled / "k").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["no", "--to", "csv"], "no: no such run folder"),
        ([".", "--to", "csv", "-o", "b"], "neither a run folder (no ops.parquet) nor a folder of profiler files"),
        (["e.yaml", "--to", "csv", "-o", "b"], "e.yaml: "),
        (["a", "--to", "xml"], "unknown 'xml'"),
        (["a"], "--to"),
        (["a", "--to", "chrome", "-o", "x.txt"], "ends in .json.gz"),
        (["a", "--to", "chrome", "-o", "a"], "chrome is one file"),
        (["a", "--to", "csv", "-o", "a"], "is the run folder itself"),
        (["a", "--to", "csv", "-o", "e.yaml"], "is a file"),
        (["a", "--to", "csv", "-o", "e.yaml/x"], "cannot be written"),
        (["a", "--to", "chrome", "-o", "e.yaml/x.json"], "cannot be written"),
        (["a", "--to", "csv", "--ranks", "9"], "rank 9 is not in the trace; it has 0-3"),
        (["a", "--to", "csv", "--ranks", "3-1"], "reversed"),
        (["a", "--to", "csv", "--from", "2"], "--from: "),
        (["a", "--to", "csv", "--from", "9 s"], "no op has time between"),
        (["a", "--to", "csv", "--from", "2 ms", "--until", "1 ms"], "no op has time between"),
    ],
)
def test_wrong_input_is_one_line(cli, run, options, words):
    result = cli("convert", *options)
    assert result.status == 2 and words in result.err and result.err.count("\n") == 1 and not result.out
    assert sorted(path.name for path in run.iterdir()) == ["a", "e.yaml"]


def test_a_folder_with_other_files_is_left_alone(cli, run):
    assert cli("convert", "a", "--to", "kineto", "-o", "b").status == 0
    result = cli("convert", "a", "--to", "kineto", "-o", "b", "--ranks", "0-1")
    assert result.status == 2 and "such as rank2.json.gz" in result.err
    assert len(list((run / "b").iterdir())) == 4


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("ops", lambda t: t.assign(end_ps=t["start_ps"] - 1), "ends before it starts"),
        ("ops", lambda t: t.assign(kind="dance"), "kind 'dance' is not known"),
        ("ops", lambda t: t.assign(op=0), "same number"),
        ("ops", lambda t: t.assign(layer=None), "layer are no numbers"),
        ("ops", lambda t: t.assign(start_ps=-1), "negative"),
        ("ops", lambda t: t[:0], "no ops"),
        ("ops", lambda t: t.drop(columns="stream"), "ops.parquet: columns missing: stream"),
        ("dependencies", lambda t: pd.DataFrame({"op": [0], "on": [10**9]}), "op 1000000000 is not in the table of ops"),
        ("dependencies", lambda t: pd.DataFrame({"op": [0], "on": [10]}), "op 0 is ready before op 10, which it waits for, has ended"),
        ("dependencies", lambda t: pd.DataFrame({"op": [3, 7, 5, 0], "on": [7, 5, 3, 3]}), "in a circle: op "),
        ("link_totals", lambda t: t.assign(busy_s=float("nan")), "link_totals: busy_s: a row is missing or not finite"),
        ("link_totals", lambda t: t.assign(busy_s=pd.Timestamp(0)), "link_totals: busy_s: expected numbers"),
        ("link_totals", lambda t: t.assign(more=b"1"), "link_totals: more: expected numbers"),
        ("ranks", lambda t: t.assign(more=pd.Timestamp(0)), "ranks: more: expected numbers"),
        ("link_totals", lambda t: t.drop(columns="kind"), "link_totals.parquet: columns missing: kind"),
        ("links", lambda t: t.drop(columns="link"), "links.parquet: columns missing: link"),
        ("memory", lambda t: t.assign(bytes=0.5), "memory.parquet: bytes: row 0"),
    ],
)
def test_tables_that_contradict_themselves_are_named(cli, run, table, change, words):
    path = run / "a" / f"{table}.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    result = cli("convert", "a", "--to", "kineto", "-o", "b")
    assert result.status == 2 and words in result.err and result.err.count("\n") == 1
    assert not (run / "b").exists()


def test_a_circle_names_its_ops(cli, run):
    """Also where all happens at one instant, and no op is early."""
    circle = pd.DataFrame({"op": [3, 7, 5, 0], "on": [7, 5, 3, 3]})
    for change in ({}, {"start_ps": 9, "end_ps": 9, "wait_ps": 0}):
        pd.read_parquet("a/ops.parquet").assign(**change).to_parquet("a/ops.parquet")
        circle.to_parquet("a/dependencies.parquet")
        result = cli("convert", "a", "--to", "chakra", "-o", "b")
        named = result.err.split("circle: op ")[1].strip().split(" for ")
        assert result.status == 2 and named[0] == named[3] and set(named) == {"3", "5", "7"}
        assert {(int(one), int(other)) for one, other in itertools.pairwise(named)} == {(3, 7), (7, 5), (5, 3)}


@pytest.mark.parametrize("name", ["ops.parquet", "ranks.parquet", "summary.json", "manifest.json"])
def test_damaged_files_are_named(cli, run, name):
    (run / "a" / name).write_bytes(b"PAR1 and no more {")
    result = cli("convert", "a", "--to", "chrome", "-o", "b.json")
    assert result.status == 2 and name in result.err and "not a readable" in result.err.replace("not readable", "not a readable")
    assert result.err.count("\n") == 1 and not (run / "b.json").exists()


def test_columns_that_are_not_needed_may_be_absent(cli, run):
    path = run / "a" / "ops.parquet"
    pd.read_parquet(path)[["rank", "stream", "kind", "start_ps", "end_ps"]].to_parquet(path)
    for format, (name, _) in FORMATS.items():
        assert cli("convert", "a", "--to", format, "-o", f"{format}-{name}").status == 0


@pytest.mark.parametrize("format", ["chrome", "kineto"])
def test_what_is_broken_off_leaves_nothing(cli, run, monkeypatch, format):
    def stop(self, count):
        raise KeyboardInterrupt

    monkeypatch.setattr(command._Progress, "__call__", stop)
    assert cli("convert", "a", "--to", format, "-o", FORMATS[format][0]).status == 130
    assert sorted(path.name for path in run.iterdir()) == ["a", "e.yaml"]


@pytest.mark.parametrize("format", ["chrome", "csv"])
def test_what_is_ended_leaves_nothing(cli, run, monkeypatch, format):
    monkeypatch.setattr(command._Progress, "__call__", lambda self, count: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    assert cli("convert", "a", "--to", format, "-o", FORMATS[format][0]).status == 130
    assert sorted(path.name for path in run.iterdir()) == ["a", "e.yaml"] and signal.getsignal(signal.SIGTERM) == before


def test_progress_shows_only_when_it_takes_long(capsys):
    times = iter([0.0, 0.5, 2.0, 3.0])
    progress = command._Progress(100, lambda: next(times))
    progress(25)
    assert not capsys.readouterr().err
    progress(25)
    assert capsys.readouterr().err == "convert: 50% made, about 2 s left\n"
    progress(25)
    assert not capsys.readouterr().err


def test_texts_of_many_ranks_are_short():
    assert rank_text(range(0, 100, 2)) == "0,2,4,6,8,10,12,14 and 42 more ranges"


def test_sizes_of_many_rows_come_from_some():
    size = files.estimate(10**9, lambda rows: b"x" * 10 * (rows.stop - rows.start), packed=True)
    assert size.text_bytes == 10**10 and 0 < size.written_bytes < 10**10


def test_notes_say_what_is_not_in_the_files(cli, run):
    assert "links belong to no rank" in cli("convert", "a", "--to", "csv", "--ranks", "1", "-o", "b").err
    assert "HTA_DISABLE_NS_ROUNDING" in cli("convert", "a", "--to", "kineto", "-o", "c").err
    assert cli("run", "e.yaml", "-o", "folded", "--no-plot").status == 0
    ranks = pd.read_parquet("folded/ops.parquet")["rank"].nunique()
    note = cli("convert", "folded", "--to", "chakra", "-o", "d").err
    assert ("--no-fold" in note) == (ranks < 8)
