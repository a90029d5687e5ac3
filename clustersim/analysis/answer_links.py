"""How much of their capacity the links of a simulated trace use."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import Intervals, length
from clustersim.analysis.link_bins import link_bins
from clustersim.analysis.streams import covered
from clustersim.units import PS_PER_S


def link_use(links: pd.DataFrame, totals: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """A row per link in use: link, kind, links (how many it stands for), mean_utilization over the window, peak_utilization, busy_s.

    >>> links = pd.DataFrame({"link": ["a"], "start_ps": [0], "end_ps": [10**12], "rate_bytes_s": [5.0]})
    >>> totals = pd.DataFrame({"link": ["a"], "kind": ["nvlink"], "links": [2], "capacity_bytes_s": [10]})
    >>> link_use(links, totals, (0, 2 * 10**12)).to_dict("records")
    [{'link': 'a', 'kind': 'nvlink', 'links': 2, 'mean_utilization': 0.25, 'peak_utilization': 0.5, 'busy_s': 1.0}]
    """
    start, end = (np.clip(links[name].to_numpy(), *window) for name in ("start_ps", "end_ps"))
    seconds, rate = (end - start) / PS_PER_S, links["rate_bytes_s"].to_numpy()
    names = pd.Categorical(links["link"])
    by_link = pd.Series(np.where(seconds > 0, rate, 0)).groupby(names.rename_categories(names.categories.astype(str)), observed=True)
    # By link and in the order of time, so that the sums do not depend on the order of rows.
    code, order = names.codes, np.lexsort((links["start_ps"].to_numpy(), names.codes))
    peak = by_link.max()
    present = names.categories.astype(str).get_indexer(peak.index.astype(str))
    sums = [np.bincount(code[order], weights=one[order], minlength=len(names.categories))[present] for one in (end - start, seconds * rate)]
    moved = pd.DataFrame({"busy_s": sums[0] / PS_PER_S, "bytes": sums[1]}, index=peak.index)
    known = totals.assign(link=totals["link"].astype(str)).set_index("link")
    capacity = known["capacity_bytes_s"].reindex(moved.index).astype(float)
    span = (window[1] - window[0]) / PS_PER_S
    table = pd.DataFrame(
        {
            "link": moved.index,
            "kind": known["kind"].astype(str).reindex(moved.index).to_numpy(),
            "links": known["links"].reindex(moved.index).to_numpy(),
            "mean_utilization": (moved["bytes"] / capacity / span if span else 0 * capacity).to_numpy(),
            "peak_utilization": (peak / capacity).to_numpy(),
            "busy_s": moved["busy_s"].to_numpy(),
        }
    )
    return table[~capacity.isna().to_numpy()].sort_values("link", ignore_index=True)


def use_over_time(links: pd.DataFrame, totals: pd.DataFrame, window: tuple[int, int], bins: int = 60) -> pd.DataFrame:
    """A row per kind of link and bin, which divide the window evenly: kind, begin_s, end_s, mean_utilization, busiest_utilization.

    The mean is over the links of the kind that are in use at any time of the trace; the busiest is the one that is so in the bin. A
    window of no length has no bins.

    >>> links = pd.DataFrame({"link": ["a"], "start_ps": [0], "end_ps": [10**12], "rate_bytes_s": [5.0]})
    >>> totals = pd.DataFrame({"link": ["a"], "kind": ["nvlink"], "links": [2], "capacity_bytes_s": [10]})
    >>> use_over_time(links, totals, (0, 2 * 10**12), 2)["mean_utilization"].tolist()
    [0.5, 0.0]
    """
    known = totals.assign(link=totals["link"].astype(str)).set_index("link")
    known = known[known.index.isin(links["link"].unique().astype(str))]
    if not len(known) or window[0] == window[1]:
        return pd.DataFrame(columns=["kind", "begin_s", "end_s", "mean_utilization", "busiest_utilization"])
    share = link_bins(links, known["capacity_bytes_s"], known.index.tolist(), window, bins)
    edges = np.linspace(*window, bins + 1) / PS_PER_S
    parts = []
    for kind in sorted(known["kind"].astype(str).unique()):
        of = (known["kind"].astype(str) == kind).to_numpy()
        mean = np.average(share[of], axis=0, weights=known["links"][of])
        times = {"kind": kind, "begin_s": edges[:-1], "end_s": edges[1:]}
        parts.append(pd.DataFrame({**times, "mean_utilization": mean, "busiest_utilization": share[of].max(axis=0)}))
    return pd.concat(parts, ignore_index=True)


def by_kind(use: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By kind of link: the mean over its links in use, and the highest mean and peak of one."""
    return {
        str(kind): {
            "mean_utilization": math.fsum((of["mean_utilization"] * of["links"]).tolist()) / int(of["links"].sum()),
            "busiest_utilization": float(of["mean_utilization"].max()),
            "peak_utilization": float(of["peak_utilization"].max()),
        }
        for kind, of in use.groupby("kind", sort=True)
    }


@dataclass(frozen=True)
class Loads:
    """What the links of a known capacity carry: by row of the table of links its ``kind`` of link, a position in ``kinds``, start and
    end in ps, rate in bytes/s, and utilization.
    """

    kinds: tuple[str, ...]
    kind: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rate_bytes_s: np.ndarray
    utilization: np.ndarray


def read_loads(links: pd.DataFrame, totals: pd.DataFrame) -> Loads:
    """``totals`` as of :func:`link_use`; links without a capacity are left out."""
    names = pd.Categorical(links["link"])
    known = totals.assign(link=totals["link"].astype(str)).set_index("link").reindex([str(name) for name in names.categories])
    kinds = pd.Categorical(known["kind"].astype(str).where(known["capacity_bytes_s"].notna()))
    code = kinds.codes[names.codes]
    rows = np.flatnonzero(code >= 0)
    rate = links["rate_bytes_s"].to_numpy()[rows]
    capacity = known["capacity_bytes_s"].to_numpy(dtype=float)[names.codes[rows]]
    start, end = (links[name].to_numpy()[rows] for name in ("start_ps", "end_ps"))
    return Loads(tuple(map(str, kinds.categories)), code[rows], start, end, rate, rate / capacity)


def utilization_during(loads: Loads, times: Intervals, kinds: Collection[str]) -> tuple[str, float] | None:
    """Of these ``kinds`` of link the one that is busiest in these times, and its utilization then; None when none is used or there is
    no time. That of a kind is the mean over the times of its link that is busiest at each.

    >>> links = pd.DataFrame({"link": ["a", "b"], "start_ps": [0, 10], "end_ps": [10, 20], "rate_bytes_s": [10.0, 5.0]})
    >>> totals = pd.DataFrame({"link": ["a", "b"], "kind": "network", "links": 1, "capacity_bytes_s": 10})
    >>> utilization_during(read_loads(links, totals), Intervals(np.array([0]), np.array([20])), ["network"])
    ('network', 0.75)
    """
    total = length(times)
    if not total or not kinds:
        return None
    found = {}
    for name in sorted(kinds):
        of = loads.kind == loads.kinds.index(name)
        found[name] = _busiest_time(loads.start[of], loads.end[of], loads.utilization[of], times) / total
    busiest = max(found, key=found.__getitem__)
    return (busiest, found[busiest]) if found[busiest] else None


def kinds_used(loads: Loads, times: Intervals) -> list[str]:
    """The kinds of link that carry a part worth naming of the bytes in these times."""
    seconds = (covered(times, loads.end) - covered(times, loads.start)) / PS_PER_S
    moved = np.bincount(loads.kind, weights=seconds * loads.rate_bytes_s, minlength=len(loads.kinds))
    return [name for name, size in zip(loads.kinds, moved, strict=True) if size > _WORTH_NAMING * moved.max()]


_WORTH_NAMING = 0.01  # of what the kind carries that carries most


def _busiest_time(start: np.ndarray, end: np.ndarray, share: np.ndarray, times: Intervals) -> float:
    """The integral over the times, in ps, of the greatest share at each.

    >>> _busiest_time(np.array([0, 2, 8]), np.array([4, 9, 9]), np.array([0.5, 0.25, 1.0]), Intervals(np.array([1]), np.array([10])))
    3.5
    """
    reach = (end > times.start[0]) & (start < times.end[-1]) & (end > start)
    start, end, share = start[reach], end[reach], share[reach]
    if not len(start):
        return 0.0
    edges, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    first, last = place[: len(start)], place[len(start) :]
    level = np.frexp(last - first)[1] - 1  # two runs of 2^level pieces cover each row; a run hands its share down to its halves
    most = np.zeros(len(edges) - 1)
    for power in range(int(level.max()), -1, -1):
        rows = np.flatnonzero(level == power)
        np.maximum.at(most, first[rows], share[rows])
        np.maximum.at(most, last[rows] - (1 << power), share[rows])
        if power:
            half = 1 << (power - 1)
            most = np.maximum(most, np.concatenate([np.zeros(half), most[:-half]]))
    return float((most * np.diff(covered(times, edges))).sum())
