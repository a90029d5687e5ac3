"""Generated traces against a plain reading of the whole JSON, whatever the blocks in which the file is read."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clustersim.analysis.hta import exact_times
from clustersim.importers.kineto import load_kineto
from clustersim.importers.kineto_events import NEVER, read_events

NAMES = st.sampled_from(["gemm", "ncclDevKernel_AllReduce", 'odd "}, {" \\', "π ]}", "Memcpy HtoD"])
CATEGORIES = st.sampled_from(["kernel", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cpu_op", "cuda_runtime", "user_annotation"])


@st.composite
def traces(draw):
    base = draw(st.sampled_from([0, 10**15, 1_700 * 10**15]))
    events = draw(
        st.lists(
            st.builds(
                dict,
                ph=st.sampled_from(["X", "X", "X", "i"]),
                cat=CATEGORIES,
                name=NAMES,
                ts=st.integers(0, 50_000).map(lambda ns: base + ns),
                dur=st.integers(0, 5_000),
                stream=st.integers(0, 2),
                correlation=st.integers(0, 5),
            ),
            max_size=25,
        )
    )
    certain = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": base + 10, "dur": 10, "stream": 0, "correlation": 0}
    return draw(st.permutations([certain, *events]))


def microseconds(ns):
    return str(ns // 1000) if ns % 1000 == 0 else f"{ns // 1000}.{ns % 1000:03d}"


def text_of(events, indent):
    listed = []
    for one in events:
        args = {"correlation": one["correlation"]}
        args |= {"stream": one["stream"]} if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync") else {}
        plain = {key: one[key] for key in ("ph", "cat", "name")} | {"ts": "@TS", "dur": "@DUR", "args": args}
        text = json.dumps(plain, indent=indent, ensure_ascii=False)
        listed.append(text.replace('"@TS"', microseconds(one["ts"])).replace('"@DUR"', microseconds(one["dur"])))
    return '{"schemaVersion": 1, "traceEvents": [' + ", ".join(listed) + '], "traceName": "a"}'


def covered(pieces):
    """Nanoseconds that any of the pieces covers, by sweeping."""
    total, until = 0, None
    for start, end in sorted(pieces):
        if until is None or start > until:
            until = start
        total += max(0, end - until)
        until = max(until, end)
    return total


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=traces(), indent=st.sampled_from([None, 1]), packed=st.booleans(), block=st.integers(1, 400))
def test_against_a_plain_reading(tmp_path, events, indent, packed, block):
    path = tmp_path / "rank0.json"
    raw = text_of(events, indent).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    whole = json.loads(raw, parse_float=Fraction)["traceEvents"]
    complete = [one for one in whole if one["ph"] == "X"]
    device = [one for one in complete if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    rows = sorted((int(one["ts"] * 1000), int((one["ts"] + one["dur"]) * 1000), one["name"], one["args"]["correlation"]) for one in device)
    zero = rows[0][0]

    small = read_events(path, block)
    assert small.found.total() == len(complete)
    imported = load_kineto(path)
    table = imported.trace.ops
    launches = imported.launches["launch_ps"].tolist()
    starts, ends = (table[name] // 1000 + zero for name in ("start_ps", "end_ps"))
    assert sorted(zip(starts, ends, table["name"], imported.launches["correlation"], strict=True)) == rows
    on_host = [one for one in complete if one["cat"] in ("cpu_op", "cuda_runtime", "user_annotation")]
    for launch, correlation in zip(launches, imported.launches["correlation"], strict=True):
        hosts = [one["ts"] for one in on_host if one["args"]["correlation"] == correlation]
        assert launch == (int(min(hosts) * 1000 - zero) * 1000 if hosts else NEVER)
    assert table["start_ps"].min() >= 0 and (table["start_ps"] <= table["end_ps"]).all()
    for name in small.device:
        assert sorted(small.device[name].tolist()) == sorted(read_events(path).device[name].tolist())

    figures = exact_times(imported).iloc[0]
    kernels = [one for one in device if one["cat"] == "kernel" and "nccl" not in one["name"]]
    computes = [(int(one["ts"] * 1000), int((one["ts"] + one["dur"]) * 1000)) for one in kernels]
    busy = covered([row[:2] for row in rows])
    assert figures["busy_ps"] == busy * 1000 and figures["compute_ps"] == covered(computes) * 1000
    assert figures["span_ps"] == figures["busy_ps"] + figures["idle_ps"]
