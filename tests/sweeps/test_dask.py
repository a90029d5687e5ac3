"""The same points on a Dask cluster: one in this process's hands, and a scheduler with two workers started by themselves."""

import re
import sys
import time

import pandas as pd
import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.sweeps import on_dask
from tests.conftest import SMALL
from tests.dask_cluster import dask_cluster

VARY = {"batch.global": [4, 17], "network.bandwidth": ["1 Gb/s", "100 Gb/s"]}
SHORT = ["model.layers=2"]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    (path := tmp_path_factory.mktemp("ours") / "e.yaml").write_text(SMALL)
    return clustersim.sweep(path, VARY, SHORT, jobs=2)


def check(ours, address):
    theirs = clustersim.sweep("e.yaml", VARY, SHORT, dask=address)
    pd.testing.assert_frame_equal(ours.drop(columns="wall_s"), theirs.drop(columns="wall_s"))
    assert theirs.attrs == ours.attrs and theirs["status"].tolist() == ["ok"] * 2 + ["infeasible"] * 2


def test_a_local_cluster(small, ours):
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None, "scheduler_port": 0}
    with distributed.LocalCluster(**settings) as cluster:
        check(ours, cluster.scheduler_address)


def test_a_scheduler_and_two_workers_started_as_processes(small, ours, cli):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with dask_cluster() as (address, _):
        check(ours, address)
        assert cli("sweep", "e.yaml", "--vary", "batch.global=4,6", "--dask", address, "-o", "out").status == 0


def test_nobody_at_the_address(small, monkeypatch):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(on_dask, "_PATIENCE_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"--dask tcp://127.0.0.1:9: no scheduler answers: .*expected for example tcp://"):
        clustersim.sweep("e.yaml", VARY, dask="tcp://127.0.0.1:9")
    assert time.monotonic() - begin < 8  # and not Dask's own 30 s


def test_without_dask_it_says_how_to_install_it(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=re.escape("pip install 'clustersim[dask]'")):
        clustersim.sweep("e.yaml", VARY, dask="tcp://127.0.0.1:9")
