"""The window of an analysis of a simulated run: what was asked for, one step of several, or the steady state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.facts import WHOLE, TraceFacts
from clustersim.analysis.steps import steady_window
from clustersim.errors import InputError
from clustersim.program.kinds import COMPUTE
from clustersim.units import PS_PER_S, time_text

Window = tuple[int, int]


def run_window(ops: pd.DataFrame, steps: int, given: Window | None = None, step: int | None = None) -> tuple[Window | None, TraceFacts]:
    """The window in ps (None: all) and what is known of it: the given one, else the step, else the steady state of several steps.

    The steady state is that of :func:`~clustersim.analysis.steps.steady_window`, as in ``summary.json``. InputError when there is no
    such step, or the ops cannot be told apart by steps.

    >>> ops = pd.DataFrame({"kind": "forward", "micro_batch": [0, 1, 2], "end_ps": [5, 12, 20]})
    >>> window, facts = run_window(ops, 3)
    >>> window, facts.window, facts.steps, facts.step_ends_ps
    ((5, 12), 'the steady state, step 1 of 0 to 2', 1, (5, 12))
    """
    if step is not None:
        _check_step(step, steps)
    if steps == 1:
        return given, WHOLE if given is None else given_facts(given)
    try:
        passes, of_op = _steps_of_ops(ops, steps)
    except InputError:
        if given is None:
            raise
        return given, given_facts(given)
    ends = _ends(ops, of_op)
    inside: dict[str, Any] = {"step_of": of_op, "step_ends_ps": ends[:-1]}
    if given is not None:
        return given, replace(given_facts(given), **inside)
    if step is not None:
        return step_window(ops, step, steps), TraceFacts(f"step {step} of 0 to {steps - 1}", **inside)
    begin, end, counted = steady_window(ops, steps, passes)
    which = "step 1" if counted == 1 else f"steps 1 to {counted}"
    return (begin, end), TraceFacts(f"the steady state, {which} of 0 to {steps - 1}", steps=counted, **inside)


def step_window(ops: pd.DataFrame, step: int, steps: int) -> Window:
    """Begin and end of a step, counted from 0, in ps: from the end of the one before it to its own, with the last compute of any rank for
    its micro-batches; the last ends with the trace. InputError when there is no such step.

    >>> ops = pd.DataFrame({"kind": ["forward", "optimizer", "forward"], "micro_batch": [0, 0, 1], "end_ps": [5, 7, 12]})
    >>> step_window(ops, 0, 2), step_window(ops, 1, 2)
    ((0, 5), (5, 12))
    """
    _check_step(step, steps)
    ends = () if steps == 1 else _ends(ops, _steps_of_ops(ops, steps)[1])
    return ends[step - 1] if step else 0, ends[step] if step < steps - 1 else int(ops["end_ps"].max())


def _check_step(step: int, steps: int) -> None:
    if not 0 <= step < steps:
        raise InputError(f"--step: there is no step {step}; allowed: 0 to {steps - 1}")


def _ends(ops: pd.DataFrame, of_op: np.ndarray) -> tuple[int, ...]:
    computes = (ops["kind"].isin(COMPUTE) & (ops["kind"] != "optimizer")).to_numpy()
    return tuple(ops["end_ps"][computes].groupby(of_op[computes]).max().tolist())


def given_facts(window: Window) -> TraceFacts:
    """What is known of a window that was given by its times, in ps.

    >>> given_facts((0, 5 * 10**9)).window
    '0 s to 5 ms'
    """
    return TraceFacts(" to ".join(time_text(time / PS_PER_S) for time in window), given=True)


def _steps_of_ops(ops: pd.DataFrame, steps: int) -> tuple[int, np.ndarray]:
    """Micro-batches (or slices) of a step, and the step of each op; -1 for what is of no micro-batch."""
    numbers = ops["micro_batch"].to_numpy() if "micro_batch" in ops else np.zeros(0, dtype=np.int64)
    if not len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError("the ops have no micro_batch: their steps cannot be told apart; --from 0s takes all of them")
    computes = ops["kind"].isin(COMPUTE).to_numpy()
    passes = -(-(int(numbers.max()) + 1) // steps)
    of_op = numbers // max(passes, 1)
    if set(np.unique(of_op[computes])) != set(range(steps)):
        raise InputError(f"micro_batch: not those of {steps} steps, as the manifest says; --from 0s takes all of the trace")
    return passes, of_op
