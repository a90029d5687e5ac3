"""The window in which figures are taken: the whole of a single step, of several those that have one before and one behind them."""

from __future__ import annotations

import pandas as pd

from clustersim.program.kinds import COMPUTE


def steady_window(ops: pd.DataFrame, steps: int, passes: int) -> tuple[int, int, int]:
    """Begin and end in ps, and the steps inside: of several from the end of the first to the end of the last but one, of two the second.

    A step ends here with the last compute of any rank for its micro-batches, before the optimizer, which may run a step late;
    ``passes`` are the micro-batches (or slices) of a step.

    >>> ops = pd.DataFrame({"kind": ["forward", "optimizer", "forward"], "micro_batch": [0, 1, 2], "end_ps": [5, 7, 12]})
    >>> steady_window(ops, 2, 2), steady_window(ops, 1, 4)
    ((5, 12, 1), (0, 12, 1))
    """
    if steps == 1:
        return 0, int(ops["end_ps"].max()) if len(ops) else 0, 1
    computes = ops[ops["kind"].isin(COMPUTE) & (ops["kind"] != "optimizer")]
    ends = computes["end_ps"].groupby(computes["micro_batch"] // passes).max()
    inside = max(1, steps - 2)
    return int(ends[0]), int(ends[inside]), inside
