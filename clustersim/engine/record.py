"""What the network did, as columns: the rates of bundles over time, and when each flow was under way."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from clustersim.units import PS_PER_S


class Segments(NamedTuple):
    """Columns: a ``phase`` at one pace, so much of it a second, for a time."""

    phase: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    pace_per_s: np.ndarray


class Record:
    """Changes of the rates of bundles, in the order of time, and the flows that are across."""

    def __init__(self) -> None:
        self._bundle, self._time_ps, self._rate = array("q"), array("q"), array("d")
        self._phase, self._of, self._since_ps, self._until_ps = array("q"), array("q"), array("q"), array("q")

    def rate(self, bundle: int, time_ps: int, rate: int) -> None:
        self._bundle.append(bundle)
        self._time_ps.append(time_ps)
        self._rate.append(rate)

    def flow(self, phase: int, bundle: int, since_ps: int, until_ps: int) -> None:
        self._phase.append(phase)
        self._of.append(bundle)
        self._since_ps.append(since_ps)
        self._until_ps.append(until_ps)

    def segments(self, works: list[int]) -> Segments:
        """Each flow cut where the rate of its bundle changed; ``works`` by phase in units of rate x ps.

        >>> record = Record()
        >>> record.rate(0, 0, 4); record.rate(0, 5, 2); record.flow(0, 0, 0, 10)
        >>> segments = record.segments([30])
        >>> segments.start_ps, segments.end_ps
        (array([0, 5]), array([ 5, 10]))
        """
        bundle, time, rate = np.array(self._bundle, dtype=np.int64), np.array(self._time_ps, dtype=np.int64), np.array(self._rate)
        order = np.argsort(bundle, kind="stable")
        bundle, time, rate = bundle[order], time[order], rate[order]
        phase, of, since, until = (np.array(column, dtype=np.int64) for column in (self._phase, self._of, self._since_ps, self._until_ps))
        # Changes by bundle and time as one number, to look up what was in force.
        times = np.unique(time)
        key = bundle * (len(times) + 1) + np.searchsorted(times, time)
        first = np.searchsorted(key, of * (len(times) + 1) + np.searchsorted(times, since, side="right") - 1, side="right") - 1
        last = np.searchsorted(key, of * (len(times) + 1) + np.searchsorted(times, until, side="left"), side="left")
        pieces = np.maximum(last - first, 0)
        flow = np.repeat(np.arange(len(of)), pieces)
        at = np.arange(len(flow)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + first[flow]
        start = np.maximum(time[at], since[flow])
        following = np.minimum(at + 1, max(0, len(time) - 1))
        end = np.where((at + 1 < last[flow]), np.minimum(time[following], until[flow]), until[flow])
        full = end > start
        work = np.array(works, dtype=np.float64)
        return Segments(phase[flow][full], start[full], end[full], (rate[at] * PS_PER_S / work[phase[flow]])[full])
