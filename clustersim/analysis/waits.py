"""Who waits for whom: the ops of one collective (or a send and its receive) put together; waits apart from transfers; stragglers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.streams import FAMILIES, Ops
from clustersim.units import PS_PER_S


@dataclass(frozen=True)
class Activities:
    """``of_op``: a number for each op, the same for all that take part in one transfer; every other op has one of its own.

    By activity: ``begin``, when the transfer begins; ``end``, the last of its ops'; ``last``, the op that arrived last (of several the
    first in the table).
    """

    of_op: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.begin)

    def begin_of_op(self) -> np.ndarray:
        return self.begin[self.of_op]


def find_activities(ops: Ops) -> Activities:
    """Simulated: ops of one group and kind with the same start and end, of several at once the n-th of each rank with one another.

    Measured: the n-th op of a group and kind on each rank, where all its ranks have as many and all were there at once; an op that
    fits no other stands alone.
    """
    of_op = np.arange(len(ops))
    rows = np.flatnonzero(ops.communicates & (ops.group >= 0))
    if len(rows):
        of_op[rows] = len(ops) + (_measured(ops, rows) if ops.profiled else _simulated(ops, rows))
        # Numbered by first op, whatever the way here.
        _, first, code = np.unique(of_op, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        of_op = number[code]
    return _joined(ops, of_op)


def _joined(ops: Ops, of_op: np.ndarray) -> Activities:
    count = int(of_op.max()) + 1
    if count == len(ops):  # each op by itself, in the order of the table
        return Activities(of_op, ops.start, ops.end, np.arange(count))
    order = np.lexsort((-np.arange(len(ops)), ops.ready, of_op))
    last = order[np.cumsum(np.bincount(of_op, minlength=count)) - 1]
    begin, end = np.full(count, np.iinfo(np.int64).min), np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(begin, of_op, ops.start)
    np.maximum.at(end, of_op, ops.end)
    return Activities(of_op, begin, end, last)


def _class(ops: Ops, rows: np.ndarray) -> np.ndarray:
    """A number for a group and what it does; a send and a receive do the same."""
    names = [str(name) for name in ops.kind.categories]
    same = np.array([names.index("send") if name == "recv" and "send" in names else at for at, name in enumerate(names)])
    return ops.group[rows] * len(names) + same[ops.kind.codes[rows]]


def _simulated(ops: Ops, rows: np.ndarray) -> np.ndarray:
    kind, rank, start, end = _class(ops, rows), ops.rank[rows], ops.start[rows], ops.end[rows]
    order = np.lexsort((ops.number[rows], rank, end, start, kind))
    kind, rank, start, end = kind[order], rank[order], start[order], end[order]
    new = _differs(kind) | _differs(start) | _differs(end)
    numbers = _nth(new | _differs(rank))
    batch = np.cumsum(new) - 1
    return _unsorted(order, batch * (int(numbers.max()) + 1) + numbers)


def _measured(ops: Ops, rows: np.ndarray) -> np.ndarray:
    kind, rank, start, end = _class(ops, rows), ops.rank[rows], ops.start[rows], ops.end[rows]
    order = np.lexsort((ops.number[rows], start, rank, kind))
    kind, rank, start, end = kind[order], rank[order], start[order], end[order]
    numbers = _nth(_differs(kind) | _differs(rank))
    _, kind = np.unique(kind, return_inverse=True)
    per_rank = pd.DataFrame({"kind": kind, "rank": rank}).groupby(["kind", "rank"]).size()
    spread = per_rank.groupby(level=0).agg(["min", "max"])
    fits = (spread["min"] == spread["max"]).to_numpy()[kind]
    key = kind * (int(numbers.max()) + 1) + numbers
    together = pd.DataFrame({"key": key, "start": start, "end": end}).groupby("key")
    fits &= (together["start"].transform("max") <= together["end"].transform("min")).to_numpy()
    alone = int(key.max()) + 1 + np.arange(len(key))
    return _unsorted(order, np.where(fits, key, alone))


def _differs(column: np.ndarray) -> np.ndarray:
    return np.concatenate([[True], column[1:] != column[:-1]])


def _nth(new: np.ndarray) -> np.ndarray:
    """0, 1, 2 ... from each beginning.

    >>> _nth(np.array([True, False, False, True, False]))
    array([0, 1, 2, 0, 1])
    """
    at = np.arange(len(new))
    return at - np.maximum.accumulate(np.where(new, at, 0))


def _unsorted(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = np.empty_like(values)
    result[order] = values
    return result


def waits(ops: Ops) -> np.ndarray:
    """By op, the last arrival minus its own, in ps: 0 where it does not communicate. What the table says, as ranks may be missing."""
    return np.where(ops.communicates, ops.wait, 0)


def contention(ops: Ops, joined: Activities) -> np.ndarray:
    """By op, how much longer its transfer took than the shortest of its like (kind, group and bytes) in the trace, in ps.

    That is 0 for one that is alone of its like, and too little where every one met others. Measured traces say nothing of it: 0.
    """
    excess = np.zeros(len(ops), dtype=np.int64)
    rows = np.flatnonzero(ops.communicates)
    if ops.profiled or not len(rows):
        return excess
    took = ops.end[rows] - joined.begin_of_op()[rows]
    like = pd.DataFrame({"kind": ops.kind.codes[rows], "group": ops.group[rows], "bytes": ops.size[rows], "took": took})
    excess[rows] = took - like.groupby(["kind", "group", "bytes"], sort=False)["took"].transform("min").to_numpy()
    return excess


def collective_waits(ops: Ops, joined: Activities, stands_for: np.ndarray) -> pd.DataFrame:
    """A row per kind of communicating op: family, kind, ops; wait_s, transfer_s and contention_s (the part of the transfer), summed
    over the ops, each as often as its rank ``stands_for`` others (by op); longest_wait_s. Seconds: such sums may be more than 64 bits
    of picoseconds.
    """
    rows = np.flatnonzero(ops.communicates)
    wait, excess, count = waits(ops)[rows], contention(ops, joined)[rows], stands_for[rows]
    transfer = ops.end[rows] - ops.start[rows] - (wait if ops.profiled else 0)
    table = pd.DataFrame({"kind": ops.kind.codes[rows], "family": ops.family[rows], "count": count, "longest": wait})
    for name, times in (("wait", wait), ("excess", excess), ("transfer", transfer)):
        table[name] = times.astype(float) * count
    by_kind = table.groupby("kind", sort=True)
    return pd.DataFrame(
        {
            "family": [FAMILIES[family] for family in by_kind["family"].first()],
            "kind": [str(ops.kind.categories[code]) for code in by_kind.groups],
            "ops": by_kind["count"].sum().to_numpy(),
            "wait_s": by_kind["wait"].sum().to_numpy() / PS_PER_S,
            "longest_wait_s": by_kind["longest"].max().to_numpy() / PS_PER_S,
            "transfer_s": by_kind["transfer"].sum().to_numpy() / PS_PER_S,
            "contention_s": by_kind["excess"].sum().to_numpy() / PS_PER_S,
        }
    )


def stragglers(ops: Ops, joined: Activities, stands_for: np.ndarray) -> pd.DataFrame:
    """A row per rank: rank, waited_for_s (the waits of the others in collectives in which it came last), collectives (how many).

    A wait counts for as many ranks as that of its op ``stands_for`` (by op), a collective for as many as come last to one like it.
    Sends and receives are not in it: a receive is posted long before anybody needs it.
    """
    rows = np.flatnonzero(ops.communicates & ~ops.is_kind("send", "recv"))
    late = ops.rank[joined.last[joined.of_op[rows]]]
    wait = waits(ops)[rows].astype(float) * stands_for[rows]
    ranks, first = np.unique(ops.rank, return_index=True)
    found = pd.DataFrame({"rank": late, "wait": wait, "activity": joined.of_op[rows]})
    found = found[found["wait"] > 0]
    by_rank = found.groupby("rank")
    table = pd.DataFrame({"waited_for_s": by_rank["wait"].sum() / PS_PER_S, "collectives": by_rank["activity"].nunique()})
    table = table.reindex(ranks, fill_value=0).rename_axis("rank").reset_index()
    return table.assign(collectives=table["collectives"] * stands_for[first])
