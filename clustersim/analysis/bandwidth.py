"""How many bytes the collectives and messages of a trace moved, and how fast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.analysis.streams import Ops
from clustersim.importers.kineto_collectives import collectives
from clustersim.units import PS_PER_S


def bandwidths(table: pd.DataFrame, ops: Ops, wait_known: np.ndarray, stands_for: np.ndarray) -> pd.DataFrame:
    """A row per group and kind of the ops that communicate: group, collective, count, bytes, time_s, wait_s, algbw_bytes_s, busbw_bytes_s.

    Sums over the ops of all ranks of the job. ``table``: that of the trace; by op ``wait_known``, and for how many ranks its own
    ``stands_for``, which in a measured trace is one. A measured trace as
    :func:`~clustersim.importers.kineto_collectives.collectives` counts; ``wait_s`` is None where one is not known, and then part of the
    time. Of a simulated one ``group`` is None: all groups together; ``bytes`` are those that the ranks send, ``busbw_bytes_s`` is bytes
    over time, which for a ring is what NCCL's tests call so; the trace does not hold the size that algbw is of: None.
    """
    rows = np.flatnonzero(ops.communicates)
    if ops.profiled:
        times = {"start_ps": ops.start[rows], "end_ps": ops.end[rows], "wait_ps": ops.wait[rows], "bytes": ops.size[rows]}
        named = {"kind": ops.kind[rows], "group": table["group"].to_numpy()[rows] if "group" in table else ""}
        return collectives(pd.DataFrame(named | times), wait_known[rows])
    count = stands_for[rows]
    time, wait = count * (ops.end - ops.start)[rows] / PS_PER_S, count * ops.wait[rows] / PS_PER_S
    columns = pd.DataFrame({"count": count, "bytes": count * ops.size[rows], "time_s": time, "wait_s": wait})
    kind = pd.Categorical.from_codes(ops.kind.codes[rows], ops.kind.categories.astype(str))
    found = columns.groupby(kind, observed=True).sum().rename_axis("collective").reset_index().astype({"collective": str})
    found.insert(0, "group", None)
    speed = [size / time if size and time else None for size, time in zip(found["bytes"].tolist(), found["time_s"].tolist(), strict=True)]
    return found.assign(algbw_bytes_s=None, busbw_bytes_s=pd.Series(speed, dtype=object))
