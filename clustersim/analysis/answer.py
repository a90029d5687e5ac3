"""The whole analysis of a trace: one value that tables, JSON and comparisons are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.answer_links import link_use, utilization_during
from clustersim.analysis.idle import idle_causes
from clustersim.analysis.intervals import union
from clustersim.analysis.overlap import Sweep, family_split, rank_split, sweeps
from clustersim.analysis.path import build_graph, critical_path, slack
from clustersim.analysis.streams import FAMILIES, Ops, read_ops, stream_times, whole_window
from clustersim.analysis.waits import collective_waits, find_activities, stragglers
from clustersim.errors import InputError
from clustersim.trace.trace import Trace


@dataclass(frozen=True)
class Analysis:
    """Times in ps, in ``window``; ``profiled``: a measured trace, ``kinds`` those that it has.

    ``ranks``: a row per rank: rank, compute_ps, communication_ps, hidden_ps, exposed_ps, idle_ps, contended_ps, waited_for_ps;
    ``families``: a row per rank and kind of communication; ``causes``: a row per rank, its idle by cause; ``streams``, ``waits``,
    ``stragglers`` as in their modules. ``path`` is that of the whole trace; ``slack`` by op, None in a measured trace, which does not
    say what an op waited for; ``numbers`` names the ops. ``links``: by link, None without capacities; ``limiting_links``: by family,
    the kind of link that is busiest while it is exposed, and how busy.
    """

    window: tuple[int, int]
    profiled: bool
    kinds: tuple[str, ...]
    ranks: pd.DataFrame
    families: pd.DataFrame
    causes: pd.DataFrame
    streams: pd.DataFrame
    waits: pd.DataFrame
    stragglers: pd.DataFrame
    path: pd.DataFrame
    numbers: np.ndarray
    slack: np.ndarray | None
    links: pd.DataFrame | None
    limiting_links: dict[str, tuple[str, float]]

    @property
    def window_ps(self) -> int:
        return self.window[1] - self.window[0]

    def mean(self, column: str) -> float:
        """A column of ``ranks``, mean over ranks, in ps."""
        return float(self.ranks[column].mean())

    def exposed(self) -> dict[str, float]:
        """Exposed communication by family, mean over ranks, in ps; it adds up to that of the ranks."""
        by_family = self.families.groupby("family", sort=False)["exposed_ps"]
        return {str(name): sum(map(int, times)) / len(self.ranks) for name, times in by_family}

    def idle(self) -> dict[str, float]:
        """Idle by cause, mean over ranks, in ps."""
        return {name: float(column.mean()) for name, column in self.causes.drop(columns="rank").items()}


def analyze(trace: Trace, window: tuple[int, int] | None = None, totals: pd.DataFrame | None = None) -> Analysis:
    """Analyse a trace in a window in ps, all of it when none is given. ``totals``: of links (:func:`link_totals`), for their capacities.

    InputError where the tables contradict themselves, or the window holds nothing.
    """
    ops = read_ops(trace)
    whole = whole_window(ops)
    window = whole if window is None else (max(window[0], whole[0]), min(window[1], whole[1]))
    if window[0] > window[1] or (window[0] == window[1] and whole[0] < whole[1]):
        raise InputError("the window holds no time of the trace")
    joined = find_activities(ops)
    graph = build_graph(ops, joined, trace.dependencies)
    cuts = sweeps(ops, window)
    idle = [idle_causes(ops, joined, graph, cut) for cut in cuts]
    ranks = pd.concat([rank_split(cut) for cut in cuts], ignore_index=True)
    ranks["contended_ps"] = np.concatenate([one.contended_ps for one in idle])
    ranks["waited_for_ps"] = np.concatenate([one.waited_for_ps for one in idle])
    families = pd.concat([family_split(cut) for cut in cuts], ignore_index=True)
    used = totals is not None and len(trace.links) > 0
    return Analysis(
        window=window,
        profiled=ops.profiled,
        kinds=tuple(sorted({str(name) for name in ops.kind.categories[np.unique(ops.kind.codes)]})),
        ranks=ranks,
        families=families,
        causes=pd.concat([one.causes for one in idle], ignore_index=True),
        streams=stream_times(ops, window),
        waits=collective_waits(ops, joined),
        stragglers=stragglers(ops, joined),
        path=critical_path(ops, joined, graph, whole[0]),
        numbers=ops.number,
        slack=None if ops.profiled else slack(ops, joined, graph),
        links=link_use(trace.links, totals, window) if used else None,
        limiting_links=_limiting_links(trace, totals, ops, families, cuts) if used else {},
    )


_GOOD_PART = 0.1


def _limiting_links(
    trace: Trace, totals: pd.DataFrame, ops: Ops, families: pd.DataFrame, cuts: list[Sweep]
) -> dict[str, tuple[str, float]]:
    """By family the links that are busiest while it is exposed, of the kinds that can carry what a rank sends for it.

    The trace does not say which links an op uses: a kind on which no link carries a good part of that does not.
    """
    found = {}
    ranks = len(np.unique(ops.rank))
    for name in families["family"].unique():
        pieces = [_exposed_times(cut, FAMILIES.index(name)) for cut in cuts]
        times = union(np.concatenate([start for start, _ in pieces]), np.concatenate([end for _, end in pieces]))
        sent = ops.size[ops.family == FAMILIES.index(name)].sum() / ranks
        busiest = utilization_during(trace.links, totals, times, _GOOD_PART * sent)
        if busiest is not None:
            found[str(name)] = busiest
    return found


def _exposed_times(cut: Sweep, family: int) -> tuple[np.ndarray, np.ndarray]:
    """When any rank is exposed in the family, off the line."""
    chosen = cut.of(family) & ~cut.computes
    start, end = cut.start[chosen], cut.end[chosen]
    shift = cut.line.rank_of(start) * cut.line.span - cut.line.begin
    return start - shift, end - shift
