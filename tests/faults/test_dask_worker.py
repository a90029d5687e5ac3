"""A Dask worker that is lost: its points go to the other one, and the table is the same."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

import clustersim

VARY = {"batch.global": [4 * n for n in range(1, 25)]}
SHORT = ["model.layers=2"]


def test_the_others_do_its_points(small, tmp_path):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    ours = clustersim.sweep("e.yaml", VARY, SHORT, jobs=1)
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    processes = [scheduler]
    try:
        address = next(match[0] for line in scheduler.stderr if (match := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        processes += [subprocess.Popen(worker, stderr=subprocess.DEVNULL) for _ in range(2)]
        points = tmp_path / "s" / "points.jsonl"
        killer = threading.Thread(target=_kill_after, args=(points, processes[1].pid))
        killer.start()
        theirs = clustersim.sweep("e.yaml", VARY, SHORT, dask=address, folder=tmp_path / "s")
        killer.join()
        assert processes[1].wait(timeout=10) == -signal.SIGKILL
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
    assert theirs["status"].tolist() == ["ok"] * 24
    pd.testing.assert_frame_equal(ours.drop(columns="wall_s"), theirs.drop(columns="wall_s"))
    assert len(points.read_text().splitlines()) == 24


def _kill_after(points, pid):
    """As soon as two points are on disk."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not (points.exists() and points.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
