"""A Dask worker that is lost: its points go to the other one, and the table is the same."""

import os
import signal
import threading
import time

import pandas as pd
import pytest

import clustersim
from tests.dask_cluster import dask_cluster

VARY = {"batch.global": [4 * n for n in range(1, 25)]}
SHORT = ["model.layers=2"]


def test_the_others_do_its_points(small, tmp_path):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    ours = clustersim.sweep("e.yaml", VARY, SHORT, jobs=1)
    points = tmp_path / "s" / "points.jsonl"
    with dask_cluster() as (address, workers):
        killer = threading.Thread(target=_kill_after, args=(points, workers[0].pid))
        killer.start()
        theirs = clustersim.sweep("e.yaml", VARY, SHORT, dask=address, folder=tmp_path / "s")
        killer.join()
        assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert theirs["status"].tolist() == ["ok"] * 24
    pd.testing.assert_frame_equal(ours.drop(columns="wall_s"), theirs.drop(columns="wall_s"))
    assert len(points.read_text().splitlines()) == 24


def _kill_after(points, pid):
    """As soon as two points are on disk."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not (points.exists() and points.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
