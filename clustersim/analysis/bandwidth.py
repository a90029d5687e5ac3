"""How many bytes the collectives and messages of a trace moved, and how fast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.analysis.streams import Ops
from clustersim.importers.kineto_collectives import collectives
from clustersim.units import PS_PER_S


def bandwidths(table: pd.DataFrame, ops: Ops, wait_known: np.ndarray) -> pd.DataFrame:
    """A row per group and kind of the ops that communicate: group, collective, count, bytes, time_s, wait_s, algbw_bytes_s, busbw_bytes_s.

    Sums over the ops of all ranks in the trace. ``table``: that of the trace; ``wait_known``: by op. A measured trace as
    :func:`~clustersim.importers.kineto_collectives.collectives` counts; ``wait_s`` is None where one is not known, and then part of the
    time. Of a simulated one ``group`` is None: all groups together; ``bytes`` are those that the ranks send, ``busbw_bytes_s`` is bytes
    over time, which for a ring is what NCCL's tests call so; the trace does not hold the size that algbw is of: None.
    """
    rows = np.flatnonzero(ops.communicates)
    if ops.profiled:
        return collectives(table.iloc[rows], wait_known[rows])
    time, wait = ((ops.end - ops.start)[rows] / PS_PER_S, ops.wait[rows] / PS_PER_S)
    columns = pd.DataFrame({"count": 1, "bytes": ops.size[rows], "time_s": time, "wait_s": wait})
    kind = pd.Categorical.from_codes(ops.kind.codes[rows], ops.kind.categories.astype(str))
    found = columns.groupby(kind, observed=True).sum().rename_axis("collective").reset_index().astype({"collective": str})
    found.insert(0, "group", None)
    speed = [size / time if size and time else None for size, time in zip(found["bytes"].tolist(), found["time_s"].tolist(), strict=True)]
    return found.assign(algbw_bytes_s=None, busbw_bytes_s=pd.Series(speed, dtype=object))
