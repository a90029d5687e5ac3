"""What an analysis needs to know of a trace that its tables do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from clustersim.errors import InputError


@dataclass(frozen=True)
class TraceFacts:
    """``window``: the window in words, and whether it was ``given`` by its times, with whatever work lies in it; ``steps``: optimizer steps
    in it, over which the times of an analysis are means.

    ``step_of``: by op, the optimizer step that it computes for, and ``step_ends_ps`` where each step but the last ends; None and
    empty where all is one step. ``member``: by op, whether it belongs to the step that is looked at; None: all do. ``stands_for``: by
    rank, ranks of the job that it was simulated for; 1 where it is not named. ``wait_known``: by op, whether its wait for the other
    ranks could be measured; None: it is known of all.

    >>> TraceFacts().window, TraceFacts(stands_for={0: 8}).weights(np.array([0, 3])).tolist()
    ('the whole trace', [8, 1])
    """

    window: str = "the whole trace"
    given: bool = False
    steps: int = 1
    step_of: np.ndarray | None = None
    step_ends_ps: tuple[int, ...] = ()
    member: np.ndarray | None = None
    stands_for: Mapping[int, int] = field(default_factory=dict)
    wait_known: np.ndarray | None = None

    def weights(self, ranks: np.ndarray) -> np.ndarray:
        """For how many ranks of the job each of these stands."""
        distinct, code = np.unique(ranks, return_inverse=True)
        return np.array([self.stands_for.get(rank, 1) for rank in distinct.tolist()], dtype=np.int64)[code]


WHOLE = TraceFacts()
"""All of a trace of one step, of which nothing else is known."""


def multiplicities(ranks: pd.DataFrame, simulated: np.ndarray, place: str) -> dict[int, int]:
    """By simulated rank, for how many ranks of the job it stands: ``ranks`` has a row for each of those, ``rank`` and ``simulated_as``.

    InputError, which names the ``place``, where a column holds no whole numbers, a rank comes twice, or the simulated ranks are others.

    >>> multiplicities(pd.DataFrame({"rank": [0, 1, 2], "simulated_as": [0, 0, 2]}), np.array([0, 2, 2]), "ranks.parquet")
    {0: 2, 2: 1}
    """
    for name in ("rank", "simulated_as"):
        if name not in ranks:
            raise InputError(f"{place}: columns missing: {name}")
        if not pd.api.types.is_integer_dtype(ranks[name]) or ranks[name].hasnans:
            raise InputError(f"{place}: {name} holds what is no whole number")
    twice = ranks["rank"][ranks["rank"].duplicated()]
    if len(twice):
        raise InputError(f"{place}: rank {twice.iloc[0]} stands in two rows; allowed: one row a rank")
    counts = ranks["simulated_as"].value_counts().sort_index()
    unknown, forgotten = np.setdiff1d(counts.index, simulated), np.setdiff1d(simulated, counts.index)
    if len(unknown):
        raise InputError(f"{place}: simulated_as {unknown[0]}: the ops have no such rank")
    if len(forgotten):
        raise InputError(f"{place}: simulated_as: rank {forgotten[0]} of the ops is missing")
    return {int(rank): int(count) for rank, count in counts.items()}
