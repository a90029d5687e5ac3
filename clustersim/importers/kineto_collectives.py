"""Which kernels of several ranks are one collective, how long each waited in it, and how fast the collectives were."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from clustersim.importers.kineto_kinds import COLLECTIVES, TRANSFERS, Arguments, group_ranks, group_size, label_size

_POINT_TO_POINT = ("send", "recv")


def waits(ops: pd.DataFrame, arguments: list[Arguments], code: np.ndarray, complete: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """For each op the part of its time in which it waited for the last rank, 0 where that is not known; whether it is; and notes.

    It is known of collectives whose ranks are all given, and of what is no collective: a send or receive is not looked at. The n-th
    collective of a process group on one rank is the n-th on the others: every rank runs them in the same order. A group
    whose ranks differ in number or kinds is left out. Without NCCL arguments the only group known is that of all ranks: it is
    taken where every rank ran the same row of collectives, and no rank of the job is missing (``complete``). The wait is the last
    arrival (by the ranks' own clocks) minus the own, at most the op's length; the op itself is not shortened. ``ops`` are sorted by
    rank and start; ``code`` gives each one's place in ``arguments``.
    """
    rank, start = ops["rank"].to_numpy(), ops["start_ps"].to_numpy()
    kinds = ops["kind"].cat.codes.to_numpy()
    table = list(ops["kind"].cat.categories)
    transfers = np.isin(kinds, [table.index(kind) for kind in TRANSFERS if kind not in _POINT_TO_POINT])
    wait, known, notes = np.zeros(len(ops), dtype=np.int64), ~transfers, []
    by_code = np.flatnonzero(transfers)
    by_code = by_code[np.argsort(code[by_code], kind="stable")]
    bounds = np.searchsorted(code[by_code], np.arange(len(arguments) + 1))
    for label, members, places in _groups(arguments, set(np.unique(rank).tolist()), complete):
        mine = np.sort(np.concatenate([by_code[bounds[place] : bounds[place + 1]] for place in places]))
        low, high = (np.searchsorted(rank[mine], members, side=side) for side in ("left", "right"))
        rows = [mine[first:behind] for first, behind in zip(low, high, strict=True)]
        if any(len(a) != len(b) or (kinds[a] != kinds[b]).any() for a, b in pairwise(rows)):
            notes.append(f"{label}: the ranks did not run the same row of collectives: no waits")
            continue
        arrived = np.stack([start[row] for row in rows])
        wait[np.stack(rows)] = arrived.max(axis=0) - arrived
        known[mine] = True
    span = ops["end_ps"].to_numpy() - start
    late = int((wait > span).sum())
    if late:
        notes.append(f"{late} collectives ended on one rank before another began: clocks differ, or they were not one; the wait is cut")
    return np.minimum(wait, span), known, notes


def _groups(arguments: list[Arguments], given: set[int], complete: bool) -> list[tuple[str, list[int], list[int]]]:
    """Label, ranks and arguments (their places) of every group whose ranks are all given; arguments that differ in sizes alone are of one
    group.
    """
    by_group: dict[tuple[Any, ...], list[int]] = {}
    everyone = tuple(sorted(given)) if complete else ()
    for place, one in enumerate(arguments):
        if one == Arguments():
            key = ("", everyone)
        else:
            ranks = group_ranks(one) or (everyone if group_size(one) == len(given) else ())
            key = (str(one.group), ranks)
        if set(key[1]) <= given and len(key[1]) > 1:
            by_group.setdefault(key, []).append(place)
    return [
        (f"group {name}" if name else "kernels without NCCL arguments", list(ranks), places)
        for (name, ranks), places in by_group.items()
    ]


def collectives(ops: pd.DataFrame, wait_known: np.ndarray | None = None) -> pd.DataFrame:
    """A row per group and kind of transfer in the ops of an imported trace: count, bytes, time_s, wait_s, algbw_bytes_s, busbw_bytes_s.

    ``bytes`` (None where no arguments give any) is as NCCL's tests count it, summed over the ops of all given ranks
    (:func:`~clustersim.importers.kineto_kinds.payload_bytes`), as is ``time_s``, which contains ``wait_s`` (None where ``wait_known``
    says of an op that it is not, and of sends and receives, which are not looked at). algbw is bytes over the time without the wait;
    busbw is algbw times 2(n-1)/n for an all-reduce, (n-1)/n for reduce-scatter, all-gather and all-to-all, 1 else (NCCL's
    PERFORMANCE.md). Only ops whose arguments give bytes count for the bandwidths; None where there are none, or where the size of the
    group is not known.

    >>> ops = pd.DataFrame({"kind": ["all_reduce", "kernel"], "group": ["0, 4 ranks", ""], "start_ps": [0, 0], "end_ps": [2000000, 9],
    ...     "wait_ps": [1000000, 0], "bytes": [1000, 0]})
    >>> collectives(ops).to_dict("records")  # doctest: +NORMALIZE_WHITESPACE
    [{'group': '0, 4 ranks', 'collective': 'all_reduce', 'count': 1, 'bytes': 1000, 'time_s': 2e-06, 'wait_s': 1e-06,
      'algbw_bytes_s': 1000000000.0, 'busbw_bytes_s': 1500000000.0}]
    """
    chosen = ops.assign(wait_known=True if wait_known is None else wait_known)
    chosen = chosen[chosen["kind"].isin(TRANSFERS)]
    rows = []
    for (group, kind), of in chosen.groupby(["group", "kind"], observed=True, sort=True):
        span, wait, size = (of["end_ps"] - of["start_ps"]).to_numpy(), of["wait_ps"].to_numpy(), of["bytes"].to_numpy()
        known = size > 0
        moving = int((span - wait)[known].sum())
        speed = int(size.sum()) * 10**12 / moving if moving else None
        factor = bus_factor(str(kind), label_size(str(group)))
        bus = None if speed is None or factor is None else speed * factor
        waited = int(wait.sum()) / 1e12 if of["wait_known"].all() and kind not in _POINT_TO_POINT else None
        moved = int(size.sum()) if known.any() else None
        rows.append((str(group), str(kind), len(of), moved, int(span.sum()) / 1e12, waited, speed, bus))
    columns = ["group", "collective", "count", "bytes", "time_s", "wait_s", "algbw_bytes_s", "busbw_bytes_s"]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"count": np.int64, "time_s": float})


def bus_factor(kind: str, ranks: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth; None where the ranks are not known.

    >>> bus_factor("all_reduce", 4), bus_factor("all_gather", 4), bus_factor("send", 0), bus_factor("all_reduce", 0)
    (1.5, 0.75, 1.0, None)
    """
    if kind in ("broadcast", *_POINT_TO_POINT):
        return 1.0
    if kind not in COLLECTIVES or ranks < 1:
        return None
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks
