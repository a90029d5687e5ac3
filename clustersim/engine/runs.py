"""Runs: stretches of compute that nothing can interleave with, which the engine walks through in one go.

An op joins the one before it in its in-order stream when both compute, it waits for nothing else, and nothing else waits for the one
before. Its times follow from those of the run, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.program.program import Program


@dataclass(frozen=True)
class Runs:
    """``of_op``: the run of each op, numbered stream by stream in their order; ``offset_ps``: what comes before the op in its run.

    By run: ``duration_ps`` and ``activity`` (-1: compute). ``bounds``: the runs of stream s are ``bounds[s]`` to ``bounds[s + 1]``.
    The run ``waits[i]`` waits for the run ``on[i]``; what the order of a stream implies is not in it.
    """

    of_op: np.ndarray
    offset_ps: np.ndarray
    duration_ps: np.ndarray
    activity: np.ndarray
    bounds: np.ndarray
    waits: np.ndarray
    on: np.ndarray
    first_op: np.ndarray

    def __len__(self) -> int:
        return len(self.duration_ps)

    def first_of(self, of_op: np.ndarray) -> np.ndarray:
        """A column of ops, at the first op of each run."""
        return of_op[self.first_op]

    def starts(self, of_run: np.ndarray) -> np.ndarray:
        """Starts of ops, from those of runs."""
        return of_run[self.of_op] + self.offset_ps


def find_runs(program: Program, joined: bool = True) -> Runs:
    """The runs of a program; without ``joined`` each op is one of its own.

    >>> import numpy as np
    >>> from clustersim.program.program import Links, Program, Stream
    >>> ints = lambda *values: np.array(values, dtype=np.int64)
    >>> zero = ints(0, 0, 0)
    >>> program = Program(zero, zero, zero, zero, zero, zero, zero, ints(3, 4, 5), zero, zero, zero - 1, zero - 1, ints(), ints(), ints(),
    ...                   (), (), (Stream(0, "compute", True, ints(0, 1, 2)),), Links((), (), (), ()), ints(0))
    >>> runs = find_runs(program)
    >>> runs.duration_ps, runs.offset_ps
    (array([12]), array([0, 3, 7]))
    """
    ops = program.ops
    sizes = np.array([len(stream.ops) for stream in program.streams], dtype=np.int64)
    in_row = np.concatenate([np.zeros(0, dtype=np.int64), *(stream.ops for stream in program.streams)])
    stream_at = np.repeat(np.arange(len(sizes)), sizes)
    in_order_at = np.array([stream.in_order for stream in program.streams], dtype=bool)[stream_at]
    place = np.empty(ops, dtype=np.int64)
    place[in_row] = np.arange(ops)
    stream, in_order = stream_at[place], in_order_at[place]

    op, on = program.dependency_op, program.dependency_on
    implied = (stream[op] == stream[on]) & in_order[op] & (place[on] < place[op])
    op, on = op[~implied], on[~implied]
    waits, awaited = np.zeros(ops, dtype=bool), np.zeros(ops, dtype=bool)
    waits[op], awaited[on] = True, True
    computes = program.activity < 0
    here, before = in_row[1:], in_row[:-1]
    joins = np.zeros(ops, dtype=bool)
    joins[1:] = joined & (
        (stream_at[1:] == stream_at[:-1]) & in_order_at[1:] & computes[here] & computes[before] & ~waits[here] & ~awaited[before]
    )

    heads = np.flatnonzero(~joins)
    run_at = np.cumsum(~joins) - 1
    duration = program.duration_ps[in_row]
    ahead = np.concatenate([[0], np.cumsum(duration)])
    of_op, offset = np.empty(ops, dtype=np.int64), np.empty(ops, dtype=np.int64)
    of_op[in_row] = run_at
    offset[in_row] = ahead[:-1] - ahead[heads[run_at]]
    return Runs(
        of_op=of_op,
        offset_ps=offset,
        duration_ps=ahead[np.append(heads, ops)[1:]] - ahead[heads],
        activity=program.activity[in_row[heads]],
        bounds=np.searchsorted(heads, np.concatenate([[0], np.cumsum(sizes)])),
        waits=of_op[op],
        on=of_op[on],
        first_op=in_row[heads],
    )
