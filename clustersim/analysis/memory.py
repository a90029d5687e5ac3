"""Memory over time, from the changes in a trace.

>>> changes = pd.DataFrame({"rank": 0, "time_ps": [0, 2, 5, 5], "bytes": [10, 7, -7, 4], "what": ["weights", *["buffers"] * 3]})
>>> timeline(changes, 0).to_dict("list"), peaks(changes)
({'weights': [10, 10, 10], 'buffers': [0, 7, 4]}, {0: 17})
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.program.kinds import MEMORY


def timeline(memory: pd.DataFrame, rank: int) -> pd.DataFrame:
    """Bytes that a rank holds, a column per kind, from each ``time_ps`` (the index) on. Changes of one instant count together."""
    mine = memory[memory["rank"] == rank]
    changes = mine.groupby(["time_ps", mine["what"].astype(str)])["bytes"].sum().unstack(fill_value=0)
    kinds = [kind for kind in MEMORY if kind in changes] + sorted(set(changes) - set(MEMORY))
    return changes[kinds].rename_axis(columns=None).cumsum()


def peaks(memory: pd.DataFrame) -> dict[int, int]:
    """By rank, the most bytes held at a time: what is freed at an instant is gone before anything is added."""
    if not len(memory):
        return {}
    rank, time = memory["rank"].to_numpy(), memory["time_ps"].to_numpy()
    order = np.lexsort((time, rank))
    rank, time = rank[order], time[order]
    held = np.cumsum(memory["bytes"].to_numpy()[order])
    heads = np.flatnonzero(np.append(True, rank[1:] != rank[:-1]))
    before = np.repeat(np.append(0, held[heads[1:] - 1]), np.diff(np.append(heads, len(rank))))
    settled = np.append((rank[1:] != rank[:-1]) | (time[1:] != time[:-1]), True)  # the last change of an instant
    most = np.maximum.reduceat(np.where(settled, held - before, np.iinfo(np.int64).min), heads)
    return dict(zip(rank[heads].tolist(), most.tolist(), strict=True))


def peak_times(memory: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """By rank, the most bytes held at a time (:func:`peaks`), and since when in ps; of several times the first.

    >>> peak_times(pd.DataFrame({"rank": 3, "time_ps": [0, 2, 5], "bytes": [10, 7, -7], "what": "weights"}))
    {3: (17, 2)}
    """
    if not len(memory):
        return {}
    at_once = memory.groupby(["rank", "time_ps"], sort=True)["bytes"].sum()
    held = at_once.groupby(level="rank").cumsum()
    return {int(rank): (int(of.max()), int(of.idxmax()[1])) for rank, of in held.groupby(level="rank")}


def fullest_rank(peak_of: dict[int, int]) -> int:
    """The rank with the highest peak, the first of several."""
    return min(peak_of, key=lambda rank: (-peak_of[rank], rank))


def at_peak(memory: pd.DataFrame, rank: int) -> dict[str, int]:
    """Bytes by kind when the rank holds most, at the first such time."""
    held = timeline(memory, rank)
    return held.loc[held.sum(axis=1).idxmax()].to_dict()
