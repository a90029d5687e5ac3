"""Where each rank's time goes: compute, exposed communication, idle. The three add up to the step, to the picosecond."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.analysis.intervals import Intervals, difference, length, union
from clustersim.program.kinds import COMMUNICATION, COMPUTE
from clustersim.trace.trace import Trace


def rank_times(trace: Trace, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """A row per rank, all in ps: compute, communication, hidden and exposed communication, idle, wait, inside the window.

    The window is the whole trace when none is given.

    ``communication_ps`` is the time with any transfer of the rank under way; ``exposed_ps`` the part without compute;
    ``idle_ps`` the rest of the step; ``wait_ps`` the part of idle in which the rank was ready to communicate and a peer was not.
    """
    ops = trace.ops
    begin, finish = window or (0, trace.makespan_ps)
    times = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy(), ops["start_ps"].to_numpy() - ops["wait_ps"].to_numpy()
    start, end, ready = (np.clip(one, begin, finish) for one in times)
    computes, communicates = ops["kind"].isin(COMPUTE).to_numpy(), ops["kind"].isin(list(COMMUNICATION)).to_numpy()
    rows = []
    for rank, index in ops.groupby("rank", sort=True).indices.items():
        compute = union(start[index[computes[index]]], end[index[computes[index]]])
        talking = index[communicates[index]]
        communication = union(start[talking], end[talking])
        busy = union(np.concatenate([compute.start, communication.start]), np.concatenate([compute.end, communication.end]))
        wait = difference(union(ready[talking], start[talking]), busy)
        rows.append((rank, *_lengths(compute, communication, busy, finish - begin), length(wait)))
    columns = ["rank", "compute_ps", "communication_ps", "hidden_ps", "exposed_ps", "idle_ps", "wait_ps"]
    return pd.DataFrame(rows, columns=columns, dtype=np.int64)


def _lengths(compute: Intervals, communication: Intervals, busy: Intervals, window_ps: int) -> tuple[int, ...]:
    exposed = length(busy) - length(compute)
    total = length(communication)
    return length(compute), total, total - exposed, exposed, window_ps - length(busy)
