"""Sweeps that are interrupted, resumed, spread over processes, and that meet points which cannot be."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import clustersim
from clustersim.errors import DeadlockError, InputError
from clustersim.sweeps import points as points_module
from clustersim.sweeps.points import base_of, digest_of_tree, key
from clustersim.sweeps.settings import read_plan
from clustersim.sweeps.store import FILE, Store
from clustersim.sweeps.table import write_table

VARY = {"strategy.name": ["standard", "mpp"], "batch.global": "4,8"}
SHORT = ["batch.global=4", "model.layers=4"]
MANY = "batch.sequence=8..192:lin24"


def same(one, other):
    """Equal but for the time that the simulation took."""
    pd.testing.assert_frame_equal(one.drop(columns="wall_s"), other.drop(columns="wall_s"))


def test_the_table_is_in_the_order_of_the_grid_whatever_the_number_of_processes(small):
    vary = {**VARY, "network.bandwidth": "10,100Gb/s"}
    tables = [clustersim.sweep("e.yaml", vary, jobs=jobs, knees=False) for jobs in (1, 3)]
    same(*tables)
    expected = [(s, g, b * 1e9 / 8) for s in ("standard", "mpp") for g in (4, 8) for b in (10, 100)]
    assert list(tables[0][list(vary)].itertuples(index=False, name=None)) == expected
    assert tables[0].attrs["units"] == {"strategy.name": "", "batch.global": "", "network.bandwidth": "B/s"}


def test_knees_do_not_depend_on_the_number_of_processes(small):
    tables = [clustersim.sweep("e.yaml", {"network.bandwidth": "10,100Gb/s"}, ["batch.global=4"], jobs=jobs) for jobs in (1, 2)]
    assert tables[0].attrs == tables[1].attrs and len(tables[0].attrs["knees"]) == 1


def test_a_point_is_what_simulate_gives(small):
    table = clustersim.sweep("e.yaml", VARY)
    for _, row in table.iterrows():
        summary = clustersim.simulate(clustersim.load("e.yaml", [f"batch.global={row['batch.global']}"], row["strategy.name"])).summary
        for name in ("step_time_s", "tokens_per_s", "overlap", "exposed_communication_s", "peak_memory_bytes", "events", "fits"):
            assert row[name] == summary[name]
        assert row["communication_bytes.data"] == summary["communication_bytes"]["data"]
        assert row["per_rank.idle_s.max"] == summary["per_rank"]["idle_s"]["max"]


def test_another_strategy_drops_what_the_file_says_for_its_own_and_takes_what_is_varied(small):
    table = clustersim.sweep("e.yaml", {"strategy.name": ["mpp", "standard"], "strategy.chunks": ["2", "4"]}, ["strategy.chunks=1"])
    assert table["status"].tolist() == ["ok", "ok", "infeasible", "infeasible"]
    assert clustersim.sweep("e.yaml", {"strategy.name": ["standard"]}, ["strategy.chunks=2"])["status"].tolist() == ["ok"]


def test_what_depends_on_other_fields_is_no_slip(small):
    table = clustersim.sweep("e.yaml", {"cluster": ["dgx-1-v100", "pcie-ethernet"], "precision": ["bf16", "fp16"]})
    assert table["status"].tolist() == ["infeasible", "ok", "ok", "ok"] and "no peak for bf16" in table["reason"][0]


def test_a_row_without_figures_changes_no_type(small, tmp_path):
    grids = {"batch.global": [4]}, {"batch.global": [4, 17]}
    whole, holed = (clustersim.sweep("e.yaml", grid) for grid in grids)
    assert whole.dtypes.to_dict() == holed.dtypes.to_dict()
    whole_numbers = ("batch.global", "events", "peak_memory_bytes", "communication_bytes.data", "seed")
    expected = dict.fromkeys(whole_numbers, "Int64") | dict.fromkeys(("status", "reason", "version"), "string")
    expected |= {"fits": "boolean", "step_time_s": "float64", "slowdown": "float64"}
    assert {name: str(holed[name].dtype) for name in expected} == expected
    parquet, csv = write_table(holed, tmp_path)[:2]
    pd.testing.assert_frame_equal(pd.read_parquet(parquet), holed)
    empty = dict.fromkeys(holed.select_dtypes("string"), "")  # which a CSV writes as what is missing
    read = pd.read_csv(csv, dtype=holed.dtypes.to_dict())
    pd.testing.assert_frame_equal(read.fillna(empty), holed.fillna(empty), rtol=1e-15)
    assert pd.read_parquet(parquet)["events"].isna().tolist() == [False, True]
    events = csv.read_text().splitlines()[1].split(",")[list(holed).index("events")]
    assert events == str(holed["events"][0]) and events.isdigit()


def test_points_that_cannot_be_are_rows_that_say_why(small):
    table = clustersim.sweep("e.yaml", {"batch.global": [16, 17], "model.layers": [8, 9]}, jobs=2)
    assert table["status"].tolist() == ["ok", "infeasible", "infeasible", "infeasible"]
    assert "do not divide into micro-batches of 1 on 2 replicas" in table["reason"][2] and "\n" not in table["reason"][2]
    assert table["reason"][0] is None or pd.isna(table["reason"][0])
    assert table["step_time_s"].notna().tolist() == [True, False, False, False]


def test_one_that_does_not_fit_keeps_its_figures(small):
    table = clustersim.sweep("e.yaml", {"model.hidden": [64, 65536]}, ["parallel={data: 8}"])
    assert table["status"].tolist() == ["ok", "infeasible"]
    assert table["reason"][1].startswith("does not fit: a GPU needs") and table["step_time_s"].notna().all()


def test_a_sweep_without_a_single_point_is_wrong_input(small):
    with pytest.raises(InputError, match="netwrk: unknown key; did you mean 'network'"):
        clustersim.sweep("e.yaml", ["netwrk.bandwidth=10,20Gb/s"])
    with pytest.raises(InputError, match="no unit"):
        clustersim.sweep("e.yaml", ["network.bandwidth=10,20"])


@pytest.mark.skipif(sys.platform != "linux", reason="the fault is put in by forking")
def test_points_that_fail_are_reported_and_tried_again(small, tmp_path, monkeypatch):
    true_simulate = points_module.simulate

    def faulty(experiment):
        if experiment.global_batch == 4:
            raise ZeroDivisionError("a fault")
        if experiment.global_batch == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        if experiment.global_batch == 8:
            raise DeadlockError("a circle of waits")
        if experiment.global_batch == 10:
            raise MemoryError
        return true_simulate(experiment)

    monkeypatch.setattr(points_module, "simulate", faulty)
    vary = {"batch.global": "2..12:lin6"}
    table = clustersim.sweep("e.yaml", vary, jobs=1, folder=tmp_path / "s")
    assert table["status"].tolist() == ["ok", "failed", "failed", "failed", "failed", "ok"]
    said = ("ZeroDivisionError: a fault", "signal 9", "a circle of waits", "out of memory")
    assert all(text in reason for text, reason in zip(said, table["reason"][1:5], strict=True))
    monkeypatch.setattr(points_module, "simulate", true_simulate)
    again = clustersim.sweep("e.yaml", vary, jobs=1, folder=tmp_path / "s")
    assert again["status"].tolist() == ["ok"] * 6
    same(again, clustersim.sweep("e.yaml", vary, jobs=1))
    assert len((tmp_path / "s" / FILE).read_text().splitlines()) == 6 + 4


def lines(folder):
    path = folder / FILE
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def children(pid):
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(folder, *, jobs="2", **settings):
    """A sweep of 24 points in a process of its own."""
    options = ["--vary", MANY, *(part for override in SHORT for part in ("--set", override)), "--jobs", jobs, "-o", str(folder)]
    command = [sys.executable, "-m", "clustersim", "sweep", "e.yaml", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings)


def wait_for(what, patience_s=60):
    end = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_after_a_kill_only_the_missing_points_are_done(small, tmp_path):
    folder = tmp_path / "s"
    process = started(folder)
    wait_for(lambda: len(lines(folder)) >= 3)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Store(folder):
        pass  # nobody holds it any more
    assert len(workers) == 2
    wait_for(lambda: not any(map(alive, workers)))  # nobody is left behind
    kept = [line for line in lines(folder) if line.endswith(b"\n")]
    assert 3 <= len(kept) < 24 and not (folder / "sweep.csv").exists()
    with (folder / FILE).open("ab") as file:
        file.write(b'{"key": "torn of')
    again = clustersim.sweep("e.yaml", [MANY], SHORT, folder=folder)
    entries = [line for line in lines(folder) if b"torn of" not in line]
    assert entries[: len(kept)] == kept and len(entries) == 24
    assert len({json.loads(entry)["key"] for entry in entries}) == 24
    same(again, clustersim.sweep("e.yaml", [MANY], SHORT))
    same(again, clustersim.sweep("e.yaml", [MANY], SHORT, folder=folder))
    assert len(lines(folder)) == 25  # nothing was missing


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_an_interrupt_ends_all_processes(small, tmp_path):
    folder = tmp_path / "s"
    process = started(folder, start_new_session=True)
    wait_for(lambda: len(lines(folder)) >= 3)
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "clustersim: interrupted\n")
    assert len(workers) == 2 and not any(map(alive, workers))
    assert all(json.loads(line)["row"]["status"] == "ok" for line in lines(folder))


def test_a_changed_experiment_is_not_mixed_with_old_points(small, tmp_path):
    folder = tmp_path / "s"

    def times(*overrides):
        return clustersim.sweep("e.yaml", {"batch.global": [4, 8]}, overrides, folder=folder)["step_time_s"].tolist()

    first = times()
    assert times() == first and len(lines(folder)) == 2
    slower = times("network.bandwidth=1 Gb/s")
    assert all(a > b for a, b in zip(slower, first, strict=True)) and len(lines(folder)) == 4
    assert times() == first and len(lines(folder)) == 4


def test_the_key_follows_all_inputs(small, tmp_path, monkeypatch):
    source = (points_module.presets.folder("topologies") / "pcie-ethernet.yaml").read_text()
    Path("mine.yaml").write_text(source)

    def now(vary="batch.global=32", *overrides):
        base = read_plan("e.yaml", [vary], ["cluster=./mine.yaml", *overrides]).plan.base
        path, _, value = vary.partition("=")
        return key(base, {path: value})

    first = now()
    assert now() == first
    assert now("batch.global=64") != first and now("batch.global=32", "batch.micro=2") != first
    assert now("batch.global=32", "sweep.tolerance_percent=2") == first  # not an input of a point
    Path("mine.yaml").write_text(source + "\n# another\n")
    assert now() != first
    Path("mine.yaml").write_text(source)
    assert now() == first
    inline = now("batch.global=32", "cluster={base: ./mine.yaml}")
    Path("mine.yaml").write_text(source + "\n# another\n")
    assert now("batch.global=32", "cluster={base: ./mine.yaml}") != inline
    Path("mine.yaml").write_text(source)
    monkeypatch.setattr(points_module, "_program", lambda: "another")
    assert now() != first


def test_the_hash_of_the_program_follows_its_files(tmp_path):
    def made(name, files):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        return digest_of_tree(tmp_path / name)

    files = {"a.py": "x = 1", "b/c.py": "", "b/d.yaml": "y: 2"}
    first = made("one", files)
    assert made("two", {**files, "b/__pycache__/c.pyc": "compiled"}) == first
    others = {**files, "a.py": "x = 2"}, {**files, "e.py": ""}, {"z.py": "x = 1"}
    assert len({first, *(made(f"other{number}", other) for number, other in enumerate(others))}) == 4


def test_version_and_seed_are_in_every_row(small):
    table = clustersim.sweep("e.yaml", {"batch.global": [16, 17]})
    assert table["version"].tolist() == [points_module.release()] * 2 and "seed" in table


def test_damaged_lines_are_passed_over(tmp_path):
    with Store(tmp_path) as store:
        store.add("a", {"status": "ok", "x": 1.5}, {})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'\xff\xfe\n[]\n{"key": 1}\n{"key": "b", "row": {"sta')
    with Store(tmp_path) as store:
        assert store["a"] == {"status": "ok", "x": 1.5} and "b" not in store
        store.add("c", {"status": "failed"}, {})
    with Store(tmp_path) as store:
        assert "a" in store and "c" not in store


def test_of_two_sweeps_in_one_folder_the_second_is_refused(small, tmp_path, cli):
    folder = tmp_path / "s"
    folder.mkdir()
    with Store(folder) as store:
        store.add("a", {"status": "ok"}, {})
        refused = cli("sweep", "e.yaml", "--vary", "batch.global=4", "-o", str(folder))
        assert refused.status == 2 and refused.out == ""
        said = "another sweep is at work in this folder; wait for its end, or take another folder"
        assert refused.err == f"clustersim: {folder / FILE}: {said}\n"
        assert [path.name for path in folder.iterdir()] == [FILE] and len(lines(folder)) == 1
    assert len(clustersim.sweep("e.yaml", {"batch.global": [4]}, folder=folder)) == 1


def test_the_name_of_the_strategy_of_a_point(tmp_path):
    base = base_of(points_module.Document({"strategy": "mpp"}, "x.yaml"), tmp_path)
    assert points_module.strategy_of(base, {}) == "mpp"
    assert points_module.strategy_of(base, {"strategy.name": "lga"}) == points_module.strategy_of(base, {"strategy": "lga"}) == "lga"
