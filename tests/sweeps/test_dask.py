"""The same points on a Dask cluster: one in this process's hands, and a scheduler with two workers started by themselves."""

import re
import subprocess
import sys
import time

import pandas as pd
import pytest

import clustersim
from clustersim.errors import InputError

VARY = {"batch.global": [4, 6, 17], "network.bandwidth": ["1 Gb/s", "100 Gb/s"]}


def check(address):
    ours = clustersim.sweep("e.yaml", VARY, jobs=2)
    theirs = clustersim.sweep("e.yaml", VARY, dask=address)
    pd.testing.assert_frame_equal(ours.drop(columns="wall_s"), theirs.drop(columns="wall_s"))
    assert theirs.attrs == ours.attrs and theirs["status"].tolist() == ["ok"] * 4 + ["infeasible"] * 2


def test_a_local_cluster(small):
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, scheduler_port=0) as cluster:
        check(cluster.scheduler_address)


def test_a_scheduler_and_two_workers_started_as_processes(small, cli):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started = [scheduler]
    try:
        address = next(match[0] for line in scheduler.stderr if (match := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        started += [subprocess.Popen(worker, stderr=subprocess.DEVNULL) for _ in range(2)]
        check(address)
        assert cli("sweep", "e.yaml", "--vary", "batch.global=4,6", "--dask", address, "-o", "out").status == 0
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def test_nobody_at_the_address(small):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"--dask tcp://127.0.0.1:9: no scheduler answers: .*expected for example tcp://"):
        clustersim.sweep("e.yaml", VARY, dask="tcp://127.0.0.1:9")
    assert time.monotonic() - begin < 60


def test_without_dask_it_says_how_to_install_it(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=re.escape("pip install 'clustersim[dask]'")):
        clustersim.sweep("e.yaml", VARY, dask="tcp://127.0.0.1:9")
