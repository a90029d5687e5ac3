"""The window in which figures are taken: the whole of a single step, of several what follows the first."""

from __future__ import annotations

import pandas as pd

from clustersim.program.kinds import COMPUTE


def steady_window(ops: pd.DataFrame, steps: int, passes: int) -> tuple[int, int]:
    """Begin and end in ps: of several steps, from the end of the first to the end of the last, optimizer included.

    A step ends with the last compute of any rank for it; ``passes`` are the micro-batches (or slices) of a step.

    >>> ops = pd.DataFrame({"kind": ["forward", "optimizer", "forward"], "micro_batch": [0, 1, 2], "end_ps": [5, 7, 12]})
    >>> steady_window(ops, 2, 2), steady_window(ops, 1, 4)
    ((7, 12), (0, 12))
    """
    if steps == 1:
        return 0, int(ops["end_ps"].max()) if len(ops) else 0
    computes = ops[ops["kind"].isin(COMPUTE)]
    ends = computes["end_ps"].groupby(computes["micro_batch"] // passes).max()
    return int(ends[0]), int(ends[steps - 1])
