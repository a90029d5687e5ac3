"""The profiler's format: read again it gives the same analysis; HolisticTraceAnalysis, where installed, agrees."""

import json
import os
import subprocess

import numpy as np
import pytest

from clustersim.analysis.answer import analyze
from clustersim.exporters.files import write_folder
from clustersim.exporters.kineto import export
from clustersim.importers.kineto import load_kineto
from clustersim.trace.files import RunData
from tests.exporters.samples import JOBS, every_kind, run_of, trace_of

TRACES = [*JOBS, "every kind"]
_COLUMNS = ["compute_ps", "communication_ps", "hidden_ps", "exposed_ps", "idle_ps"]
_HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
overlap = analysis.get_comm_comp_overlap(visualize=False)
times = analysis.get_temporal_breakdown(visualize=False)
print(json.dumps([overlap.to_dict("list"), times.to_dict("list")]))
"""


def made(name: str):
    return every_kind() if name == "every kind" else trace_of(JOBS[name])


@pytest.fixture(scope="module", params=TRACES)
def both(request, tmp_path_factory):
    """A trace, and what our importer reads of its export."""
    trace = made(request.param)
    folder = tmp_path_factory.mktemp("kineto") / "out"
    run = RunData(trace, summary={"ranks": int(trace.ops["rank"].max()) + 1})
    write_folder(export(run).parts, folder, lambda count: None)
    return trace, load_kineto(folder), folder


def test_the_analysis_is_the_same_to_a_nanosecond_an_op(both):
    trace, imported, _ = both
    ours, again = analyze(trace).ranks, analyze(imported.trace).ranks
    assert ours["rank"].tolist() == again["rank"].tolist()
    allowed = 1000 * trace.ops.groupby("rank").size().to_numpy()
    for column in _COLUMNS:
        assert (np.abs(ours[column] - again[column]).to_numpy() <= allowed).all(), column


def test_every_op_comes_back(both):
    trace, imported, _ = both
    ours, back = trace.ops.set_index("op"), imported.trace.ops.assign(op=imported.launches["correlation"]).set_index("op")
    back = back.loc[ours.index]
    for column in ("rank", "peer"):
        assert (ours[column] == back[column]).all()
    for column in ("start_ps", "end_ps"):
        assert (ours[column] - back[column]).abs().max() <= 500
    talks = ours["kind"].isin(["send", "recv"])
    assert (ours["kind"][talks].astype(str) == back["kind"][talks].astype(str)).all()
    moved = back["kind"].astype(str) != "kernel"
    assert (ours["bytes"][moved] == back["bytes"][moved]).all()
    assert back["wait_ps"].max() == 0


def test_the_importer_has_nothing_to_complain_of(both):
    trace, imported, _ = both
    to_host = ["6 communication kernels say not which collective they are"] if trace.ops["kind"].isin(["offload", "fetch"]).any() else []
    notes = [note.split(": ", 1)[1] for note in imported.notes]
    assert [note for note in notes if "with sizes" not in note and "no ProfilerStep" not in note] == to_host


@pytest.fixture(scope="module")
def several():
    return run_of(JOBS["sharded"] + "steps: 3\n")


def test_several_steps_are_profiler_steps_with_their_launches(several, tmp_path):
    write_folder(export(several).parts, tmp_path / "out", lambda count: None)
    imported = load_kineto(tmp_path / "out")
    assert not [note for note in imported.notes if "ProfilerStep" in note or "launch" in note]
    ops = several.trace.ops
    computes = ops[ops["kind"].isin(["forward", "backward"])]
    ends = [int(computes[computes["micro_batch"] // 8 == step]["end_ps"].max()) for step in range(2)]  # 16 sequences over 2 replicas
    edges = np.array([0, *ends, several.trace.makespan_ps])
    for _, steps in imported.steps.groupby("rank"):
        assert steps["name"].tolist() == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
        assert np.abs(steps["start_ps"] - edges[:-1]).max() <= 500 and np.abs(steps["end_ps"] - edges[1:]).max() <= 500
    assert (imported.launches["launch_ps"] == imported.trace.ops["start_ps"]).all()


def test_ranks_that_are_not_given_are_named(tmp_path):
    run = RunData(every_kind(), summary={"ranks": 16})
    write_folder(export(run).parts, tmp_path / "out", lambda count: None)
    assert any("14 of 16 ranks are not given" in note for note in load_kineto(tmp_path / "out").notes)


@pytest.mark.skipif("HTA_PYTHON" not in os.environ, reason="HTA_PYTHON names no Python with HolisticTraceAnalysis")
def test_holistic_trace_analysis_agrees(both):
    trace, _, folder = both
    _compare_with_hta(trace, folder)


@pytest.mark.skipif("HTA_PYTHON" not in os.environ, reason="HTA_PYTHON names no Python with HolisticTraceAnalysis")
def test_holistic_trace_analysis_agrees_on_several_steps(several, tmp_path):
    write_folder(export(several).parts, tmp_path / "out", lambda count: None)
    _compare_with_hta(several.trace, tmp_path / "out")


def _compare_with_hta(trace, folder):
    environment = os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"}
    command = [os.environ["HTA_PYTHON"], "-c", _HTA, str(folder)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    overlap, times = json.loads(result.stdout.splitlines()[-1])
    ours = analyze(trace).ranks.set_index("rank")
    slack_us = 1e-3 * trace.ops.groupby("rank").size()
    for rank, share in zip(overlap["rank"], overlap["comp_comm_overlap_pctg"], strict=True):
        assert share == pytest.approx(100 * ours["hidden_ps"][rank] / ours["communication_ps"][rank], abs=0.02)
    for rank, compute, exposed in zip(times["rank"], times["compute_time(us)"], times["non_compute_time(us)"], strict=True):
        assert compute == pytest.approx(ours["compute_ps"][rank] / 1e6, abs=slack_us[rank])
        assert exposed == pytest.approx(ours["exposed_ps"][rank] / 1e6, abs=slack_us[rank])
