"""A thread for each stream of a rank, as viewers of traces have them."""

from __future__ import annotations

import heapq
import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from clustersim.exporters.json_text import nanoseconds


class Thread(NamedTuple):
    """What it is called, and the stream whose ops it has."""

    name: str
    stream: str


def threads(ops: pd.DataFrame) -> tuple[np.ndarray, dict[int, Thread]]:
    """A thread for each op, 1 and up, and what they are. ``ops`` are in order of start.

    Ops of one stream that overlap, as messages on their way do, get further threads: slices of a thread must nest or follow.
    """
    order = _stream_order(ops)
    stream = ops["stream"].cat.set_categories(order).cat.codes.to_numpy().astype(np.int64)
    lane = np.zeros(len(ops), dtype=np.int64)
    key = ops["rank"].to_numpy().astype(np.int64) * len(order) + stream
    start, end = nanoseconds(ops["start_ps"].to_numpy()), nanoseconds(ops["end_ps"].to_numpy())
    rows = np.argsort(key, kind="stable")  # within a key by start, as the ops are
    meets = (key[rows][1:] == key[rows][:-1]) & (start[rows][1:] < end[rows][:-1])
    for one in np.unique(key[rows][1:][meets]):
        mine = rows[key[rows] == one]
        lane[mine] = _lanes(start[mine].tolist(), end[mine].tolist())
    tid = lane * len(order) + stream + 1
    used = np.unique(tid).tolist()
    places = {one: divmod(one - 1, len(order)) for one in used}
    return tid, {one: Thread(order[stream] + (f" ({lane + 1})" if lane else ""), order[stream]) for one, (lane, stream) in places.items()}


def _lanes(start: list[int], end: list[int]) -> list[int]:
    """The lowest lane that is free, in order of start.

    >>> _lanes([0, 1, 2, 5], [3, 2, 4, 6])
    [0, 1, 1, 0]
    """
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lanes = []
    for begin, stop in zip(start, end, strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (stop, lane))
        lanes.append(lane)
    return lanes


def _stream_order(ops: pd.DataFrame) -> list[str]:
    """The streams in use: ``compute`` first, the others by name, numbers in them as numbers.

    >>> _stream_order(pd.DataFrame({"stream": pd.Categorical(["send:10", "send:9", "compute"])}))
    ['compute', 'send:9', 'send:10']
    """
    names = [str(name) for name in ops["stream"].cat.remove_unused_categories().cat.categories]
    return sorted(names, key=lambda one: (one != "compute", [(part.isdigit(), part.zfill(9)) for part in re.split(r"([0-9]+)", one)]))
