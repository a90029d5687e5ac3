"""Windows of an analysis: steps of simulated runs and of profiler traces, the steady state, parts of a step; comparisons per step."""

import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.analysis.answer import analyze
from clustersim.analysis.answer_text import document
from clustersim.analysis.answer_window import run_window
from clustersim.analysis.facts import multiplicities
from clustersim.analysis.idle import CAUSES
from clustersim.analysis.profiled_steps import profiled_step
from clustersim.errors import InputError
from clustersim.importers.kineto import load_kineto
from tests.analysis.test_hta import DATA, FOLDERS, events, imported, loaded, truths
from tests.analysis.test_path import JOB
from tests.helpers import simulated, unit_cost

S = 10**12
US = 10**6


# Profiler traces


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_profiled_step_is_what_was_launched_in_it(folder):
    trace, truth = loaded(folder), truths(folder)
    for name in next(iter(truth.values()))["exact_per_step_by_launch"]:
        steps = {rank: of["exact_per_step_by_launch"][name] for rank, of in truth.items()}
        window, facts, _ = profiled_step(trace, int(name.split("#")[1]))
        found = analyze(trace.trace, window, None, facts)
        span = max(of["end_ns"] for of in steps.values()) - min(of["start_ns"] for of in steps.values())
        assert found.window_ps == 1000 * span
        for row in found.ranks.itertuples():
            times = {name: round(1000 * value) * 1000 for name, value in steps[row.rank].items() if name.endswith("_us")}
            assert (row.compute_ps, row.communication_ps) == (times["compute_us"], times["comm_us"])
            assert (row.hidden_ps, row.exposed_ps) == (times["overlap_us"], times["exposed_comm_us"])
            assert row.compute_ps + row.exposed_ps + row.idle_ps == found.window_ps
            idle = found.causes.set_index("rank").loc[row.rank]
            assert idle[list(CAUSES)].sum() == row.idle_ps
            copies = times["non_compute_us"] - times["exposed_comm_us"]  # what of them hides behind nothing
            assert idle["copies"] == copies
        assert sum(document(found)["critical_path"]["by_kind_s"].values()) == pytest.approx(found.window_ps / S)


LAUNCHES = (
    ("user_annotation", "ProfilerStep#1", 0, 100, {}),
    ("user_annotation", "ProfilerStep#2", 100, 100, {}),
    ("cuda_runtime", "cudaLaunchKernel", 90, 1, {"correlation": 1}),
    ("cuda_runtime", "cudaLaunchKernel", 95, 1, {"correlation": 2}),
    ("cuda_runtime", "cudaLaunchKernel", 110, 1, {"correlation": 3}),
    ("cuda_runtime", "cudaLaunchKernel", 120, 1, {"correlation": 4}),
    ("kernel", "gemm", 80, 40, {"stream": 7, "correlation": 1}),
    ("kernel", "gemm", 130, 40, {"stream": 7, "correlation": 2}),
    ("kernel", "gemm", 180, 60, {"stream": 7, "correlation": 3}),
    ("kernel", "ncclDevKernel_AllReduce", 160, 100, {"stream": 9, "correlation": 4}),
)


def test_kernels_that_run_outside_of_the_host_range_of_their_step(tmp_path, cli):
    """Of step 2: compute [180, 240], all-reduce [160, 260]; the kernel of step 1 that ends at 170 is idle here."""
    (tmp_path / "a.json").write_text(events(*LAUNCHES))
    found = json.loads(cli("analyze", str(tmp_path / "a.json"), "--step", "2", "--json").out)
    [row] = found["ranks"]
    assert (found["window_s"], row["compute_s"], row["communication_s"]) == (pytest.approx(100e-6), 60e-6, 100e-6)
    assert row["idle_s"] == 0 and row["overlap"] == 0.6
    assert found["window"]["what"] == "ProfilerStep#2, from the first to the last op launched in it"
    first = json.loads(cli("analyze", str(tmp_path / "a.json"), "--step", "1", "--json").out)
    assert first["window_s"] == pytest.approx(90e-6) and first["compute_s"] == pytest.approx(80e-6)
    assert first["exposed_communication_s"] == {} and {n: t for n, t in first["idle_s"].items() if t} == {"nothing": pytest.approx(10e-6)}


def test_ops_of_another_step_are_idle_and_named(tmp_path):
    trace = imported(
        tmp_path, *LAUNCHES[:2],
        ("cuda_runtime", "cudaLaunchKernel", 10, 1, {"correlation": 1}), ("cuda_runtime", "cudaLaunchKernel", 110, 1, {"correlation": 2}),
        ("cuda_runtime", "cudaLaunchKernel", 20, 1, {"correlation": 3}),
        ("kernel", "gemm", 20, 10, {"stream": 7, "correlation": 1}), ("kernel", "gemm", 30, 25, {"stream": 7, "correlation": 2}),
        ("kernel", "gemm", 60, 10, {"stream": 7, "correlation": 3}),
    )  # fmt: skip
    window, facts, notes = profiled_step(trace, 1)
    idle = analyze(trace.trace, window, None, facts).idle()
    assert {name: time for name, time in idle.items() if time} == {"other_step": 25 * US, "nothing": 5 * US} and notes == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (LAUNCHES[2:], "the trace has no ProfilerStep"),
        (LAUNCHES[1:], "there is no step 1; the trace has ProfilerStep#2"),
        ((*LAUNCHES[:2], *LAUNCHES[4:]), "nothing that the GPUs ran was launched in step 1"),
    ],
)
def test_steps_that_are_not_there(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        profiled_step(imported(tmp_path, *rows), 1)


def test_waits_of_missing_ranks_are_unknown_and_never_zero(cli):
    (file,) = (DATA / "hta_nccl_data").glob("rank*")
    found = json.loads(cli("analyze", str(file), "--json").out)
    assert found["wait_s"] is None and [row["wait_s"] for row in found["ranks"]] == [None]
    assert {row["wait_s"] for row in found["waits"]} == {None} == {row["wait_s"] for row in found["collectives"]}
    sums = {row["collective"]: row for row in found["collectives"]}
    assert sums["all_reduce"]["bytes"] == 306_684_384
    assert sums["all_reduce"]["busbw_bytes_s"] == pytest.approx(306_684_384 / sums["all_reduce"]["time_s"])
    assert "unknown" in cli("analyze", str(file)).out


def test_waits_where_all_ranks_are_given(tmp_path):
    """Rank 1 comes 30 us late; of 2 ranks of 4 nothing is known."""
    for world, known in ((2, True), (4, False)):
        for rank, start in ((0, 100), (1, 130)):
            about = {"rank": rank, "world_size": world}
            (tmp_path / f"rank{rank}.json").write_text(
                events(("kernel", "ncclDevKernel_AllReduce", start, 150 - start, {"stream": 7}), distributedInfo=about)
            )
        trace = load_kineto(tmp_path)
        assert trace.wait_known.tolist() == [known] * 2
        assert trace.trace.ops["wait_ps"].tolist() == [30 * US * known, 0]


# Simulated runs


def causes(trace, window=None):
    table = analyze(trace, window).causes.set_index("rank")
    return table[list(CAUSES)]


def test_the_midst_of_a_step_has_no_warm_up_and_no_drain():
    """1F1B, p = 4, m = 8, F = 1, B = 2: the last rank's first op ends at 4, the first drain begins at 33 - 3 * 2.

    Rank r < 3 waits from 4 to 10 - 2r for its first backward, and 1 s for the next after its last forward.
    """
    trace = unit_cost(4, 4, 8, "1f1b", forward=1, backward=2).trace
    middle = causes(trace, (4 * S, 27 * S))
    assert not middle[["warm_up", "drain", "nothing"]].to_numpy().any()
    assert middle["data"].tolist() == [7 * S, 5 * S, 3 * S, 0]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_causes_of_neighbouring_windows_add_up(data):
    ideal = data.draw(st.booleans())
    text = JOB.format(
        layers=4, cluster="ideal" if ideal else "pcie-ethernet", pipeline=2, tensor=1, data=1 if ideal else 2, batch=4,
        name=data.draw(st.sampled_from(["standard", "mpp"])), partition="none", extra="link_delay: 3 us" if ideal else "",
    )  # fmt: skip
    trace = simulated(text, fold=False).trace
    cut = data.draw(st.integers(1, trace.makespan_ps - 1))
    parts = causes(trace, (0, cut)) + causes(trace, (cut, trace.makespan_ps))
    assert (parts == causes(trace)).all(axis=None)


def test_between_steps_it_is_drain_until_all_have_ended_and_warm_up_from_there():
    """Two steps of GPipe, p = 2, m = 2, F = B = 1, each 6 s: rank 1 is done at 5 and begins again at 7."""
    trace = unit_cost(2, 2, 2, "gpipe", forward=1, backward=1, extra="steps: 2").trace
    assert trace.makespan_ps == 12 * S
    facts = run_window(trace.ops, 2, (0, 12 * S))[1]
    table = analyze(trace, None, None, facts).causes.set_index("rank")
    assert facts.step_ends_ps == (6 * S,)
    assert table.loc[1, ["warm_up", "drain"]].tolist() == [2 * S, 2 * S] and table.loc[0, ["warm_up", "drain"]].tolist() == [0, 0]


STEPS = """
model: {layers: 4, hidden: 1024, heads: 4}
cluster: pcie-ethernet
parallel: {data: 2, pipeline: 2}
strategy: {name: standard, partition: optimizer}
batch: {global: 8, micro: 1, sequence: 128}
steps: %d
"""


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_analyze_says_what_the_summary_says(cli, tmp_path, steps):
    """The steady state of a folded run: ranks 0 and 1 were simulated as 0, ranks 2 and 3 as 2."""
    (tmp_path / "job.yaml").write_text(STEPS % steps)
    run = tmp_path / "run"
    assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(run)).status == 0
    pd.DataFrame({"rank": range(4), "simulated_as": [0, 0, 2, 2]}).to_parquet(run / "ranks.parquet")
    summary, found = json.loads((run / "summary.json").read_text()), json.loads(cli("analyze", str(run), "--json").out)
    assert found["window_s"] == pytest.approx(summary["step_time_s"])
    assert found["compute_s"] == pytest.approx(summary["ideal_compute_s"])
    assert sum(found["exposed_communication_s"].values()) == pytest.approx(summary["exposed_communication_s"])
    assert sum(found["idle_s"].values()) == pytest.approx(summary["idle_s"])
    for name in ("wait_s", "overlap", "bubble_of_total", "bubble_of_ideal"):
        assert found[name] == pytest.approx(summary[name])
    assert found["window"]["steps"] == max(1, steps - 2) and [row["stands_for"] for row in found["ranks"]] == [2, 2]
    assert max(row["peak_memory_bytes"] for row in found["ranks"]) == summary["peak_memory_bytes"]
    assert "2 ranks, which stand for 4" in cli("analyze", str(run)).out
    whole = json.loads(cli("analyze", str(run), "--json", "--from", "0s").out)
    assert whole["window"]["steps"] == 1 and whole["window_s"] == pytest.approx(pd.read_parquet(run / "ops.parquet")["end_ps"].max() / S)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rank": [0, 1, 2], "simulated_as": [0, 7, 5]}, "simulated_as 5: the ops have no such rank"),
        ({"rank": [0, 0], "simulated_as": [0, 2]}, "rank 0 stands in two rows"),
        ({"rank": [0, 1], "simulated_as": [0, 0]}, "rank 2 of the ops is missing"),
        ({"rank": [0, 1], "simulated_as": [0.0, 2.5]}, "simulated_as holds what is no whole number"),
        ({"rank": [0, 1]}, "columns missing: simulated_as"),
    ],
)
def test_damaged_tables_of_ranks(table, message):
    with pytest.raises(InputError, match=f"ranks.parquet: .*{message}|ranks.parquet: {message}"):
        multiplicities(pd.DataFrame(table), pd.Series([0, 2, 2, 3]).to_numpy(), "ranks.parquet")


def test_steps_that_the_ops_do_not_have():
    ops = pd.DataFrame({"kind": "forward", "micro_batch": [0, 1], "end_ps": [5, 12]})
    with pytest.raises(InputError, match="not those of 4 steps"):
        run_window(ops, 4)
    with pytest.raises(InputError, match="no micro_batch"):
        run_window(ops.drop(columns="micro_batch"), 2)
    assert run_window(ops, 4, (0, 12))[1].step_ends_ps == (), "as the message says"


# Comparisons


def test_differences_are_per_step(cli, tmp_path):
    for steps in (1, 4):
        (tmp_path / "job.yaml").write_text(STEPS % steps)
        assert cli("run", str(tmp_path / "job.yaml"), "--no-plot", "-o", str(tmp_path / f"r{steps}")).status == 0
    one, four = (str(tmp_path / f"r{steps}") for steps in (1, 4))
    times = [json.loads((tmp_path / f"r{steps}" / "summary.json").read_text())["step_time_s"] for steps in (1, 4)]
    assert json.loads(cli("analyze", "--diff", one, four, "--json").out)["window_s"] == pytest.approx(times)
    done = cli("analyze", "--diff", one, four, "--from", "0s")
    assert "steps: 1 in A, 4 in B" in done.out and not done.err


def test_profiled_steps_are_divided_too(cli, tmp_path):
    """Two steps of 20 us each against one of 30 us."""
    two = [("user_annotation", f"ProfilerStep#{n}", 20 * n, 20, {}) for n in (1, 2)]
    (tmp_path / "a.json").write_text(events(*two, ("kernel", "gemm", 20, 40, {"stream": 7})))
    (tmp_path / "b.json").write_text(events(two[0], ("kernel", "gemm", 20, 30, {"stream": 7})))
    found = json.loads(cli("analyze", "--diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json").out)
    assert found["window_s"] == pytest.approx([20e-6, 30e-6]) and found["steps"] == [2, 1]
    (tmp_path / "c.json").write_text(events(("kernel", "gemm", 20, 30, {"stream": 7})))
    done = cli("analyze", "--diff", str(tmp_path / "a.json"), str(tmp_path / "c.json"), "--json")
    assert "does not say how many: compared as they are" in done.err
    assert json.loads(done.out)["window_s"] == pytest.approx([40e-6, 30e-6])
