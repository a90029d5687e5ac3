"""Chakra execution traces: graphs of nodes, ``chakra.N.et`` for rank N (schema: mlcommons/chakra, ``schema/protobuf/et_def.proto``).

A file is a row of messages, each after its length: the metadata, then the nodes in order of start. A node depends on what the op waited
for on its own rank (data) and on the op before it on its stream (control); ranks depend on one another by collectives and messages.
Times are whole microseconds in the schema's fields, exact in the attributes ``start_ps`` and ``duration_ps``. ``comm_groups.json``
lists the ranks of every ``pg_name``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from clustersim.exporters.files import Export, Part, Size, estimate, spans
from clustersim.exporters.protobuf import data, delimited, number, packed
from clustersim.exporters.selection import by_start, group_ranks, messages
from clustersim.exporters.transfers import COMPUTES, HOST, POINT_TO_POINT, collectives
from clustersim.trace.trace import Trace

VERSION = "0.0.4"
_LOAD, _STORE, _COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 2, 3, 4, 5, 6, 7
_COMMUNICATION_TYPE = {"all_reduce": 0, "all_gather": 2, "broadcast": 5, "all_to_all": 6, "reduce_scatter": 7}
_INT32, _INT64, _UINT64, _BOOL, _STRING = 7, 9, 13, 27, 29  # fields of AttributeProto


def export(trace: Trace) -> Export:
    """A file a rank and the groups."""
    known, groups = collectives(trace.ops), _groups(trace.ops)
    ops = _prepared(trace, known)
    rank = ops["rank"].to_numpy()
    before = _dependencies(trace.dependencies, trace.ops)
    parts = []
    for one in np.unique(rank).tolist():
        begin, end = np.searchsorted(rank, [one, one + 1]).tolist()
        parts.append(Part(f"chakra.{one}.et", partial(_file, ops[begin:end], before, groups)))
    table = {str(code): list(group_ranks(label)) for label, code in groups.items()}
    text = (json.dumps(table) + "\n").encode()
    parts.append(Part("comm_groups.json", lambda: [text]))
    nodes = estimate(len(ops), lambda rows: _nodes(ops.iloc[rows], before, groups), packed=False)
    return Export(tuple(parts), nodes + Size(len(text), len(text)))


def _groups(ops: pd.DataFrame) -> dict[str, int]:
    """A number from 1 for each group; 0 is everybody."""
    labels = sorted({label for label in ops["group"].astype(str).unique() if group_ranks(label)})
    return {label: code for code, label in enumerate(labels, 1)}


def _prepared(trace: Trace, known: dict[str, str]) -> pd.DataFrame:
    """The ops by rank and start, with type, collective, the op before (-1: none) and the tag of a message."""
    ops = by_start(trace.ops)
    kind = ops["kind"].astype(str)
    types = {"send": _SEND, "recv": _RECEIVE, "fetch": _LOAD, "offload": _STORE} | dict.fromkeys(known, _COLLECTIVE)
    ops["type"] = kind.map(lambda name: types.get(name, _COMPUTE))
    ops["collective"] = kind.map(lambda name: _COMMUNICATION_TYPE.get(known.get(name, ""), -1))
    last = ops.groupby(["rank", "stream"], observed=True)[["op", "start_ps", "end_ps"]].shift()
    # That stream is in order of readiness: at one instant nothing tells which was first.
    unordered = (ops["stream"] == "data") & (last["start_ps"] == ops["start_ps"])
    ops["before"] = np.where((last["end_ps"] <= ops["start_ps"]) & ~unordered, last["op"], -1).astype(np.int64)
    sent = messages(ops)
    ops["tag"] = 0
    ops.loc[sent["row"], "tag"] = sent["number"].to_numpy()
    return ops


def _dependencies(table: pd.DataFrame, ops: pd.DataFrame) -> dict[int, list[int]]:
    """What each op waits for on its own rank."""
    rank = pd.Series(ops["rank"].to_numpy(), index=ops["op"])
    op, on = table["op"].to_numpy(), table["on"].to_numpy()
    here = (rank.reindex(op) == rank.reindex(on).to_numpy()).to_numpy()
    found: dict[int, list[int]] = {}
    for one, other in zip(op[here].tolist(), on[here].tolist(), strict=True):
        found.setdefault(one, []).append(other)
    return found


def _file(ops: pd.DataFrame, before: dict[int, list[int]], groups: dict[str, int]) -> Iterator[bytes]:
    yield delimited(data(1, VERSION.encode()))
    yield from (_nodes(ops.iloc[rows], before, groups) for rows in spans(len(ops)))


def _nodes(ops: pd.DataFrame, before: dict[int, list[int]], groups: dict[str, int]) -> bytes:
    return b"".join([delimited(_node(row, before.get(row.op, []), groups)) for row in ops.itertuples(index=False)])


def _node(row: Any, waits: list[int], groups: dict[str, int]) -> bytes:
    control = [row.before] if row.before >= 0 and row.before not in waits else []
    span = row.end_ps - row.start_ps
    fields = [
        number(1, row.op), data(2, str(row.name).encode()), number(3, row.type), packed(4, control), packed(5, waits),
        number(6, (row.start_ps + 500_000) // 1_000_000), number(7, (span + 500_000) // 1_000_000),
    ]  # fmt: skip
    attributes = [("is_cpu_op", _BOOL, 0), ("duration_ps", _INT64, span), *_attributes(row, groups)]
    fields += [_attribute.__wrapped__("start_ps", _INT64, row.start_ps), *(_attribute(*one) for one in attributes)]
    return b"".join(fields)


@lru_cache(maxsize=4096)
def _attribute(name: str, field: int, value: int | str) -> bytes:
    """Most attributes of a trace are alike.

    >>> _attribute("is_cpu_op", _BOOL, 0).hex()
    '520e0a0969735f6370755f6f70d80100'
    """
    text = data(field, value.encode()) if isinstance(value, str) else number(field, value)
    return data(10, data(1, name.encode()) + text)


def _attributes(row: Any, groups: dict[str, int]) -> list[tuple[str, int, int | str]]:
    kind, size = str(row.kind), int(row.bytes)
    if kind in HOST:
        return [("tensor_size", _UINT64, size)]
    if kind in POINT_TO_POINT:
        source, target = (row.rank, row.peer) if kind == "send" else (row.peer, row.rank)
        ends = [("comm_src", _INT32, source), ("comm_dst", _INT32, target)] if row.peer >= 0 else []
        return [("comm_size", _INT64, size), *ends, ("comm_tag", _INT32, row.tag)]
    if row.type == _COLLECTIVE:
        group = [("pg_name", _STRING, str(groups[row.group]))] if row.group in groups else []
        what = [("comm_type", _INT64, row.collective)] if row.collective >= 0 else []
        return [*what, ("comm_size", _INT64, size), *group]
    return [("num_ops", _INT64, int(row.flops)), ("tensor_size", _UINT64, size)] if kind in COMPUTES else [("tensor_size", _UINT64, size)]
