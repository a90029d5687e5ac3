"""What users of similar tools ran into and no other test here is about; and every complaint on the page names tests that there are."""

import json
import re
from functools import cache

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim import document
from clustersim.cluster.gpus import find_gpu, gpu_names
from clustersim.compute.calibration import FOLDER, read_calibration, software_of
from clustersim.errors import InputError
from clustersim.exporters.json_text import texts
from clustersim.schedule_run import Times, measure
from clustersim.simulation import simulate
from tests.docs.pages import ROOT, tables
from tests.docs.test_keys_have_effect import JOB
from tests.docs.test_reference import put, read

ROWS = [row for rows in tables("explanation/complaints.md").values() for row in rows]


@cache
def named_in(path):
    return set(re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_there_are_complaints():
    assert len(ROWS) > 40 and all(len(row) == 3 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_complaint_names_its_tests_or_says_why_it_does_not_apply(row):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[2])
    assert named or row[2].startswith("does not apply: ")
    for path, test in named:
        assert test in named_in(f"tests/{path}"), f"{path}::{test}"


def test_communication_is_the_same_wherever_compute_times_come_from():
    fixed = {"forward": "1 ms", "backward": "2 ms"}
    sent = []
    for cost in (None, "peak", fixed):
        ops = simulate(read(put(JOB, "cost", cost))).trace.ops
        ops = ops[ops["group"] != ""]
        sent.append(sorted(zip(ops["rank"], ops["kind"], ops["layer"], ops["micro_batch"], ops["group"], ops["bytes"], strict=True)))
    assert sent[0] and sent[0] == sent[1] == sent[2]


@pytest.mark.parametrize(("m", "makespan_s"), [(1, 12.0), (2, 15.0), (3, 18.0)])
def test_1f1b_of_fewer_micro_batches_than_ranks_ends(m, makespan_s):
    assert measure("1f1b", p=4, v=None, m=m, times=Times()).makespan_s == makespan_s  # (m + p - 1)(F + B), F = 1 s, B = 2 s


@pytest.mark.parametrize(
    ("name", "memory_bytes"),
    [("A10-24GB", 24e9), ("A100-SXM4-40GB", 40 * 2**30), ("A100-SXM4-80GB", 81_920 * 2**20), ("H100-SXM5-80GB", 81_559 * 2**20)],
)
def test_memory_of_a_gpu_is_what_nvidia_smi_or_its_data_sheet_says(name, memory_bytes):
    assert find_gpu(name).memory_bytes == memory_bytes


def test_usable_memory_is_less_than_nominal_where_it_is_known():
    known = [find_gpu(name) for name in gpu_names() if find_gpu(name).usable_memory_bytes != find_gpu(name).memory_bytes]
    assert len(known) >= 8 and all(0.9 < gpu.usable_memory_bytes / gpu.memory_bytes < 1 for gpu in known)


@pytest.mark.parametrize("gpu", [name for name in gpu_names() if software_of(name)])
def test_every_calibration_has_a_version_a_source_and_a_date(gpu):
    for software in software_of(gpu):
        figures = document.load(FOLDER / gpu / f"{software}.yaml").data
        assert figures["software"] == software and figures["source"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(figures["date"]))


def test_a_calibration_without_a_source_is_refused():
    text = "gpu: A100-SXM4-80GB\nsoftware: megatron-2024\nlike: A100-SXM4-80GB/megatron-2024\n"
    assert read_calibration(document.loads(text + "source: ours\n", "c.yaml")).source == "ours"
    with pytest.raises(InputError, match="'source' is missing"):
        read_calibration(document.loads(text, "c.yaml"))


@given(st.text())
def test_any_name_survives_json(name):
    assert json.loads(texts(pd.Series([name], dtype="category"))[0]) == name
