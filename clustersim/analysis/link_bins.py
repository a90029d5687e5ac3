"""Utilization of links over time, in bins; many links merged into few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class LinkRow:
    """A row of a heat map: links of one kind, by name; more than one share a row, which shows the busiest of them in each bin.

    ``copies``: how many links of the job they are, where links stand for others.
    """

    kind: str
    links: tuple[str, ...]
    copies: int


def link_bins(links: pd.DataFrame, capacity: pd.Series, names: list[str], window: tuple[int, int], bins: int) -> np.ndarray:
    """Utilization, 0..1, of each link in each of the bins that divide the window evenly.

    The bytes moved in the bin, of those that the link could have moved; ``capacity``: bytes/s by link. Names x bins.

    >>> links = pd.DataFrame({"link": ["a"], "start_ps": [0], "end_ps": [10], "rate_bytes_s": [5.0]})
    >>> link_bins(links, pd.Series({"a": 10}), ["a"], (0, 20), 2).tolist()
    [[0.5, 0.0]]
    """
    edges = np.linspace(*window, bins + 1)
    given = pd.Categorical(links["link"])
    label = {str(name): code for code, name in enumerate(given.categories)}
    begin, finish, rate = (links[name].to_numpy(dtype=float) for name in ("start_ps", "end_ps", "rate_bytes_s"))
    order = np.lexsort((begin, given.codes))
    bounds = np.searchsorted(given.codes[order], np.arange(len(label) + 1))
    found = np.zeros((len(names), bins))
    for place, name in enumerate(names):
        rows = order[bounds[label[name]] : bounds[label[name] + 1]]
        start, end = begin[rows], finish[rows]
        moved = np.append(0.0, np.cumsum((end - start) * rate[rows]))
        known = np.column_stack([start, end]).ravel(), np.column_stack([moved[:-1], moved[1:]]).ravel()
        found[place] = np.diff(np.interp(edges, *known)) / (edges[1] - edges[0]) / float(capacity[name])
    return np.clip(found, 0.0, 1.0)


def link_rows(totals: pd.DataFrame, most: int) -> list[LinkRow]:
    """At most so many rows (at least one a kind) for the links of ``totals``, kinds together, in the natural order of their names.

    Kinds with few links have a row for each; the others divide the room evenly and merge neighbours.

    >>> totals = pd.DataFrame({"link": ["b", "a2", "a10", "a1"], "kind": ["x", "y", "y", "y"], "links": 2})
    >>> [(row.kind, row.links, row.copies) for row in link_rows(totals, 3)]
    [('x', ('b',), 2), ('y', ('a1', 'a2'), 4), ('y', ('a10',), 2)]
    """
    by_kind = {str(kind): _in_order(of) for kind, of in totals.groupby(totals["kind"].astype(str))}
    room: dict[str, int] = {}
    rows = []
    for left, kind in zip(range(len(by_kind), 0, -1), sorted(by_kind, key=lambda kind: len(by_kind[kind])), strict=True):
        room[kind] = max(1, min(len(by_kind[kind]), (most - sum(room.values())) // left))
    for kind, of in by_kind.items():
        each = -(-len(of) // room[kind])
        for first in range(0, len(of), each):
            part = of.iloc[first : first + each]
            rows.append(LinkRow(kind, tuple(part["link"]), int(part["links"].sum())))
    return rows


def busiest(found: np.ndarray, names: list[str], rows: list[LinkRow]) -> np.ndarray:
    """Rows x bins: of ``found``, links x bins, the most of the links of each row.

    >>> rows = [LinkRow("x", ("a", "b"), 2)]
    >>> busiest(np.array([[0.1, 0.5], [0.3, 0.2]]), ["a", "b"], rows).tolist()
    [[0.3, 0.5]]
    """
    place = {name: at for at, name in enumerate(names)}
    return np.array([found[[place[name] for name in row.links]].max(axis=0) for row in rows])


def _in_order(of: pd.DataFrame) -> pd.DataFrame:
    """By name, numbers in it by their value."""
    names = of["link"].astype(str)
    padded = names.str.replace(r"\d+", lambda match: match[0].zfill(12), regex=True)
    return of.assign(link=names).loc[padded.sort_values(kind="stable").index]
