"""Ranks of a folded run that were not simulated themselves, told by those that stand for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from clustersim.trace.trace import Trace


def expanded(trace: Trace, ranks: pd.DataFrame, wanted: Sequence[int]) -> Trace:
    """The ops and memory of these ranks of the job, simulated or not. ``ranks``: rank, simulated_as, for every rank of the job.

    Ops that a rank was not simulated for have numbers, peers and streams of their own; their group is that of the ops they are told by,
    as are the links. Dependencies on ranks that are not wanted are left out. KeyError for a rank that the job has not.

    >>> ops = pd.DataFrame({"op": [0, 1], "rank": [0, 1], "stream": ["send:1", "recv:0"], "peer": [1, 0], "start_ps": [0, 5]})
    >>> trace = Trace(ops, pd.DataFrame({"op": [1], "on": [0]}), pd.DataFrame(), pd.DataFrame({"rank": [], "time_ps": []}))
    >>> ranks = pd.DataFrame({"rank": [0, 1, 2, 3], "simulated_as": [0, 1, 0, 1]})
    >>> found = expanded(trace, ranks, [2, 3])
    >>> found.ops.values.tolist(), found.dependencies.values.tolist()
    ([[2, 2, 'send:3', 3, 0], [3, 3, 'recv:2', 2, 5]], [[3, 2]])
    """
    stands = ranks.sort_values("rank").reset_index(drop=True)
    # Copies that one stands for are in the same order on every pipeline rank: the k-th there is of the k-th here.
    turn = stands.groupby("simulated_as").cumcount().to_numpy()
    rank_of = dict(zip(zip(stands["simulated_as"].tolist(), turn.tolist(), strict=True), stands["rank"].tolist(), strict=True))
    told_by = dict(zip(stands["rank"].tolist(), zip(stands["simulated_as"].tolist(), turn.tolist(), strict=True), strict=True))
    step = int(trace.ops["op"].max()) + 1 if len(trace.ops) else 1
    ops, memory = [], []
    by_rank = trace.ops.groupby("rank", sort=False).indices
    memory_of = trace.memory.groupby("rank", sort=False).indices
    for rank in dict.fromkeys(wanted):
        simulated, copy = told_by[rank]
        mine = trace.ops.iloc[by_rank.get(simulated, [])]
        peers = [rank_of.get((peer, copy), peer) for peer in mine["peer"].tolist()]
        own = {"op": mine["op"] + copy * step, "rank": rank, "peer": np.array(peers, dtype=mine["peer"].dtype)}
        ops.append(mine.assign(**own, stream=_streams(mine["stream"], rank_of, copy)))
        memory.append(trace.memory.iloc[memory_of.get(simulated, [])].assign(rank=rank))
    table = pd.concat(ops, ignore_index=True).astype({"rank": trace.ops["rank"].dtype, "stream": "category"})
    held = pd.concat(memory, ignore_index=True).astype({"rank": trace.memory["rank"].dtype})
    return replace(trace, ops=table, memory=held, dependencies=_dependencies(trace.dependencies, table["op"].to_numpy(), step))


def _streams(names: pd.Series, rank_of: Mapping[tuple[int, int], int], copy: int) -> list[str]:
    """``send:1`` of a copy names the peer of that copy."""
    own = {}
    for name in names.unique():
        kind, colon, peer = name.partition(":")
        own[name] = f"{kind}:{rank_of.get((int(peer), copy), peer)}" if colon else name
    return [own[name] for name in names]


def _dependencies(dependencies: pd.DataFrame, numbers: np.ndarray, step: int) -> pd.DataFrame:
    """For each copy among the ops ``numbers`` those with both ends there."""
    found = []
    for copy in np.unique(numbers // step).tolist():
        here = numbers[numbers // step == copy] - copy * step
        both = dependencies["op"].isin(here) & dependencies["on"].isin(here)
        found.append(dependencies[both] + copy * step)
    return pd.concat(found, ignore_index=True) if found else dependencies.iloc[:0]
