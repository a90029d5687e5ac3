"""What the ranks do over time: in each bin of a window the share of them that compute, communicate exposed, or idle, by cause.

>>> from clustersim.trace.trace import Trace
>>> table = pd.DataFrame({"rank": [0, 1], "stream": "compute", "kind": "forward", "start_ps": [0, 5], "end_ps": [10, 10]})
>>> edges, shares = activity(Trace(table, pd.DataFrame({"op": [], "on": []}, dtype=int), table[:0], table[:0]), bins=2, facts=TraceFacts())
>>> edges.tolist(), shares.to_dict("list")
([0, 5, 10], {'compute': [0.5, 1.0], 'idle:warm_up': [0.5, 0.0]})
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from clustersim.analysis.facts import TraceFacts
from clustersim.analysis.idle import CAUSES, idle_causes
from clustersim.analysis.overlap import Sweep, sweeps
from clustersim.analysis.path_graph import build_graph
from clustersim.analysis.streams import FAMILIES, Line, read_ops, whole_window
from clustersim.analysis.waits import find_activities
from clustersim.errors import InputError
from clustersim.trace.trace import Trace

COMPUTE, EXPOSED, IDLE = "compute", "exposed:", "idle:"


def activity(
    trace: Trace, window: tuple[int, int] | None = None, *, bins: int, facts: TraceFacts
) -> tuple[np.ndarray, pd.DataFrame]:
    """The edges of the bins in ps, and a row per bin; a column for all that occurs: ``compute``, ``exposed:FAMILY``, ``idle:CAUSE``.

    The bins divide the window (the whole trace where None) as evenly as whole ps can. Values are shares of rank-time, 0..1, each rank
    counted for as many as ``facts`` say that it stands for; every row adds up to 1. Time in which several families are exposed counts for
    the first in the order of FAMILIES, as in :func:`~clustersim.analysis.overlap.family_split`.
    InputError where the window holds no time of the trace.
    """
    ops = read_ops(trace, facts.member)
    whole = whole_window(ops)
    window = whole if window is None else (max(window[0], whole[0]), min(window[1], whole[1]))
    if window[0] >= window[1]:
        raise InputError("the window holds no time of the trace")
    edges = np.unique(np.linspace(*window, bins + 1).round().astype(np.int64))
    joined = find_activities(ops)
    graph = build_graph(ops, joined, trace.dependencies)
    found: dict[str, np.ndarray] = {}
    ranks = 0
    for cut in sweeps(ops, window):
        fine = cut_at(cut, edges)
        weight = facts.weights(cut.line.ranks)
        ranks += int(weight.sum())
        bin_, weight = _bins(fine.start, fine.line, edges), weight[fine.line.rank_of(fine.start)]
        for name, at, time in _parts(fine, idle_causes(ops, joined, graph, fine, facts).pieces):
            total = np.bincount(bin_[at], weights=time * weight[at], minlength=len(edges) - 1)
            found[name] = found.get(name, 0) + total
    shares = {name: time / (ranks * np.diff(edges)) for name, time in found.items()}
    order = [COMPUTE, *(EXPOSED + name for name in FAMILIES), *(IDLE + name for name in CAUSES)]
    return edges, pd.DataFrame({name: shares[name] for name in order if name in shares})


def cut_at(cut: Sweep, times: np.ndarray) -> Sweep:
    """The same sweep, its pieces cut at these times of the window (ascending, in ps) on every rank."""
    line = cut.line
    places = (np.arange(len(line.ranks))[:, None] * line.span + (times - line.begin)[None, :]).ravel()
    piece = np.searchsorted(cut.start, places, side="right") - 1
    inside = (piece >= 0) & (places > cut.start[piece]) & (places < cut.end[piece])
    start = np.insert(cut.start, piece[inside] + 1, places[inside])
    end = np.insert(cut.end, piece[inside], places[inside])
    return Sweep(line, start, end, np.insert(cut.bits, piece[inside], cut.bits[piece[inside]]))


def _bins(start: np.ndarray, line: Line, edges: np.ndarray) -> np.ndarray:
    return np.searchsorted(edges, start % line.span + line.begin, side="right") - 1


def _parts(fine: Sweep, idle: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Name, pieces, and their time in ps of all that occurs; every piece is given away whole."""
    length = fine.end - fine.start
    parts, bare = [(COMPUTE, np.flatnonzero(fine.computes))], ~fine.computes
    for family, name in enumerate(FAMILIES):
        mine = np.flatnonzero(bare & fine.of(family))
        bare[mine] = False
        parts.append((EXPOSED + name, mine))
    found = [(name, at, length[at]) for name, at in parts]
    idles = np.flatnonzero(fine.idle)
    found += [(IDLE + cause, idles, time) for cause, time in idle.items()]
    return [part for part in found if part[2].any()]
