"""Tables as CSV and Parquet; the selection of ranks and times."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis.answer import analyze
from clustersim.errors import InputError
from clustersim.exporters import tables
from clustersim.exporters.files import write_folder
from clustersim.exporters.selection import cut, select
from clustersim.trace.files import TABLES, RunData, read_run, read_trace
from clustersim.trace.trace import Trace
from tests.exporters.samples import JOBS, every_kind, run_of, trace_of


def test_csv_has_the_tables_to_the_picosecond():
    trace = trace_of(JOBS["pipeline"])
    for part in tables.csv(RunData(trace)).parts:
        ours = getattr(trace, part.name.removesuffix(".csv"))
        back = pd.read_csv(io.BytesIO(b"".join(part.chunks())), keep_default_na=False)
        assert list(back) == list(ours)
        for name in ours:
            assert (back[name].to_numpy() == ours[name].astype(back[name].dtype).to_numpy()).all(), name


def test_parquet_is_a_trace_again(tmp_path):
    trace = trace_of(JOBS["sharded"])
    write_folder(tables.parquet(RunData(trace)).parts, tmp_path / "out", lambda count: None)
    back = read_trace(tmp_path / "out")
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(back, name), getattr(trace, name))
    pd.testing.assert_frame_equal(analyze(back).ranks, analyze(trace).ranks)


def test_parquet_has_all_that_a_run_folder_has(tmp_path):
    run = replace(run_of(JOBS["sharded"]), ranks=pd.DataFrame({"rank": [0, 1], "simulated_as": [0, 0]}))
    write_folder(tables.parquet(run).parts, tmp_path / "out", lambda count: None)
    back = read_run(tmp_path / "out")
    for name in ("link_totals", "ranks"):
        pd.testing.assert_frame_equal(getattr(back, name), getattr(run, name))
    assert back.summary == run.summary and back.summary["step_time_s"] > 0
    assert back.manifest == run.manifest and back.manifest["inputs"]["cluster"] == "pcie-ethernet"


@pytest.mark.parametrize("rows", [0, 1_000, 350_000])
def test_the_size_is_told_within_a_fifth(rows):
    at = np.arange(rows) * 1_000_003
    ops = every_kind().ops.iloc[np.zeros(rows, dtype=np.int64)].reset_index(drop=True)
    ops = ops.assign(op=np.arange(rows), start_ps=at, end_ps=at + 7)
    for made in (tables.parquet, tables.csv):
        found = made(RunData(Trace(ops, *(getattr(every_kind(), name)[:0] for name in TABLES[1:]))))
        written = sum(len(chunk) for part in found.parts for chunk in part.chunks())
        assert found.size.written_bytes == pytest.approx(written, rel=0.2)


def test_a_part_says_that_it_is_one_and_keeps_only_what_holds():
    run = replace(run_of(JOBS["pipeline"]), ranks=pd.DataFrame({"rank": [0, 1, 2, 3], "simulated_as": [0, 1, 0, 1]}))
    assert cut(run) is run
    part = cut(run, ranks={1})
    assert part.summary == {"ranks": 8, "gpu_memory_bytes": run.summary["gpu_memory_bytes"], "simulated_ranks": 1}
    assert part.manifest == run.manifest | {"cut": {"ranks": [1]}} and part.link_totals is None
    assert part.ranks.to_numpy().tolist() == [[1, 1], [3, 1]]
    part = cut(cut(run, start_ps=10**9, end_ps=3 * 10**9), start_ps=2 * 10**9, end_ps=5 * 10**9)
    assert part.manifest["cut"] == {"from_s": 0.002, "until_s": 0.003}
    assert list(part.link_totals) == ["link", "kind", "links", "capacity_bytes_s"] and len(part.link_totals) == len(run.link_totals)


def test_ranks_are_chosen_with_their_memory_and_dependencies():
    trace = trace_of(JOBS["pipeline"])
    some = select(trace, ranks={1, 5})
    assert set(some.ops["rank"]) == {1, 5} == set(some.memory["rank"]) and not len(some.links)
    assert set(some.dependencies["op"]) | set(some.dependencies["on"]) <= set(some.ops["op"])
    whole = trace.ops[trace.ops["rank"].isin([1, 5])].reset_index(drop=True)
    pd.testing.assert_frame_equal(some.ops, whole)


def test_ops_with_time_in_the_window_stay_whole():
    trace = trace_of(JOBS["pipeline"])
    begin, end = 2_000_000_000, 3_000_000_000
    some = select(trace, start_ps=begin, end_ps=end)
    inside = (trace.ops["start_ps"] < end) & (trace.ops["end_ps"] > begin)
    assert 0 < len(some.ops) < len(trace.ops) and set(some.ops["op"]) == set(trace.ops["op"][inside])
    pd.testing.assert_frame_equal(some.ops, trace.ops[inside].reset_index(drop=True))
    assert len(some.links) < len(trace.links)


def test_memory_held_before_the_window_counts():
    some = select(every_kind(), start_ps=1_500_000, end_ps=5_000_000)
    assert some.memory[["rank", "time_ps", "bytes"]].to_numpy().tolist() == [
        [0, 1_500_000, 50], [0, 1_500_000, 100], [0, 2_000_000, -50], [1, 1_500_000, 70],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"ranks": {7}}, "rank 7 is not in the trace; it has 0-1"), ({"start_ps": 10**15}, "no op"), ({"start_ps": 5, "end_ps": 5}, "no op")],
)
def test_an_empty_choice_is_named(choice, words):
    with pytest.raises(InputError, match=words):
        select(every_kind(), **choice)
