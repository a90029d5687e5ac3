"""The whole analysis of a trace: one value that tables, JSON and comparisons are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from clustersim.analysis.answer_links import Loads, kinds_used, link_use, read_loads, use_over_time, utilization_during
from clustersim.analysis.bandwidth import bandwidths
from clustersim.analysis.facts import WHOLE, TraceFacts
from clustersim.analysis.idle import idle_causes
from clustersim.analysis.intervals import Intervals, difference, union
from clustersim.analysis.lateness import charged_ps, joined_waits, waits_in_kernels
from clustersim.analysis.memory import peak_times
from clustersim.analysis.overlap import Sweep, family_split, rank_split, rank_waits, sweeps
from clustersim.analysis.pace import compute_over_peers
from clustersim.analysis.path import build_graph, clipped_path, critical_path, slack
from clustersim.analysis.streams import FAMILIES, OTHER, Ops, oddities, read_ops, stream_times, whole_window
from clustersim.analysis.waits import collective_waits, find_activities, stragglers
from clustersim.errors import InputError
from clustersim.trace.trace import Trace


@dataclass(frozen=True)
class Analysis:
    """Times in ps, in ``window``, of which ``facts`` say more; ``profiled``: a measured trace, ``kinds`` those that it has.

    ``ranks``: a row per rank: rank, compute_ps, communication_ps, hidden_ps, exposed_ps, idle_ps, contended_ps,
    waited_for_ps (waits that it is the root cause of), compute_over_median (NaN where its compute is not comparable),
    wait_ps (:func:`rank_waits`) and whether it is known, wait_known, and stands_for, ranks of the job;
    ``families``: a row per rank and kind of communication; ``causes``: a row per rank, its idle by cause; ``streams``, ``waits``,
    ``stragglers``, ``bandwidths`` as in their modules, of collectives that end in the window. ``path`` is the part of the trace's path
    in the window; ``slack`` by op, up to the end of the trace, None in a measured trace, which does not say what an op waited for;
    ``numbers`` names the ops, ``within`` are those with time in the window. ``memory``: by rank its peak and when, of the whole trace.
    ``links``: by link, and ``links_over_time`` (:func:`use_over_time`), None without capacities; ``limiting_links``: of the
    family that is exposed most, the kind of link that is busiest then, and how busy. ``notes``: what is strange about the trace.

    Sums of waits and transfers are over the ranks of the job, in all of the window; means are over both, and over its steps.
    """

    window: tuple[int, int]
    facts: TraceFacts
    profiled: bool
    kinds: tuple[str, ...]
    ranks: pd.DataFrame
    families: pd.DataFrame
    causes: pd.DataFrame
    streams: pd.DataFrame
    waits: pd.DataFrame
    stragglers: pd.DataFrame
    bandwidths: pd.DataFrame
    path: pd.DataFrame
    numbers: np.ndarray
    within: np.ndarray
    slack: np.ndarray | None
    memory: dict[int, tuple[int, int]]
    links: pd.DataFrame | None
    links_over_time: pd.DataFrame | None
    limiting_links: dict[str, tuple[str, float]]
    notes: tuple[str, ...]

    @property
    def window_ps(self) -> int:
        return self.window[1] - self.window[0]

    @property
    def step_ps(self) -> float:
        """The window, or its mean step where it has several."""
        return self.window_ps / self.facts.steps

    def mean(self, column: str) -> float:
        """A column of ``ranks`` in ps, mean over ranks and steps."""
        return self._mean(self.ranks["rank"], self.ranks[column])

    def exposed(self) -> dict[str, float]:
        """Exposed communication in ps by family, mean over ranks and steps; it adds up to that of the ranks."""
        by_family = self.families.groupby("family", sort=False)
        return {str(name): self._mean(of["rank"], of["exposed_ps"]) for name, of in by_family}

    def idle(self) -> dict[str, float]:
        """Idle in ps by cause, mean over ranks and steps."""
        return {name: self._mean(self.causes["rank"], column) for name, column in self.causes.drop(columns="rank").items()}

    def _mean(self, rank: pd.Series, times: pd.Series) -> float:
        """Exact sums: those of many ranks may need more than 64 bits."""
        weights = self.facts.weights(rank.to_numpy()).tolist()
        total = sum(weight * time for weight, time in zip(weights, times.tolist(), strict=True))
        return total / int(self.ranks["stands_for"].sum()) / self.facts.steps


def analyze(
    trace: Trace, window: tuple[int, int] | None = None, totals: pd.DataFrame | None = None, facts: TraceFacts = WHOLE
) -> Analysis:
    """Analyse a trace in a window in ps, all of it when none is given. ``totals``: of links (:func:`link_totals`), for their capacities.

    InputError where the tables contradict themselves, or the window holds nothing.
    """
    ops = read_ops(trace, facts.member)
    whole = whole_window(ops)
    window = whole if window is None else (max(window[0], whole[0]), min(window[1], whole[1]))
    if window[0] > window[1] or (window[0] == window[1] and whole[0] < whole[1]):
        raise InputError("the window holds no time of the trace")
    joined = find_activities(ops)
    graph = build_graph(ops, joined, trace.dependencies)
    stands_for = facts.weights(ops.rank)
    cuts = sweeps(ops, window)
    idle = [idle_causes(ops, joined, graph, cut, facts) for cut in cuts]
    ranks = pd.concat([rank_split(cut) for cut in cuts], ignore_index=True)
    ranks["contended_ps"] = np.concatenate([one.contended_ps for one in idle])
    waited = [waits_in_kernels(ops, joined, cut) for cut in cuts] if ops.profiled else [one.waits for one in idle]
    ranks["waited_for_ps"] = charged_ps(ops, joined, graph, joined_waits(waited), stands_for)
    ranks["compute_over_median"] = compute_over_peers(ops, trace.ops)
    ranks["wait_ps"] = np.concatenate([rank_waits(ops, cut) for cut in cuts])
    ranks["wait_known"] = ~np.isin(ranks["rank"], ops.rank[ops.communicates & ~_known(ops, facts)])
    ranks["stands_for"] = facts.weights(ranks["rank"].to_numpy())
    families = pd.concat([family_split(cut) for cut in cuts], ignore_index=True)
    ended = _ended(ops, window, whole)
    used = totals is not None and len(trace.links) > 0
    return Analysis(
        window=window,
        facts=facts,
        profiled=ops.profiled,
        kinds=tuple(sorted({str(name) for name in ops.kind.categories[np.unique(ops.kind.codes)]})),
        ranks=ranks,
        families=families,
        causes=pd.concat([one.causes for one in idle], ignore_index=True),
        streams=stream_times(ops, window),
        waits=collective_waits(ended, joined, stands_for),
        stragglers=stragglers(ended, joined, stands_for),
        bandwidths=bandwidths(trace.ops, ended, _known(ops, facts), stands_for),
        path=clipped_path(critical_path(ops, joined, graph, whole[0]), window),
        numbers=ops.number,
        within=ops.within(window),
        slack=None if ops.profiled else slack(ops, joined, graph),
        memory=peak_times(trace.memory),
        links=link_use(trace.links, totals, window) if used else None,
        links_over_time=use_over_time(trace.links, totals, window) if used else None,
        limiting_links=_limiting_links(read_loads(trace.links, totals), families, facts, cuts) if used else {},
        notes=oddities(ops),
    )


def _known(ops: Ops, facts: TraceFacts) -> np.ndarray:
    """By op, whether its wait is known."""
    return np.ones(len(ops), dtype=bool) if facts.wait_known is None else facts.wait_known


def _ended(ops: Ops, window: tuple[int, int], whole: tuple[int, int]) -> Ops:
    """The ops; those that end elsewhere than in the window do not communicate. Of windows that follow one another each op is in one."""
    inside = (ops.end > window[0] if window[0] > whole[0] else True) & (ops.end <= window[1])
    return ops if inside.all() else replace(ops, family=np.where(ops.communicates & ~inside, OTHER, ops.family))


def _limiting_links(loads: Loads, families: pd.DataFrame, facts: TraceFacts, cuts: list[Sweep]) -> dict[str, tuple[str, float]]:
    """For the family that is exposed most, the links that are busiest then, of the kinds that it uses.

    The trace does not say which links an op uses: those that carry something while no rank communicates in another family. A family that
    is never alone has none named.
    """
    exposed = (families["exposed_ps"].astype(float) * facts.weights(families["rank"].to_numpy())).groupby(families["family"]).sum()
    if not exposed.any():
        return {}
    most = str(exposed.idxmax())
    others = [_times(cuts, str(name), exposed=False) for name in exposed.index if name != most]
    own = _times(cuts, most, exposed=False)
    kinds = kinds_used(loads, difference(own, _all_of(others)) if others else own)
    busiest = utilization_during(loads, _times(cuts, most, exposed=True), kinds)
    return {} if busiest is None else {most: busiest}


def _times(cuts: list[Sweep], name: str, exposed: bool) -> Intervals:
    """When any rank communicates in the family, off the line; ``exposed``: without compute."""
    pieces = []
    for cut in cuts:
        chosen = cut.of(FAMILIES.index(name)) & (~cut.computes if exposed else True)
        start, end = cut.start[chosen], cut.end[chosen]
        shift = cut.line.rank_of(start) * cut.line.span - cut.line.begin
        pieces.append(Intervals(start - shift, end - shift))
    return _all_of(pieces)


def _all_of(parts: list[Intervals]) -> Intervals:
    return union(np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts]))
