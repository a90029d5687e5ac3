"""The critical path of a trace, exactly as long as the trace, and the slack of every op.

>>> from clustersim.analysis.streams import read_ops
>>> from clustersim.analysis.waits import find_activities
>>> from clustersim.trace.trace import Trace
>>> table = pd.DataFrame({"rank": 0, "stream": ["a", "b", "a"], "kind": "forward", "start_ps": [0, 0, 5], "end_ps": [5, 3, 9]})
>>> trace = Trace(table, pd.DataFrame({"op": [2], "on": [1]}), table[:0], table[:0])
>>> ops = read_ops(trace)
>>> joined = find_activities(ops)
>>> graph = build_graph(ops, joined, trace.dependencies)
>>> critical_path(ops, joined, graph, 0)[["op", "start_ps", "end_ps"]].values.tolist()
[[0, 0, 5], [2, 5, 9]]
>>> slack(ops, joined, graph).tolist()
[0, 2, 0]
"""

from __future__ import annotations

from array import array

import numpy as np
import pandas as pd

from clustersim.analysis.path_graph import NONE, Graph, build_graph
from clustersim.analysis.streams import Ops
from clustersim.analysis.waits import Activities

__all__ = ["WAIT", "build_graph", "clipped_path", "critical_path", "path_by_kind", "slack"]
WAIT = "wait"
_BLOCK = 1 << 18


def critical_path(ops: Ops, joined: Activities, graph: Graph, begin_ps: int) -> pd.DataFrame:
    """Pieces in order of time that cover [begin_ps, end of the trace] without gap or overlap: op, rank, kind, start_ps, end_ps.

    From the op that ends last back through what made each op begin: the last to arrive in its collective, and what made that ready. An
    op that nothing explains is behind a ``wait``, whose ``op`` is the one that waited. At equal times the lowest op.
    """
    start, ready = joined.begin_of_op(), ops.ready
    names = [str(name) for name in ops.kind.categories]
    pieces: list[tuple[int, str, int, int]] = []
    now = int(ops.end.max())
    op = int(np.argmax(ops.end))
    while True:
        begin, last = int(start[op]), int(joined.last[joined.of_op[op]])
        if now < begin:  # a measured kernel that still waits for the others when the next op begins
            begin, last = int(ready[op]), op
        elif ready[op] == ready[last]:
            last = op
        pieces.append((op, names[ops.kind.codes[op]], begin, now))
        now, edge = int(ready[last]), int(graph.binding[last])
        if edge == NONE:
            break
        op = int(graph.source[edge])
        until = int(start[op]) if graph.at_start[edge] else min(int(ops.end[op]), now)
        pieces.append((last, WAIT, until, now))
        now = until
    pieces.append((op, WAIT, begin_ps, now))
    rows = [piece for piece in reversed(pieces) if piece[2] < piece[3]]
    table = pd.DataFrame(rows, columns=["row", "kind", "start_ps", "end_ps"])
    row = table.pop("row").to_numpy(dtype=np.int64)
    table.insert(0, "op", ops.number[row])
    table.insert(1, "rank", ops.rank[row])
    return table


def clipped_path(path: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """The part of a path in a window, which it covers without gap too.

    >>> path = pd.DataFrame({"op": [0, 2], "start_ps": [0, 5], "end_ps": [5, 9]})
    >>> clipped_path(path, (2, 5)).values.tolist()
    [[0, 2, 5]]
    """
    path = path.assign(start_ps=np.clip(path["start_ps"], *window), end_ps=np.clip(path["end_ps"], *window))
    return path[path["start_ps"] < path["end_ps"]].reset_index(drop=True)


def path_by_kind(path: pd.DataFrame, window: tuple[int, int]) -> dict[str, int]:
    """Time of the path inside the window by kind, in ps, most first; it adds up to the window."""
    inside = np.clip(path["end_ps"], *window) - np.clip(path["start_ps"], *window)
    by_kind = inside.groupby(path["kind"].to_numpy()).sum()
    found = sorted(by_kind.items(), key=lambda item: (-item[1], item[0]))
    return {str(kind): int(time) for kind, time in found if time}


def slack(ops: Ops, joined: Activities, graph: Graph) -> np.ndarray:
    """By op, how much later it could end, in ps, with the trace ending when it does; ops of one transfer end together.

    All else stays: durations, lags, the order of each stream, the pace of transfers.
    """
    count = len(joined)
    place = np.empty(count, dtype=np.int32)
    place[graph.order[::-1]] = np.arange(count, dtype=np.int32)  # the last comes first
    own = (int(ops.end.max()) - joined.end)[graph.order[::-1]]
    position, begin, when_explained = place[joined.of_op], joined.begin_of_op(), _when_explained(ops, joined, graph)
    by_source = position[graph.source]
    order = np.argsort(by_source, kind="stable")
    may_begin = array("q", own.tobytes())
    for low in range(0, len(order), _BLOCK):  # many arrays as long as all edges would need gigabytes
        edge = order[low : low + _BLOCK]
        edge = edge[by_source[edge] != position[graph.target[edge]]]
        source, target, at_start = graph.source[edge], graph.target[edge], graph.at_start[edge]
        lag = ops.ready[target] - when_explained[target]
        gap = begin[target] - lag - np.where(at_start, begin[source], ops.end[source])  # how much later the target still is ready in time
        earlier, later = position[source], position[target]
        for one, other, room in zip(earlier.tolist(), later.tolist(), gap.tolist(), strict=True):
            room += may_begin[other]
            if room < may_begin[one]:
                may_begin[one] = room
        ends = ~at_start
        np.minimum.at(own, earlier[ends], gap[ends] + np.frombuffer(may_begin, dtype=np.int64)[later[ends]])
    return own[position]


def _when_explained(ops: Ops, joined: Activities, graph: Graph) -> np.ndarray:
    """By op, when all that it waits for was there, in ps; 0 for one that waits for nothing."""
    bound = np.flatnonzero(graph.binding != NONE)
    last = graph.binding[bound]
    source = graph.source[last]
    found = np.zeros(len(ops), dtype=np.int64)
    found[bound] = np.where(graph.at_start[last], joined.begin[joined.of_op[source]], ops.end[source])
    return found
