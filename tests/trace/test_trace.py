"""The trace's tables: their columns, their order, their files."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from clustersim.errors import InputError
from clustersim.simulation import write_run
from clustersim.trace.files import read_trace, write_whole
from clustersim.trace.trace import _added_up
from tests.helpers import simulated

TEXT = """
model: {layers: 4, hidden: 1024, heads: 16}
cluster: dgx-a100
parallel: {data: 4, pipeline: 2, tensor: 2}
strategy: {name: mpp, partition: parameters}
batch: {global: 16, micro: 1, sequence: 512}
"""
COLUMNS = ["op", "rank", "stream", "kind", "name", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes", "flops",
           "group", "peer"]


@pytest.fixture(scope="module")
def run():
    return simulated(TEXT)


def test_columns_and_kinds(run):
    assert run.trace.ops.columns.tolist() == COLUMNS
    assert run.trace.dependencies.columns.tolist() == ["op", "on"]
    assert run.trace.links.columns.tolist() == ["link", "start_ps", "end_ps", "rate_bytes_s"]
    assert run.trace.memory.columns.tolist() == ["rank", "time_ps", "bytes", "what"]
    assert set(run.trace.ops["kind"]) == {"forward", "backward", "optimizer", "tensor", "reduce", "gather", "send", "recv"}
    assert {"start_ps", "end_ps", "wait_ps"} == set(run.trace.ops.columns[run.trace.ops.columns.str.endswith("_ps")])
    assert (run.trace.ops[["start_ps", "end_ps", "wait_ps", "bytes"]].dtypes == "int64").all()


def test_names_groups_and_peers(run):
    ops = run.trace.ops
    first = ops[(ops["rank"] == 0) & (ops["stream"] == "compute")].iloc[0]
    assert first["name"] == "0F0 embedding"
    # 8 GPUs a node: rank = tensor + 2 data + 8 pipeline
    assert set(ops[ops["kind"] == "tensor"]["group"]) == {"0-1", "8-9"}
    assert set(ops[ops["kind"] == "reduce"]["group"]) == {"0-6/2", "8-14/2"}
    assert set(ops[ops["kind"] == "send"]["peer"]) == {0, 8}
    assert set(ops["stream"]) == {"compute", "tensor", "data", "send:8", "recv:8", "send:0", "recv:0"}


def test_written_and_read_again(run, tmp_path):
    paths = write_run(run, tmp_path / "deep" / "run")
    names = sorted(path.name for path in paths)
    tables = ("ops", "dependencies", "links", "memory", "link_totals", "ranks")
    assert names == sorted([*(f"{table}.parquet" for table in tables), "summary.json", "manifest.json"])
    assert sorted(os.listdir(tmp_path / "deep" / "run")) == names
    again = read_trace(tmp_path / "deep" / "run")
    for table in ("ops", "dependencies", "links", "memory"):
        pd.testing.assert_frame_equal(getattr(again, table), getattr(run.trace, table), check_dtype=False, check_categorical=False)


SCRIPT = """
import sys
from pathlib import Path
from clustersim.simulation import write_run
from tests.helpers import simulated
write_run(simulated(sys.argv[2]), Path(sys.argv[1]))
"""


def test_the_same_experiment_gives_the_same_bytes(tmp_path):
    digests = []
    for seed in ("0", "1", "77"):
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        root = Path(__file__).parents[2]
        subprocess.run([sys.executable, "-c", SCRIPT, str(folder), TEXT], check=True, env=environment, cwd=root)
        files = [*sorted(folder.glob("*.parquet")), folder / "manifest.json"]
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert len(digests[0]) == 7
    assert digests[0] == digests[1] == digests[2]


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def fails(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left"):
        write_whole(tmp_path / "ops.parquet", fails)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "ops.parquet", lambda path: (path.write_text("half"), (_ for _ in ()).throw(KeyboardInterrupt)))
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_ended_in_the_middle_is_removed(tmp_path):
    def ended(path):
        path.write_text("half")
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "ops.parquet", ended)
    assert os.listdir(tmp_path) == [] and signal.getsignal(signal.SIGTERM) is before


def test_a_thread_that_cannot_take_signals_writes_too(tmp_path):
    writer = threading.Thread(target=write_whole, args=(tmp_path / "a", lambda path: path.write_text("whole")))
    writer.start()
    writer.join()
    assert (tmp_path / "a").read_text() == "whole"


@pytest.mark.parametrize("content", [None, b"", b"not parquet"])
def test_a_folder_that_is_no_run_is_named(tmp_path, run, content):
    write_run(run, tmp_path)
    (tmp_path / "ops.parquet").unlink()
    if content is not None:
        (tmp_path / "ops.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"ops.parquet"):
        read_trace(tmp_path)


def test_a_table_without_its_columns_is_named(tmp_path, run):
    write_run(run, tmp_path)
    run.trace.memory.drop(columns="what").to_parquet(tmp_path / "memory.parquet", index=False)
    with pytest.raises(InputError, match=r"memory.parquet: columns missing: what"):
        read_trace(tmp_path)


def test_rates_that_meet_on_a_link_are_added(run):
    import numpy as np

    table = _added_up(np.array([1, 0, 0]), np.array([0, 0, 5]), np.array([9, 10, 20]), np.array([7, 3, 4]))
    assert table.to_numpy().tolist() == [[0, 0, 5, 3], [0, 5, 10, 7], [0, 10, 20, 4], [1, 0, 9, 7]]


def test_links_are_never_overfull_and_their_rows_are_disjoint(run):
    links = run.trace.links
    for _, rows in links.groupby("link", observed=True):
        assert (rows["start_ps"].to_numpy()[1:] >= rows["end_ps"].to_numpy()[:-1]).all()
    assert 0.9 < max(link["peak_utilization"] for link in run.summary["links"].values()) <= 1 + 1e-9


def test_totals_of_each_link_add_up_to_the_summary(run):
    totals = run.links
    assert totals.columns.tolist() == [
        "link", "kind", "links", "capacity_bytes_s", "bytes", "busy_s", "mean_utilization", "peak_utilization"
    ]  # fmt: skip
    assert set(totals["link"]) == set(run.trace.links["link"])
    step_s = run.summary["step_time_s"]
    for kind, of in totals.groupby("kind"):
        assert run.summary["links"][kind]["bytes"] == pytest.approx((of["bytes"] * of["links"]).sum(), abs=1)
        assert (of["mean_utilization"] * of["capacity_bytes_s"] * step_s).to_numpy() == pytest.approx(of["bytes"].to_numpy())
    assert (totals["busy_s"] <= step_s + 1e-9).all() and (totals["peak_utilization"] <= 1 + 1e-9).all()
