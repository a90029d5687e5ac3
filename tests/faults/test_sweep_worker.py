"""A process of a sweep that is killed from outside: its point says so, the others are done, and the next sweep does what is missing."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

import clustersim

VARY = {"batch.global": [4, 8, *range(200, 232, 4)]}  # two that are soon done, and eight that take longer
SHORT = ["model.layers=2"]


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are found in /proc")
def test_its_point_fails_and_is_made_by_the_next_sweep(small, tmp_path):
    folder, before = tmp_path / "s", children()
    killed = []
    killer = threading.Thread(target=lambda: killed.append(kill_one(folder / "points.jsonl", before)))
    killer.start()
    table = clustersim.sweep("e.yaml", VARY, SHORT, jobs=2, folder=folder)
    killer.join()
    assert len(killed) == 1 and children() == before  # nobody is left behind
    failed = table[table["status"] != "ok"]
    assert failed["status"].tolist() == ["failed"] and "was ended by signal 9" in failed["reason"].item()
    entries = [json.loads(line) for line in (folder / "points.jsonl").read_text().splitlines()]
    assert len(entries) == 10

    whole = clustersim.sweep("e.yaml", VARY, SHORT, jobs=1).drop(columns="wall_s")
    well = (table["status"] == "ok").to_numpy()
    pd.testing.assert_frame_equal(table[well].drop(columns="wall_s"), whole[well])
    again = clustersim.sweep("e.yaml", VARY, SHORT, jobs=2, folder=folder)
    pd.testing.assert_frame_equal(again.drop(columns="wall_s"), whole)
    assert len((folder / "points.jsonl").read_text().splitlines()) == 11  # the one that was missing


def children():
    """Processes that this one has started."""
    return {int(child) for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def kill_one(points, before):
    """As soon as two points are on disk."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not (points.exists() and points.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    one = min(children() - before)
    os.kill(one, signal.SIGKILL)
    return one
