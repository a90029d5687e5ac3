"""Why each op began when it did: the op before it on its stream, what it depends on, the others of its collective.

An op is *ready* when all that it needs has ended and its stream is free; a transfer begins when the last of its ops is ready. What a
trace does not explain (an op that is ready later than all that it needs) is a *lag*, as long as it was. Durations and the order of each
stream are taken as they were.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np
import pandas as pd

from clustersim.analysis.streams import Ops, whole_numbers
from clustersim.analysis.waits import Activities
from clustersim.errors import InputError

_READINESS_ORDERED = "data"
NONE = -1
_ROUNDS = 100
_BLOCK = 1 << 20  # edges at a time: many arrays as long as all would need gigabytes


@dataclass(frozen=True)
class Graph:
    """Edges ``source`` -> ``target`` by op: the target is ready when the source ends, or, where ``at_start``, begins.

    ``order``: activities so that each comes after all that it waits for. ``binding``: by op, the edge that made it ready last
    (NONE: nothing comes before it); of several the stream's, then that of the lowest op.
    """

    source: np.ndarray
    target: np.ndarray
    at_start: np.ndarray
    order: np.ndarray
    binding: np.ndarray


def build_graph(ops: Ops, joined: Activities, dependencies: pd.DataFrame) -> Graph:
    """InputError where an op began before what it depends on had ended, or a dependency names an op that is not there.

    A measured trace has no dependencies: an op is taken to come after what its rank was doing when it began, or else did last.
    """
    needs, on = _dependencies(ops, dependencies)
    depth = _depths(ops, joined, needs, on)
    begin = joined.begin_of_op()
    if ops.profiled:
        last = _doing(ops)
        target = np.flatnonzero(last != NONE).astype(np.int32)
        source, at_start = last[target].astype(np.int32), np.zeros(len(target), dtype=bool)
    else:
        order = np.lexsort((joined.of_op, depth[joined.of_op], begin, ops.lane))
        follows = ops.lane[order[1:]] == ops.lane[order[:-1]]
        before, after = order[:-1][follows], order[1:][follows]
        free = _frees_at_once(ops, before) | (ops.end[before] > ops.ready[after])
        source, target = (np.concatenate(ends, dtype=np.int32) for ends in ((before, on), (after, needs)))
        at_start = np.concatenate([free, np.zeros(len(on), dtype=bool)])
    activities = np.lexsort((np.arange(len(joined)), depth, joined.begin))
    return Graph(source, target, at_start, activities, _binding(ops, begin, source, target, at_start))


def _dependencies(ops: Ops, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The op that waits and the one that it waits for, as rows."""
    if not len(table):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for name in ("op", "on"):
        if name not in table:
            raise InputError(f"dependencies: column missing: {name}")
    needs, on = (_rows(ops.number, whole_numbers(table[name], f"dependencies: {name}")) for name in ("op", "on"))
    early = ops.end[on] > ops.ready[needs]
    if early.any():
        at = int(np.argmax(early))
        raise InputError(f"dependencies: op {ops.number[needs[at]]} is ready before op {ops.number[on[at]]}, which it waits for, has ended")
    return needs, on


def _rows(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    plain = len(numbers) and numbers[0] == 0 and numbers[-1] == len(numbers) - 1 and (np.diff(numbers) == 1).all()
    order = None if plain else np.argsort(numbers, kind="stable")
    if order is not None and (np.diff(numbers[order]) == 0).any():
        raise InputError("ops: two have the same number, and dependencies name ops by number")
    at = wanted if order is None else np.searchsorted(numbers[order], wanted)
    inside = (at >= 0) & (at < len(numbers))
    if not inside.all() or (order is not None and (numbers[order][at] != wanted).any()):
        missing = wanted[~inside] if not inside.all() else wanted[numbers[order][at] != wanted]
        raise InputError(f"dependencies: op {missing[0]} is not in the table of ops")
    return at if order is None else order[at]


def _frees_at_once(ops: Ops, rows: np.ndarray) -> np.ndarray:
    """Whether a send or receive leaves its stream free while it is under way, as on links that only delay: then some overlap."""
    messages = np.flatnonzero(ops.is_kind("send", "recv"))
    if not len(messages):
        return np.zeros(len(rows), dtype=bool)
    order = messages[np.lexsort((ops.number[messages], ops.start[messages], ops.lane[messages]))]
    one, other = order[:-1], order[1:]
    overlap = (ops.lane[one] == ops.lane[other]) & (ops.ready[other] < ops.end[one])
    return ops.is_kind("send", "recv")[rows] & overlap.any()


def _depths(ops: Ops, joined: Activities, needs: np.ndarray, on: np.ndarray) -> np.ndarray:
    """By activity, its place among those that begin at the same instant and wait for one another, as ops without a duration do."""
    begin = joined.begin_of_op()
    order = np.lexsort((ops.number, begin, ops.lane))
    one, other = order[:-1], order[1:]
    ordered = np.array([str(name) != _READINESS_ORDERED for name in ops.stream.categories])[ops.stream.codes]
    tied = (ops.lane[one] == ops.lane[other]) & (begin[one] == begin[other]) & ordered[one]
    chained = begin[on] == begin[needs]
    source = joined.of_op[np.concatenate([one[tied], on[chained]])]
    target = joined.of_op[np.concatenate([other[tied], needs[chained]])]
    depth = np.zeros(len(joined), dtype=np.int64)
    source, target = source[source != target], target[source != target]
    for _ in range(_ROUNDS):
        deeper = depth[source] >= depth[target]
        if not deeper.any():
            return depth
        np.maximum.at(depth, target[deeper], depth[source[deeper]] + 1)
    return _sorted_depths(len(joined), source, target)


def _sorted_depths(count: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The same for long chains, one by one."""
    before: dict[int, list[int]] = {}
    for one, other in zip(source.tolist(), target.tolist(), strict=True):
        before.setdefault(other, []).append(one)
    depth = np.zeros(count, dtype=np.int64)
    try:
        for place, one in enumerate(TopologicalSorter(before).static_order()):
            depth[one] = place
    except CycleError:
        raise InputError("dependencies: ops without a duration wait for one another in a circle") from None
    return depth


def _doing(ops: Ops) -> np.ndarray:
    """By op, of those of its rank that began before it the one that ended last; NONE where there is none."""
    by_start = np.lexsort((ops.number, ops.start, ops.rank))
    found = np.full(len(ops), NONE)
    bounds = np.flatnonzero(np.concatenate([[True], np.diff(ops.rank[by_start]) != 0, [True]]))
    for low, high in itertools.pairwise(bounds):
        mine = by_start[low:high]
        end, start = ops.end[mine], ops.start[mine]
        new = np.concatenate([[True], end[1:] > np.maximum.accumulate(end)[:-1]])
        longest = np.maximum.accumulate(np.where(new, np.arange(len(mine)), 0))
        earlier = np.searchsorted(start, start)  # how many began strictly before
        found[mine] = np.where(earlier > 0, mine[longest[np.maximum(earlier - 1, 0)]], NONE)
    return found


def _binding(ops: Ops, begin: np.ndarray, source: np.ndarray, target: np.ndarray, at_start: np.ndarray) -> np.ndarray:
    binding = np.full(len(ops), NONE, dtype=np.int32)
    latest = np.full(len(ops), np.iinfo(np.int64).min)
    blocks = [slice(low, low + _BLOCK) for low in range(0, len(source), _BLOCK)]
    for block in blocks:
        np.maximum.at(latest, target[block], _ready_by(ops, begin, source[block], target[block], at_start[block]))
    for block in reversed(blocks):  # edges of streams come first in the list: they are written last
        when = _ready_by(ops, begin, source[block], target[block], at_start[block])
        best = np.flatnonzero(when == latest[target[block]])[::-1] + block.start
        binding[target[best]] = best
    return binding


def _ready_by(ops: Ops, begin: np.ndarray, source: np.ndarray, target: np.ndarray, at_start: np.ndarray) -> np.ndarray:
    return np.where(at_start, begin[source], np.minimum(ops.end[source], ops.ready[target]))
