"""How long a rank computes for what its peers compute too: the slow GPU, apart from the rank that has more to do."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.analysis.streams import COMPUTES, Ops

_ENOUGH = 0.5  # of the compute of a rank has to be comparable


def compute_over_peers(ops: Ops, table: pd.DataFrame) -> np.ndarray:
    """By rank, ascending: the time of its compute ops over the median of the other ranks' for the same; NaN where too little is the same.

    ``table``: that of the trace. Simulated ops are the same in kind and FLOPs, of which each rank's mean is compared; the optimizer,
    which differs by stage, is left out. Measured kernels say less of themselves: the same are those of one name that ranks ran equally
    often. Of a rank's classes of ops the median counts, weighted by time: a kernel that has more data on one rank by design is outvoted.

    >>> from clustersim.analysis.streams import read_ops
    >>> from clustersim.trace.trace import Trace
    >>> table = pd.DataFrame({"rank": [0, 1, 2, 3], "stream": "c", "kind": "forward", "start_ps": 0, "end_ps": [10, 13, 10, 10]})
    >>> compute_over_peers(read_ops(Trace(table, table[:0], table[:0], table[:0])), table).tolist()
    [1.0, 1.3, 1.0, 1.0]
    """
    ranks, rank = np.unique(ops.rank, return_inverse=True)
    chosen = np.flatnonzero((ops.family == COMPUTES) & ~ops.is_kind("optimizer"))
    keys = [ops.kind.codes]
    keys += [pd.factorize(table[name])[0] for name in (("name",) if ops.profiled else ("flops",)) if name in table]
    same = pd.DataFrame({"rank": rank, **{f"key{at}": key for at, key in enumerate(keys)}}).iloc[chosen]
    same = same.assign(time=(ops.end - ops.start)[chosen].astype(float), count=1)
    classes = [f"key{at}" for at in range(len(keys))]
    found = same.groupby([*classes, "rank"], as_index=False)[["time", "count"]].sum()
    found["mean"] = found["time"] / found["count"]
    code = found.groupby(classes + ["count"] * ops.profiled).ngroup().to_numpy()
    found["ratio"] = found["mean"] / median_of_others(code, found["mean"].to_numpy())
    total = found.groupby("rank")["time"].sum()
    found = found[np.isfinite(found["ratio"])].sort_values(["rank", "ratio"], kind="stable")
    comparable = found.groupby("rank")["time"]
    reached = comparable.cumsum() >= comparable.transform("sum") / 2
    middle = found[reached].groupby("rank")["ratio"].first()
    enough = comparable.sum() >= _ENOUGH * total.reindex(middle.index)
    return middle[enough].reindex(np.arange(len(ranks))).to_numpy(dtype=float)


def median_of_others(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of each value, the median of the others of its group; NaN where there are none.

    >>> median_of_others(np.array([0, 0, 0, 1, 0]), np.array([4.0, 1.0, 2.0, 9.0, 8.0])).tolist()
    [2.0, 4.0, 4.0, nan, 2.0]
    """
    order = np.lexsort((values, group))
    ordered = values[order]
    first = np.searchsorted(group[order], group[order])
    others = np.searchsorted(group[order], group[order], side="right") - first - 1
    place = np.arange(len(values)) - first
    low, high = (np.maximum(others - 1, 0)) // 2, others // 2
    low, high = (np.minimum(first + at + (at >= place), len(values) - 1) for at in (low, high))
    result = np.empty(len(values))
    result[order] = np.where(others > 0, (ordered[low] + ordered[high]) / 2, np.nan)
    return result
