"""Real traces with known answers: the exact figures, and those of HolisticTraceAnalysis 0.6.1."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from clustersim.analysis.hta import exact_times, hta_times
from clustersim.importers.kineto import load_kineto

DATA = Path(__file__).parents[1] / "data" / "kineto"
FOLDERS = ("hta_nccl_data", "hta_tracediff_test", "param_dlrm_8rank")
TIMES = {
    "span_us": "span_ps", "busy_us": "busy_ps", "idle_us": "idle_ps", "compute_us": "compute_ps", "comm_us": "communication_ps",
    "mem_us": "memory_ps", "overlap_us": "overlap_ps", "exposed_comm_us": "exposed_ps", "non_compute_us": "non_compute_ps",
}  # fmt: skip
COUNTS = ("n", "n_comm", "n_comp", "n_mem")
PERCENT = ("idle_pct", "compute_pct", "non_compute_pct", "overlap_pct_of_comm", "overlap_pct_of_compute")


@cache
def loaded(folder):
    return load_kineto(sorted((DATA / folder).glob("rank*")))


def truths(folder):
    return {int(rank): truth for rank, truth in json.loads((DATA / folder / "truth.json").read_text())["ranks"].items()}


def check(row, truth):
    assert [row[name] for name in COUNTS] == [truth[name] for name in COUNTS]
    assert {name: int(row[ours]) for name, ours in TIMES.items()} == {name: round(truth[name] * 1000) * 1000 for name in TIMES}
    for name in PERCENT:
        assert round(row[name], 4) == truth[name]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("window", "key"), [("file", "exact_all_events"), ("hta", "exact_hta_default_window")])
def test_exact(folder, window, key):
    table = exact_times(loaded(folder), window).set_index("rank")
    for rank, truth in truths(folder).items():
        check(table.loc[rank], truth[key])


@pytest.mark.parametrize("folder", FOLDERS)
def test_exact_per_step(folder):
    table = exact_times(loaded(folder), "steps").set_index(["rank", "step"])
    for rank, truth in truths(folder).items():
        for step, of in truth["exact_per_step_by_launch"].items():
            check(table.loc[(rank, step)], of)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("last_step", [False, True])
def test_parity(folder, last_step):
    table = hta_times(loaded(folder), last_step).set_index("rank")
    for rank, truth in truths(folder).items():
        theirs = truth["hta"][f"v061.include_last={last_step}"]
        expected = theirs["temporal"] | theirs["overlap"]
        assert {name: table.loc[rank].get(name, rank) for name in expected} == expected


def test_by_hand():
    """Planned: overlap 50 and 20 %; idle, compute, non-compute, span of a step 80, 600, 120, 800 us and 100, 500, 200, 800 us."""
    for form in ("min", "full"):
        imported = load_kineto(DATA / "synthetic_two_rank" / form)
        table = exact_times(imported, "steps" if form == "full" else "file").set_index("rank")
        us = table[["idle_ps", "compute_ps", "non_compute_ps", "span_ps"]] // 10**6
        assert us.loc[[0]].drop_duplicates().to_numpy().tolist() == [[80, 600, 120, 800]]
        assert us.loc[[1]].drop_duplicates().to_numpy().tolist() == [[100, 500, 200, 800]]
        assert table["overlap_pct_of_comm"].groupby("rank").max().tolist() == [50, 20]
        theirs = hta_times(imported, last_step=True).set_index("rank")
        assert theirs["comp_comm_overlap_pctg"].tolist() == [50, 20]


def events(*rows, **header):
    keys = ("cat", "name", "ts", "dur")
    listed = [{"ph": "X", **dict(zip(keys, row[:4], strict=True)), "args": row[4]} for row in rows]
    return json.dumps({"distributedInfo": {"rank": 0}} | header | {"traceEvents": listed})


def imported(tmp_path, *rows):
    path = tmp_path / "a.json"
    path.write_text(events(*rows))
    return load_kineto(path)


def test_what_hta_takes_for_gpu_work(tmp_path):
    """Synchronisation and Triton's cpu_op carry a stream and are compute to HTA; DeepEP's kernels too."""
    trace = imported(
        tmp_path,
        ("kernel", "gemm", 0, 10, {"stream": 7}),
        ("cuda_sync", "Stream Sync", 10, 30, {"stream": 7}),
        ("cpu_op", "triton_poi_fused_0", 40, 10, {"stream": 7}),
        ("kernel", "void deep_ep::intranode::combine<8>", 50, 50, {"stream": 8}),
        ("kernel", "gemm", 75, 25, {"stream": 7}),
    )
    ours, theirs = exact_times(trace).iloc[0], hta_times(trace).iloc[0]
    assert (ours["compute_ps"], ours["idle_ps"], ours["overlap_pct_of_comm"]) == (35 * 10**6, 40 * 10**6, 50)
    assert (theirs["compute_time(us)"], theirs["idle_time(us)"], theirs["comp_comm_overlap_pctg"]) == (100, 0, None)


def test_fractions(tmp_path):
    trace = imported(tmp_path, ("kernel", "gemm", 0.5, 2.0, {"stream": 7}), ("kernel", "gemm", 2.6, 1.4, {"stream": 7}))
    assert exact_times(trace).iloc[0]["idle_ps"] == 100_000
    theirs = hta_times(trace).iloc[0]
    assert (theirs["kernel_time(us)"], theirs["compute_time(us)"], theirs["idle_time(us)"]) == (3, 2, 1)


def test_last_step(tmp_path):
    """Of two steps HTA keeps the first; a kernel without its launch is in neither."""
    trace = imported(
        tmp_path,
        ("user_annotation", "ProfilerStep#1", 0, 100, {}),
        ("user_annotation", "ProfilerStep#2", 100, 100, {}),
        ("cuda_runtime", "cudaLaunchKernel", 10, 1, {"correlation": 1}),
        ("cuda_runtime", "cudaLaunchKernel", 110, 1, {"correlation": 2}),
        ("kernel", "gemm", 20, 10, {"stream": 7, "correlation": 1}),
        ("kernel", "gemm", 120, 30, {"stream": 7, "correlation": 2}),
        ("kernel", "gemm", 180, 5, {"stream": 7, "correlation": 3}),
    )
    assert [hta_times(trace, last).iloc[0]["compute_time(us)"] for last in (False, True)] == [10, 40]
    assert exact_times(trace)["compute_ps"].tolist() == [45 * 10**6]
    assert exact_times(trace, "hta")["compute_ps"].tolist() == [10 * 10**6]
    assert exact_times(trace, "steps")["compute_ps"].tolist() == [10 * 10**6, 30 * 10**6]


def test_never_not_a_number(tmp_path):
    """No communication: no overlap; a step without device events has no percentages."""
    trace = imported(tmp_path, ("kernel", "gemm", 0, 10, {"stream": 7}), ("user_annotation", "ProfilerStep#1", 0, 1, {}))
    for table in (exact_times(trace), exact_times(trace, "steps"), hta_times(trace)):
        assert not [value for value in table.to_numpy().ravel() if value != value]
    assert exact_times(trace, "steps").iloc[0]["idle_pct"] is None
    assert hta_times(trace).iloc[0]["comp_comm_overlap_pctg"] is None


def test_ranks_that_lack_what_others_have(tmp_path):
    """Rank 0 hides half of its communication, rank 1 has none, and nothing of rank 2 is GPU work to HTA, which asks for a stream."""
    files = []
    for rank, rows in enumerate((
        [("kernel", "gemm", 0, 10, {"stream": 7}), ("kernel", "ncclDevKernel_AllReduce_Sum", 5, 10, {"stream": 8})],
        [("kernel", "gemm", 0, 10, {"stream": 7})],
        [("kernel", "gemm", 0, 10, {})],
    )):  # fmt: skip
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(events(*rows, distributedInfo={"rank": rank}))
    trace = load_kineto(files)
    ours, theirs = exact_times(trace), hta_times(trace)
    assert ours["rank"].tolist() == [0, 1, 2] and ours["overlap_pct_of_comm"].tolist() == [50, None, None]
    assert theirs["rank"].tolist() == [0, 1] and theirs["comp_comm_overlap_pctg"].tolist() == [50, None]
