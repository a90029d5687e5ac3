"""Chakra files, read by a parser of their own that knows the public schema (et_def.proto) and nothing of the writer."""

import json
import struct

import pandas as pd
import pytest

from clustersim.exporters.chakra import export
from clustersim.exporters.selection import complete
from clustersim.trace.trace import Trace
from tests.exporters.samples import JOBS, every_kind, trace_of

# Of et_def.proto: fields that are numbers, packed numbers, texts; the values of AttributeProto by field.
_NUMBERS, _PACKED, _TEXTS = {1: "id", 3: "type", 6: "start", 7: "duration"}, {4: "control", 5: "data"}, {2: "name"}
_VALUES = {7: "int32", 9: "int64", 11: "uint32", 13: "uint64", 27: "bool", 29: "string"}
_TYPES = {2: "load", 3: "store", 4: "compute", 5: "send", 6: "recv", 7: "collective"}
_COLLECTIVES = {"tensor": 0, "context": 2, "expert": 6, "gather": 2}


def varint(text: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (text[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if text[at - 1] < 0x80:
            return value, at


def fields(text: bytes):
    """Number and value of each field of a message."""
    at = 0
    while at < len(text):
        key, at = varint(text, at)
        if key & 7 == 0:
            value, at = varint(text, at)
        elif key & 7 == 2:
            size, at = varint(text, at)
            value, at = text[at : at + size], at + size
            assert len(value) == size
        else:
            assert key & 7 == 1
            value, at = struct.unpack("<d", text[at : at + 8])[0], at + 8
        yield key >> 3, value


def packed(text: bytes) -> list[int]:
    found, at = [], 0
    while at < len(text):
        value, at = varint(text, at)
        found.append(value)
    return found


def attribute(text: bytes) -> tuple[str, str, object]:
    (one, name), (field, value) = fields(text)
    assert one == 1
    return name.decode(), _VALUES[field], value.decode() if _VALUES[field] == "string" else value


def node(text: bytes) -> dict:
    found = {"id": 0, "type": 0, "start": 0, "duration": 0, "control": [], "data": [], "attributes": {}}
    for field, value in fields(text):
        if field in _NUMBERS:
            found[_NUMBERS[field]] = value
        elif field in _PACKED:
            found[_PACKED[field]] = packed(value)
        elif field in _TEXTS:
            found[_TEXTS[field]] = value.decode()
        else:
            assert field == 10
            name, _, content = attribute(value)
            assert name not in found["attributes"]
            found["attributes"][name] = content
    return found


def read(text: bytes) -> list[dict]:
    """The nodes of a file behind its metadata."""
    messages, at = [], 0
    while at < len(text):
        size, at = varint(text, at)
        assert size and at + size <= len(text)
        messages.append(text[at : at + size])
        at += size
    assert list(fields(messages[0])) == [(1, b"0.0.4")]
    return [node(one) for one in messages[1:]]


@pytest.fixture(scope="module", params=[*JOBS, "every kind"])
def both(request):
    trace = every_kind() if request.param == "every kind" else trace_of(JOBS[request.param])
    parts = {part.name: b"".join(part.chunks()) for part in export(trace).parts}
    groups = json.loads(parts.pop("comm_groups.json"))
    return trace, {int(name.split(".")[1]): read(text) for name, text in parts.items()}, groups


def test_every_op_is_a_node_with_its_times(both):
    trace, files, _ = both
    assert sorted(files) == sorted(trace.ops["rank"].unique())
    for rank, nodes in files.items():
        ours = trace.ops[trace.ops["rank"] == rank].set_index("op")
        assert sorted(one["id"] for one in nodes) == sorted(ours.index)
        for one in nodes:
            op, more = ours.loc[one["id"]], one["attributes"]
            assert one["name"] == op["name"] and more["is_cpu_op"] == 0
            assert (more["start_ps"], more["duration_ps"]) == (op["start_ps"], op["end_ps"] - op["start_ps"])
            assert abs(one["start"] * 10**6 - op["start_ps"]) <= 500_000
            assert abs(one["duration"] * 10**6 - more["duration_ps"]) <= 500_000


def test_nodes_depend_on_what_ran_before_them(both):
    trace, files, _ = both
    rank = dict(zip(trace.ops["op"], trace.ops["rank"], strict=True))
    wanted = {(op, on) for op, on in trace.dependencies.itertuples(index=False) if rank[op] == rank[on]}
    assert {(one["id"], on) for nodes in files.values() for one in nodes for on in one["data"]} == wanted
    for nodes in files.values():
        seen = set()
        for one in nodes:
            assert set(one["control"]) | set(one["data"]) <= seen and one["id"] not in seen
            seen.add(one["id"])


def test_a_stream_is_a_chain(both):
    trace, files, _ = both
    compute = trace.ops[trace.ops["stream"] == "compute"].sort_values(["rank", "start_ps", "op"])
    nodes = {one["id"]: one for part in files.values() for one in part}
    for _, ops in compute.groupby("rank"):
        for before, op in zip(ops["op"], ops["op"].iloc[1:], strict=False):
            assert before in nodes[op]["control"] + nodes[op]["data"]


def test_communication_says_what_it_is(both):
    trace, files, groups = both
    ours = trace.ops.set_index("op")
    gathers = "gather" in set(ours["kind"])
    for rank, nodes in files.items():
        for one in nodes:
            op, more, kind = ours.loc[one["id"]], one["attributes"], _TYPES[one["type"]]
            name = str(op["kind"])
            expected = {"send": "send", "recv": "recv", "offload": "store", "fetch": "load"}.get(name)
            assert kind == (expected or ("collective" if name in (*_COLLECTIVES, "reduce") else "compute"))
            if kind == "collective":
                assert more["comm_type"] == (_COLLECTIVES[name] if name != "reduce" else 7 if gathers else 0)
                assert more["comm_size"] == op["bytes"] and rank in groups[more["pg_name"]]
            elif kind in ("send", "recv"):
                ends = (rank, op["peer"]) if kind == "send" else (op["peer"], rank)
                assert (more["comm_src"], more["comm_dst"], more["comm_size"]) == (*ends, op["bytes"])


def test_messages_meet_by_their_tags(both):
    _, files, _ = both
    ends = {"send": [], "recv": []}
    for nodes in files.values():
        for one in nodes:
            if _TYPES[one["type"]] in ends:
                ends[_TYPES[one["type"]]].append(tuple(one["attributes"][name] for name in ("comm_src", "comm_dst", "comm_tag")))
    assert sorted(ends["send"]) == sorted(ends["recv"]) and len(set(ends["send"])) == len(ends["send"])


def test_the_parser_here_refuses_what_is_cut():
    [part, *_] = export(every_kind()).parts
    with pytest.raises((AssertionError, IndexError)):
        read(b"".join(part.chunks())[:-1])


def test_the_order_of_the_data_stream_makes_no_circle():
    """Its ops at one instant run in the order in which they can, whatever their numbers."""
    ops = pd.DataFrame({"op": [0, 1], "rank": 0, "stream": "data", "kind": "reduce", "start_ps": 5, "end_ps": 5, "bytes": 0})
    none = every_kind()
    trace = complete(Trace(ops, pd.DataFrame({"op": [0], "on": [1]}), none.links, none.memory[:0]))
    [part, _] = export(trace).parts
    assert {one["id"]: (one["data"], one["control"]) for one in read(b"".join(part.chunks()))} == {0: ([1], []), 1: ([], [])}
