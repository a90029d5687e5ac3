"""Import of PyTorch profiler traces: what an event is, and every way in which a file may be wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clustersim.errors import InputError
from clustersim.importers.kineto import load_kineto
from clustersim.importers.kineto_collectives import collectives
from clustersim.importers.kineto_events import read_events

DATA = Path(__file__).parents[1] / "data" / "kineto"
COLUMNS = ["op", "rank", "stream", "kind", "name", "stage", "layer", "micro_batch", "start_ps", "end_ps", "wait_ps", "bytes", "flops",
           "group", "peer"]
NCCL = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16", "Group size": 2}
NCCL |= {"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"}


def event(name="gemm", ts=0, dur=10, cat="kernel", stream=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {"stream": stream} | args}


def write(path, *events, rank=0, **header):
    info = {} if rank is None else {"distributedInfo": {"rank": rank}}
    path.write_text(json.dumps(info | header | {"traceEvents": list(events)}))
    return path


def ops(tmp_path, *events, **header):
    return load_kineto(write(tmp_path / "t.json", *events, **header)).trace.ops


def test_table():
    imported = load_kineto(sorted((DATA / "hta_nccl_data").glob("rank*")))
    table = imported.trace.ops
    assert list(table.columns) == COLUMNS
    assert all(isinstance(table[name].dtype, pd.CategoricalDtype) for name in ("stream", "kind", "name", "group"))
    assert table["start_ps"].min() == 0 and table["start_ps"].dtype == np.int64
    assert (table[["stage", "layer", "micro_batch"]] == -1).all(axis=None)
    assert imported.steps["name"].tolist() == ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"]
    assert imported.notes == ("1 of 2 ranks are not given (1): no waits in their collectives",)


def test_collectives_of_a_real_trace():
    """Gradients of float32 by all-reduce over two ranks: bus factor 1."""
    table = collectives(load_kineto(sorted((DATA / "hta_nccl_data").glob("rank*"))).trace.ops).set_index("collective")
    assert table.loc["all_reduce", "count"] == 15 and table.loc["all_reduce", "bytes"] == 306_684_384
    assert table.loc["all_reduce", "busbw_bytes_s"] == pytest.approx(306_684_384 / table.loc["all_reduce", "time_s"])


@pytest.mark.parametrize(
    ("name", "args", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", {}, "all_reduce"),
        ("ncclKernel_ReduceScatter_RING", {}, "reduce_scatter"),
        ("ncclDevKernel_AllGather_RING_LL", {}, "all_gather"),
        ("ncclDevKernel_Broadcast_RING_LL", {}, "broadcast"),
        ("ncclDevKernel_SendRecv", {}, "communication"),
        ("ncclDevKernel_SendRecv", {"Collective name": "send", "Dst Rank": 3}, "send"),
        ("ncclDevKernel_SendRecv", {"Collective name": "recv", "Src Rank": 3}, "recv"),
        ("ncclDevKernel_SendRecv", {"Collective name": "all_to_allv"}, "all_to_all"),
        ("ncclDevKernel_Generic_4", {"Collective name": "_allgather_base"}, "all_gather"),
        ("some_new_library", {"Collective name": "reduce_scatter_tensor_coalesced"}, "reduce_scatter"),
        ("void deep_ep::internode_ll::dispatch<true>", {}, "all_to_all"),
        ("mscclpp_kernel", {}, "communication"),
        ("nvshmemi_barrier", {}, "communication"),
        ("hcclKernel_allReduce", {}, "all_reduce"),
        ("void vllm::cross_device_reduce_1stage<bf16, 8>", {}, "all_reduce"),
        ("triton_poi_fused_all_gather_into_tensor_0", {}, "kernel"),
        ("elementwise_broadcast", {}, "kernel"),
    ],
)
def test_kinds(tmp_path, name, args, kind):
    table = ops(tmp_path, event(name, **args))
    assert table["kind"].tolist() == [kind]
    assert table["peer"].tolist() == [3 if kind in ("send", "recv") else -1]


def test_what_occupies_no_device(tmp_path):
    path = write(
        tmp_path / "t.json",
        event(),
        event("Memset (Device)", 10, 5, "gpu_memset", bytes=64),
        event("Stream Sync", 0, 100, "cuda_sync"),
        event("triton_fused", 0, 100, "cpu_op"),
        event("ProfilerStep#1", 0, 100, "gpu_user_annotation"),
        event("x", 0, 100, "mtia_thing"),
        {"ph": "i", "cat": "kernel", "name": "x", "ts": 1},
    )
    imported = load_kineto(path)
    assert imported.trace.ops["kind"].tolist() == ["kernel", "copy"] and imported.trace.ops["bytes"].tolist() == [0, 64]
    notes = "\n".join(imported.notes)
    assert "1 synchronisation events occupy no device" in notes and "1 mtia_thing" in notes and "ProfilerStep" not in notes


def test_unclassified_is_reported(tmp_path):
    imported = load_kineto(write(tmp_path / "t.json", event("flashinfer::allreduce_fusion_kernel")))
    assert imported.trace.ops["kind"].tolist() == ["kernel"]
    assert any("named like a collective of no known library" in note for note in imported.notes)


def test_graph_kernels_count(tmp_path):
    """The kernels of a CUDA graph share the correlation of one launch: all of them lie in its step."""
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 5, "dur": 1, "args": {"correlation": 9}}
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 8}
    imported = load_kineto(write(tmp_path / "t.json", step, launch, *(event(ts=10 * k, correlation=9) for k in range(1, 4))))
    assert len(imported.trace.ops) == 3 and imported.launches["launch_ps"].tolist() == [-5_000_000] * 3


@pytest.mark.parametrize(
    ("ts", "ns"), [("1711964646123456.789", 1711964646123456789), ("4458676422880.181", 4458676422880181), ("0.001", 1), ("7", 7000)]
)
def test_times_are_exact(tmp_path, ts, ns):
    text = json.dumps({"traceEvents": [event(ts="TS", dur=0.25)]}).replace('"TS"', ts)
    (tmp_path / "t.json").write_text(text)
    device = read_events(tmp_path / "t.json").device
    assert (device["start_ns"].tolist(), device["end_ns"].tolist()) == ([ns], [ns + 250])


def test_waits(tmp_path):
    """Rank 1 comes 30 us late; the op is not shortened, the bandwidth is that of the transfer."""
    second = event("ncclDevKernel_AllReduce", 200, 10, **NCCL)
    write(tmp_path / "rank0.json", event("ncclDevKernel_AllReduce", 100, 50, **NCCL), second)
    write(tmp_path / "rank1.json", event("ncclDevKernel_AllReduce", 130, 20, **NCCL), second, rank=1)
    table = load_kineto(tmp_path).trace.ops
    assert table["wait_ps"].tolist() == [30_000_000, 0, 0, 0]
    assert (table["end_ps"] - table["start_ps"]).tolist() == [50_000_000, 10_000_000, 20_000_000, 10_000_000]
    row = collectives(table).iloc[0]
    assert (row["group"], row["bytes"], row["algbw_bytes_s"]) == ("0 default_pg, 2 ranks [0, 1]", 8000, 8000 * 10**12 / 60_000_000)


def test_sends_wait_for_nobody_knows_how_long(tmp_path):
    write(tmp_path / "rank0.json", event("ncclDevKernel_SendRecv", 100, 50, **NCCL | {"Collective name": "send", "Dst Rank": 1}))
    row = collectives(load_kineto(tmp_path).trace.ops).iloc[0]
    assert (row["collective"], row["time_s"], row["wait_s"]) == ("send", 50e-6, None)


def test_waits_by_base_time(tmp_path):
    write(tmp_path / "rank0.json", event("ncclDevKernel_AllReduce", 100, 50, **NCCL), baseTimeNanoseconds=10**18)
    write(tmp_path / "rank1.json", event("ncclDevKernel_AllReduce", 100, 50, **NCCL), rank=1, baseTimeNanoseconds=10**18 + 7)
    assert load_kineto(tmp_path).trace.ops["wait_ps"].tolist() == [7000, 0]


def test_no_waits_where_rows_differ(tmp_path):
    write(tmp_path / "rank0.json", event("ncclDevKernel_AllReduce", 100, 50, **NCCL))
    write(tmp_path / "rank1.json", event(), rank=1)
    imported = load_kineto(tmp_path)
    assert imported.trace.ops["wait_ps"].sum() == 0
    assert any("did not run the same row of collectives" in note for note in imported.notes)


def test_clocks_that_differ(tmp_path):
    write(tmp_path / "rank0.json", event("ncclDevKernel_AllReduce", 100, 50, **NCCL))
    write(tmp_path / "rank1.json", event("ncclDevKernel_AllReduce", 900, 50, **NCCL), rank=1)
    imported = load_kineto(tmp_path)
    assert imported.trace.ops["wait_ps"].tolist() == [50_000_000, 0]
    assert any("clocks differ" in note for note in imported.notes)


def test_real_ranks_wait():
    imported = load_kineto(sorted((DATA / "param_dlrm_8rank").glob("rank*")))
    table = imported.trace.ops
    talks = table[table["kind"].isin(["all_reduce", "communication"])]
    nth = talks.groupby("rank").cumcount()
    assert (talks["wait_ps"].groupby(nth).min() == 0).all()  # the last to arrive waits for nobody
    assert ((talks["start_ps"] + talks["wait_ps"]).groupby(nth).nunique() == 1).all()
    assert (table["wait_ps"] <= table["end_ps"] - table["start_ps"]).all()


def test_ranks(tmp_path):
    """From distributedInfo, the name, or numbered; a folder's order is by numbers."""
    write(tmp_path / "a.json", event("a"), rank=5)
    write(tmp_path / "trace_rank-10.json", event("b"), rank=None)
    write(tmp_path / "worker2_step_12.json", event("c"), rank=None)
    write(tmp_path / "other.json", event("d"), rank=None)
    imported = load_kineto(tmp_path)
    names = imported.trace.ops.set_index("rank")["name"].astype(str).to_dict()
    assert names == {0: "d", 2: "c", 5: "a", 10: "b"}
    assert any(note.startswith("other.json: says no rank") for note in imported.notes)


@pytest.mark.parametrize("rank", [-1, "two", True, 2**40])
def test_a_rank_that_is_none_is_shown(tmp_path, rank):
    imported = load_kineto(write(tmp_path / "t.json", event(), rank=rank))
    assert f"t.json: says no rank (distributedInfo.rank is {rank!r}, and no rank): taken for rank 0" in imported.notes


def test_missing_ranks_are_counted_not_capped(tmp_path):
    imported = load_kineto(write(tmp_path / "t.json", event(), rank=None, distributedInfo={"rank": 2, "world_size": 10**9}))
    assert imported.notes == ("999999999 of 1000000000 ranks are not given (0, 1, 3 and 999999996 more): no waits in their collectives",)


@pytest.mark.parametrize("block", [16, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [EVENT, EVENT], "a": WRONG}',
        '{"traceEvents": [EVENT, {"ph": WRONG}]}',
        '{"a": WRONG, "traceEvents": []}',
        "[EVENT] WRONG",
    ],
)
def test_the_place_of_an_error_is_that_in_the_file(tmp_path, text, block):
    text = text.replace("EVENT", json.dumps(event("g\u00e9mm"), ensure_ascii=False)).encode()
    (tmp_path / "t.json").write_bytes(text)
    with pytest.raises(InputError, match=f"at byte {text.index(b'WRONG')}: "):
        read_events(tmp_path / "t.json", block)


def test_streams_of_several_devices(tmp_path):
    imported = load_kineto(write(tmp_path / "t.json", event(device=0), event(device=1)))
    assert imported.trace.ops["stream"].tolist() == ["0:7", "1:7"] and any("2 devices" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        (event(dur=-5), "1 GPU events of negative duration: left out"),
        ({"ph": "X", "cat": "kernel", "name": "x", "ts": 1}, "1 GPU events without a time in dur: left out"),
        ({"ph": "X", "cat": "kernel", "name": "x", "dur": 1}, "1 GPU events without a time in ts: left out"),
        (event(ts="soon"), "1 GPU events without a time in ts: left out"),
        (event(ts=float("nan")), "1 GPU events without a time in ts: left out"),
        (event(ts=1e300), "1 GPU events without a time in ts: left out"),
        (event(ts=10**30), "1 GPU events without a time in ts: left out"),
        (event(ts=2), "1 slices begin before another of their stream ends: merged where time is counted"),
    ],
)
def test_left_out(tmp_path, bad, note):
    imported = load_kineto(write(tmp_path / "t.json", event(), bad))
    assert f"t.json: {note}" in imported.notes
    assert (imported.trace.ops["end_ps"] >= imported.trace.ops["start_ps"]).all()


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [EVENT, null, 3, {"ph": "X", "args": []}]}',
        '{"traceEvents": [EVENT,]}',
        '\ufeff{"traceEvents": [EVENT]}',
        '[EVENT]',
        '{"traceEvents": [{"ph": "M", "name": "bad \x01 \\"}, {"}, EVENT], "deviceProperties": [{"id": 0}, {"id": 1}]}',
        '{"x": [{"a": 1}, {"b": "]"}], "traceEvents"  :\n[EVENT\n] , "z": {}}',
        '{"traceEvents": [{"ph": "X", "args": {"list": [{"ph": 1}, {"ph": 2}]}}, EVENT]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_odd_texts(tmp_path, text, block):
    path = tmp_path / "t.json"
    path.write_text(text.replace("EVENT", json.dumps(event())), encoding="utf-8")
    assert read_events(path, block).device["end_ns"].tolist() == [10_000]


def test_broken_utf8(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(json.dumps({"traceEvents": [event("NAME")]}).encode().replace(b"NAME", b"\xff"))
    assert load_kineto(path).trace.ops["name"].tolist() == ["\ufffd"]


def test_half_a_pair_of_surrogates(tmp_path):
    """In JSON's escapes: no text of any encoding, and no reason to refuse a trace; a whole pair is a character."""
    text = json.dumps({"traceEvents": [event("LONE", **NCCL), event("PAIR", ts=20)], "distributedInfo": {"rank": 0, "x": "LONE"}})
    path = tmp_path / "t.json"
    path.write_text(text.replace("LONE", "\\ud800k \\\\ud800").replace("PAIR", "\\ud83d\\ude00").replace("allreduce", "all\\udc00reduce"))
    assert load_kineto(path).trace.ops["name"].tolist() == ["\ufffdk \\ud800", "\U0001f600"]


@pytest.mark.parametrize("behind", ['], "x": "WIDE"}', "]WIDE}", ', {"name": "WIDE"}]}'])
@pytest.mark.parametrize("packed", [False, True])
def test_what_grows_without_end_is_read_up_to_a_limit(tmp_path, monkeypatch, behind, packed):
    monkeypatch.setattr("clustersim.importers.kineto_text._LONGEST", 5_000_000)
    begin, _, end = ('{"traceEvents": [' + json.dumps(event()) + behind).partition("WIDE")
    for wide, refused in ((4_000_000, False), (6_000_000, True)):
        content = (begin + " " * wide + end).encode()
        path = tmp_path / "t.json"
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        if refused:
            with pytest.raises(InputError, match=r"(an event of )?more than 4 MiB( behind the events)?$"):
                load_kineto(path)
        else:
            assert load_kineto(path).trace.ops["end_ps"].tolist() == [10_000_000]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"hello", "invalid JSON"),
        (b"{", "invalid JSON"),
        (b'{"nodes": []}', '"traceEvents" is missing'),
        (b'"text"', '"traceEvents" is missing'),
        (b'{"traceEvents": []}', "no GPU events"),
        (b"[]", "no GPU events"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}', "its events are: 1 cpu_op"),
        (b'{"traceEvents": [{"ph": "X"}', "truncated"),
        (b'{"traceEvents": [{"ph": "X"', "truncated"),
        (b'{"traceEvents": [{"ph": "X}, {"a": 1}]}', "invalid JSON"),
        (b'{"traceEvents": [{"ph": X}]}', "invalid JSON in the events"),
        (b'{"traceEvents": [{"ph": "X"}]', "invalid JSON"),
        (b'{"traceEvents": [{"ph": "X"}], "a": }', "invalid JSON"),
        (b'{"traceEvents": [{"ph": "X"}]} trailing', "invalid JSON"),
        (b'{"traceEvents": [{"ph": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "invalid JSON in the events: nested too deeply"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-12], "gzip file is truncated"),
        (b"\x1f\x8b\x00nonsense", "gzip file is damaged"),
        (b"PK\x03\x04 a zip", "invalid JSON"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_kineto(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "\n" not in text


def test_truncated_gzip_of_a_real_trace(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes((DATA / "param_dlrm_8rank" / "rank0.pt.trace.json.gz").read_bytes()[:30_000])
    with pytest.raises(InputError, match="gzip file is truncated"):
        load_kineto(path)


def test_bad_lists(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_kineto(tmp_path / "absent")
    with pytest.raises(InputError, match="no profiler trace in this folder"):
        load_kineto(tmp_path)
    with pytest.raises(InputError, match="no profiler trace given"):
        load_kineto([])
    a, b = write(tmp_path / "a.json", event()), write(tmp_path / "b.json", event())
    with pytest.raises(InputError, match=r"rank 0 is that of .*a.json too"):
        load_kineto([a, b])
    write(tmp_path / "b.json", event(ts=10**15), rank=1)
    with pytest.raises(InputError, match="more than 100 days"):
        load_kineto([a, b])


def test_one_rank_without_gpu_events(tmp_path):
    write(tmp_path / "rank0.json", event())
    write(tmp_path / "rank1.json", event(cat="cpu_op"), rank=1)
    imported = load_kineto(tmp_path)
    assert imported.trace.ops["rank"].tolist() == [0] and "rank1.json: no GPU events" in imported.notes


def test_files_of_a_folder_are_read_by_their_numbers_whatever_else_counts_as_a_digit(tmp_path):
    for name in ("1\u00b22.json", "1-2.json", "10-\u0663.json", "9-\u0663.json"):
        (tmp_path / name).write_text("no trace")
    with pytest.raises(InputError, match=r"1-2\.json"):
        load_kineto([tmp_path])
