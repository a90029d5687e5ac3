"""The steps of a profiler trace: what the host launched in a ProfilerStep belongs to it, whenever the GPU ran it."""

from __future__ import annotations

import numpy as np

from clustersim.analysis.facts import TraceFacts
from clustersim.errors import InputError
from clustersim.importers.kineto import Imported
from clustersim.importers.kineto_events import NEVER


def launched(imported: Imported, rank: int, begin_ps: int, end_ps: int) -> np.ndarray:
    """The ops of this rank that were launched in [begin, end), as rows; ops are sorted by rank."""
    low, high = np.searchsorted(imported.trace.ops["rank"].to_numpy(), [rank, rank + 1])
    launch = imported.launches["launch_ps"].to_numpy()[low:high]
    return low + np.flatnonzero((launch >= begin_ps) & (launch < end_ps))


def profiled_step(imported: Imported, number: int) -> tuple[tuple[int, int], TraceFacts, list[str]]:
    """The window of a step, from the first start to the last end of what any rank launched in it, in ps; its ops; and notes.

    InputError where the trace has no such step, or nothing was launched in it.
    """
    steps, ops = imported.steps, imported.trace.ops
    if not len(steps):
        raise InputError("--step: the trace has no ProfilerStep")
    mine = steps[steps["name"].str.extract(r"(\d+)$", expand=False).astype(float) == number]
    names = ", ".join(dict.fromkeys(steps["name"]))
    if not len(mine):
        raise InputError(f"--step: there is no step {number}; the trace has {names}")
    member = np.zeros(len(ops), dtype=bool)
    for row in mine.itertuples(index=False):
        member[launched(imported, row.rank, row.start_ps, row.end_ps)] = True
    if not member.any():
        raise InputError(f"--step: nothing that the GPUs ran was launched in step {number}; the trace has {names}")
    lost = int((imported.launches["launch_ps"] == NEVER).sum())
    notes = [f"{lost} GPU events without their launch in the trace are in no step"] if lost else []
    window = int(ops["start_ps"][member].min()), int(ops["end_ps"][member].max())
    return window, TraceFacts(f"{mine['name'].iloc[0]}, from the first to the last op launched in it", member=member), notes
