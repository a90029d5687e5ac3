"""The Chrome trace: JSON that parses, slices that nest or follow, arrows between the right slices, counters that are the tables'."""

import json
from collections import defaultdict
from decimal import Decimal

import pytest

from clustersim.exporters.chrome import export
from clustersim.exporters.selection import select
from clustersim.trace.files import RunData
from tests.exporters.samples import JOBS, every_kind, trace_of

TRACES = [*JOBS, "every kind"]


@pytest.fixture(scope="module", params=TRACES)
def trace(request):
    return every_kind() if request.param == "every kind" else trace_of(JOBS[request.param])


def events(trace) -> list[dict]:
    [part] = export(RunData(trace), "t.json").parts
    return json.loads(b"".join(part.chunks()), parse_float=Decimal)["traceEvents"]


def ns(text) -> int:
    assert Decimal(text) * 1000 == int(Decimal(text) * 1000)
    return int(Decimal(text) * 1000)


def test_every_op_is_a_slice_at_its_nanosecond(trace):
    slices = [one for one in events(trace) if one["ph"] == "X"]
    ours = trace.ops.sort_values(["rank", "start_ps", "op"])
    assert len(slices) == len(ours)
    for one, op in zip(slices, ours.itertuples(index=False), strict=True):
        assert one["pid"] == op.rank and one["name"] == op.name and one["args"]["kind"] == one["cat"] == op.kind
        assert abs(ns(one["ts"]) * 1000 - op.start_ps) <= 500
        assert abs(ns(one["ts"] + one["dur"]) * 1000 - op.end_ps) <= 500
        for key, absent in (("stage", -1), ("layer", -1), ("micro_batch", -1), ("bytes", 0), ("peer", -1), ("group", "")):
            assert one["args"].get(key, absent) == getattr(op, key)


def test_slices_of_a_thread_follow_one_another(trace):
    ends = defaultdict(int)
    for one in events(trace):
        if one["ph"] == "X":
            place = one["pid"], one["tid"]
            assert ns(one["ts"]) >= ends[place]
            ends[place] = ns(one["ts"] + one["dur"])


def test_threads_bear_the_names_of_the_streams(trace):
    found = events(trace)
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in found if one["name"] == "thread_name"}
    ours = trace.ops.sort_values(["rank", "start_ps", "op"])
    slices = [one for one in found if one["ph"] == "X"]
    for one, stream in zip(slices, ours["stream"], strict=True):
        name = names[one["pid"], one["tid"]]
        assert name == stream or name.startswith(f"{stream} (")
    assert {one["pid"] for one in found if one["name"] == "process_name"} >= set(trace.ops["rank"])


def test_arrows_join_a_send_to_its_receive(trace):
    found = events(trace)
    slices = {(one["pid"], one["tid"], one["ts"]): one for one in found if one["ph"] == "X" and one["dur"]}
    begins = {one["id"]: one for one in found if one["ph"] == "s"}
    ends = {one["id"]: one for one in found if one["ph"] == "f"}
    assert set(begins) == set(ends) and len(begins) == (trace.ops["kind"] == "send").sum() > 0
    for number, begin in begins.items():
        send, receive = (slices[one["pid"], one["tid"], one["ts"]] for one in (begin, ends[number]))
        assert send["cat"] == "send" and receive["cat"] == "recv" and ends[number]["bp"] == "e"
        assert send["args"]["peer"] == receive["pid"] and receive["args"]["peer"] == send["pid"]


def test_no_arrow_where_the_other_rank_is_not_given():
    alone = select(trace_of(JOBS["pipeline"]), ranks={0})
    assert not [one for one in events(alone) if one["ph"] in "sf"]
    assert [one for one in events(alone) if one["ph"] == "X" and one["cat"] == "send"]


def test_counters_are_the_memory_and_the_links():
    found = [one for one in events(every_kind()) if one["ph"] == "C"]
    memory = [(one["pid"], ns(one["ts"]), one["name"], one["args"]["bytes"]) for one in found if one["name"].startswith("memory")]
    assert memory == [
        (0, 0, "memory: weights", 100), (0, 1000, "memory: activations", 50), (0, 2000, "memory: activations", 0),
        (1, 0, "memory: weights", 70),
    ]  # fmt: skip
    links = [(one["pid"], ns(one["ts"]), one["name"], float(one["args"]["bytes_s"])) for one in found if one["name"] == "a>b"]
    assert links == [(2, 0, "a>b", 1e9), (2, 1000, "a>b", 0.0), (2, 2000, "a>b", 2e9), (2, 3000, "a>b", 0.0)]


def test_memory_of_a_run_peaks_where_the_table_does():
    trace = trace_of(JOBS["pipeline"])
    level = trace.memory.assign(level=trace.memory.groupby(["rank", "what"], observed=True)["bytes"].cumsum())
    peaks = level.groupby(["rank", "what"], observed=True)["level"].max().to_dict()
    shown = defaultdict(int)
    for one in events(trace):
        if one["ph"] == "C" and one["name"].startswith("memory: "):
            place = one["pid"], one["name"].removeprefix("memory: ")
            shown[place] = max(shown[place], one["args"]["bytes"])
    assert dict(shown) == peaks
