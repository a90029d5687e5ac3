"""What is written of any run is what is read: the experiment, the run folder, the exports."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import yaml
from hypothesis import given, settings

import clustersim
from clustersim.exporters import tables
from clustersim.exporters.files import write_folder
from clustersim.exporters.selection import complete
from clustersim.importers.exported import read_exports
from clustersim.simulation import write_run
from clustersim.trace.files import TABLES, read_run
from tests.exporters.test_exporters_round_trip import as_chrome, as_kineto, as_parquet, plain
from tests.properties.jobs import LENIENT, documents, experiment


def assert_same(one, other):
    pd.testing.assert_frame_equal(plain(one), plain(other), check_dtype=False, check_exact=True)


@settings(max_examples=6, **LENIENT)
@given(documents())
def test_any_run_comes_back(document):
    run = clustersim.simulate(experiment(document))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(run, folder / "run")
        read = read_run(folder / "run")
        for table in TABLES:
            assert_same(getattr(read.trace, table), getattr(run.trace, table))
        assert_same(read.ranks, run.ranks)
        assert_same(read.link_totals, run.links)
        assert read.summary == run.summary

        (folder / "again.yaml").write_text(yaml.safe_dump(read.manifest["inputs"]), encoding="utf-8")
        again = clustersim.load(folder / "again.yaml")
        assert again.document.data == read.manifest["inputs"]
        assert_same(clustersim.simulate(again).trace.ops, run.trace.ops)

        ops = complete(run.trace).ops
        for export in (as_chrome, as_kineto):
            assert_same(read_exports([export(replace(read, trace=complete(read.trace)), folder)]).trace.ops, ops)
        assert_same(read_run(as_parquet(read, folder)).trace.ops, ops)
        write_folder(tables.csv(read).parts, folder / "csv", lambda count: None)
        assert_same(pd.read_csv(folder / "csv" / "ops.csv", keep_default_na=False)[list(ops)], ops)
