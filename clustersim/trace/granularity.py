"""Rows of a trace joined where nothing can come between them: parts of a layer, or layers of a stage.

The simulation is the same at every granularity; what changes is how many rows tell of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from clustersim.program.kinds import COMPUTE
from clustersim.trace.trace import Trace

GRANULARITIES = ("kernel", "layer", "stage")
_ALIKE = {"layer": ["kind", "stage", "layer", "micro_batch"], "stage": ["kind", "stage", "micro_batch"]}


def coarsened(trace: Trace, granularity: str) -> Trace:
    """The trace with a row for each layer or stage of a pass, as far as its compute runs without a break and nothing waits for its parts.

    Times, FLOPs and dependencies are those of the parts together; a row over several layers has the layer -1. Op numbers are those of
    the first parts. Links and memory are as they were.
    """
    if granularity == "kernel" or not len(trace.ops):
        return trace
    ops, dependencies = trace.ops, trace.dependencies
    order = np.lexsort((ops["end_ps"], ops["start_ps"], ops["stream"].cat.codes, ops["rank"]))
    rows = ops.iloc[order]
    place = np.empty(len(ops), dtype=np.int64)
    place[order] = np.arange(len(ops))
    at = pd.Series(place, index=ops["op"].to_numpy())
    waits, on = at[dependencies["op"]].to_numpy(), at[dependencies["on"]].to_numpy()
    queue = np.cumsum(~_same(rows, ["rank", "stream"]))
    implied = (queue[waits] == queue[on]) & (on < waits)  # by the order of the stream
    joins = _same(rows, ["rank", "stream", *_ALIKE[granularity]]) & rows["kind"].isin(COMPUTE).to_numpy()
    joins[1:] &= rows["start_ps"].to_numpy()[1:] == rows["end_ps"].to_numpy()[:-1]
    joins[waits[~implied]] = False
    after_awaited = on[~implied] + 1
    joins[after_awaited[after_awaited < len(rows)]] = False
    piece = np.cumsum(~joins) - 1
    heads = np.flatnonzero(~joins)
    tails = np.append(heads[1:], len(rows)) - 1
    joined = rows.iloc[heads].reset_index(drop=True)
    sums = {name: np.add.reduceat(rows[name].to_numpy(), heads) for name in ("bytes", "flops")}
    several = tails > heads
    layer = np.where(_last_same(rows["layer"].to_numpy(), heads, tails), joined["layer"], -1)
    joined = joined.assign(end_ps=rows["end_ps"].to_numpy()[tails], layer=layer, name=_names(joined, several), **sums)
    numbers = joined["op"].to_numpy()
    kept = pd.DataFrame({"op": numbers[piece[waits]], "on": numbers[piece[on]]})
    kept = kept[kept["op"] != kept["on"]].drop_duplicates(ignore_index=True)
    return replace(trace, ops=joined.astype({"layer": ops["layer"].dtype}).sort_values("op", ignore_index=True), dependencies=kept)


def _same(rows: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """By row, whether it has the same values as the one before."""
    same = np.ones(len(rows), dtype=bool)
    same[0] = False
    for name in columns:
        values = rows[name].cat.codes.to_numpy() if isinstance(rows[name].dtype, pd.CategoricalDtype) else rows[name].to_numpy()
        same[1:] &= values[1:] == values[:-1]
    return same


def _last_same(values: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    return values[heads] == values[tails]


def _names(joined: pd.DataFrame, several: np.ndarray) -> pd.Categorical:
    """``3F5 mlp`` of several parts is ``3F5``."""
    names = joined["name"].astype(str).to_numpy()
    return pd.Categorical([name.partition(" ")[0] if many else name for name, many in zip(names.tolist(), several.tolist(), strict=True)])
