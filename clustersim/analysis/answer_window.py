"""The window of one step of several."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustersim.errors import InputError
from clustersim.program.kinds import COMPUTE


def step_window(ops: pd.DataFrame, step: int, steps: int) -> tuple[int, int]:
    """Begin and end of a step, counted from 0, in ps: from the end of the one before it to its own, with the last compute of any rank for

    its micro-batches; the last ends with the trace. InputError when there is no such step.

    >>> ops = pd.DataFrame({"kind": ["forward", "optimizer", "forward"], "micro_batch": [0, 0, 1], "end_ps": [5, 7, 12]})
    >>> step_window(ops, 0, 2), step_window(ops, 1, 2)
    ((0, 5), (5, 12))
    """
    if not 0 <= step < steps:
        raise InputError(f"--step: there is no step {step}; allowed: 0 to {steps - 1}")
    whole = 0, int(ops["end_ps"].max())
    if steps == 1:
        return whole
    computes = ops[ops["kind"].isin(COMPUTE) & (ops["kind"] != "optimizer")]
    number = computes["micro_batch"].to_numpy(dtype=np.int64)
    passes = -(-(int(number.max()) + 1) // steps)
    ends = computes["end_ps"].groupby(number // passes).max()
    return int(ends[step - 1]) if step else 0, whole[1] if step == steps - 1 else int(ends[step])
