"""How much of their capacity the links of a simulated trace use."""

from __future__ import annotations

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
    start, end = np.clip(links["start_ps"], *window), np.clip(links["end_ps"], *window)
    seconds = ((end - start) / PS_PER_S).to_numpy()
    table = pd.DataFrame({"busy_s": seconds, "bytes": seconds * links["rate_bytes_s"], "rate": links["rate_bytes_s"].where(seconds > 0, 0)})
    by_link = table.groupby(links["link"].astype(str).to_numpy())
    known = totals.assign(link=totals["link"].astype(str)).set_index("link")
    moved = by_link[["busy_s", "bytes"]].sum()
    capacity = known["capacity_bytes_s"].reindex(moved.index).astype(float)
    span = (window[1] - window[0]) / PS_PER_S
    table = pd.DataFrame(
        {
            "link": moved.index,
            "kind": known["kind"].astype(str).reindex(moved.index).to_numpy(),
            "links": known["links"].reindex(moved.index).to_numpy(),
            "mean_utilization": (moved["bytes"] / capacity / span if span else 0 * capacity).to_numpy(),
            "peak_utilization": (by_link["rate"].max() / capacity).to_numpy(),
            "busy_s": moved["busy_s"].to_numpy(),
        }
    )
    return table[~capacity.isna().to_numpy()].reset_index(drop=True)


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
    known = known[known.index.isin(links["link"].astype(str).unique())]
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
            "mean_utilization": float(np.average(of["mean_utilization"], weights=of["links"])),
            "busiest_utilization": float(of["mean_utilization"].max()),
            "peak_utilization": float(of["peak_utilization"].max()),
        }
        for kind, of in use.groupby("kind", sort=True)
    }


def utilization_during(
    links: pd.DataFrame, totals: pd.DataFrame, times: Intervals, least_bytes: float = 0.0
) -> tuple[str, float] | None:
    """The kind of the link that is busiest in these times, and its utilization then; None when none is used or there is no time.

    Of the kinds of which some link carries at least so many bytes in all.
    """
    total = length(times)
    if not total:
        return None
    start, end = links["start_ps"].to_numpy(), links["end_ps"].to_numpy()
    seconds = (covered(times, end) - covered(times, start)) / PS_PER_S
    names, rate = links["link"].astype(str).to_numpy(), links["rate_bytes_s"].to_numpy()
    moved = pd.Series(seconds * rate).groupby(names).sum()
    known = totals.assign(link=totals["link"].astype(str)).set_index("link")
    whole = pd.Series((end - start) / PS_PER_S * rate).groupby(names).sum()
    most = whole.groupby(known["kind"].astype(str).reindex(whole.index)).max()
    moved = moved[known["kind"].astype(str).reindex(moved.index).isin(most.index[most >= least_bytes]).to_numpy()]
    use = (moved / known["capacity_bytes_s"].reindex(moved.index).astype(float) / (total / PS_PER_S)).dropna()
    if not len(use) or not use.max():
        return None
    return str(known["kind"][use.idxmax()]), float(use.max())
