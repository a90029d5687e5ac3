"""The rank that the others wait for, where it is plain which one that is."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

SLOWER = 1.05  # computes the same work so much longer than its peers: a slow rank
_MOST = 0.5  # of a loss
_MUCH = 0.05  # of the window
_PLAINLY = 2.0  # times as long waited for as any other rank


class Late(NamedTuple):
    """``rank``; ``slower``: how many times as long as its peers it computes the same, None where it is late for another reason;
    ``share``: of the window, what the other ranks wait for it, mean over them; ``most``: whether that is most of the loss; ``alike``: how
    many ranks of the job it stands for, itself included.
    """

    rank: int
    slower: float | None
    share: float
    most: bool
    alike: int


def late_rank(ranks: pd.DataFrame, window_ps: float, loss_ps: float, in_collectives: bool) -> Late | None:
    """The slow rank that the others wait for longest, or else any, if it is to be named for a loss (ps, sum over ranks of the
    job).

    Ranks wait in the pipeline of equals too: one is named only if it is slow or, where the loss is waiting ``in_collectives``, if most
    of that is for it and it is waited for much longer than any other. ``ranks``: rank, waited_for_ps,
    compute_over_median, stands_for.

    >>> ranks = pd.DataFrame({"rank": [0, 1, 2], "waited_for_ps": [1.0, 6.0, 2.0], "compute_over_median": [1.0, 1.3, 1.0], "stands_for": 1})
    >>> late_rank(ranks, 10, loss_ps=13, in_collectives=False)
    Late(rank=1, slower=1.3, share=0.3, most=False, alike=1)
    >>> late_rank(ranks.assign(compute_over_median=1.0), 10, loss_ps=10, in_collectives=False) is None
    True
    >>> late_rank(ranks.assign(compute_over_median=1.0), 10, loss_ps=10, in_collectives=True)
    Late(rank=1, slower=None, share=0.3, most=True, alike=1)
    """
    waited = ranks["waited_for_ps"]
    slow = ranks["compute_over_median"] >= SLOWER
    if len(ranks) < 2:
        return None
    at = (waited[slow] if slow.any() else waited).idxmax()
    alike = int(ranks["stands_for"][at])
    share, most = waited[at] / (ranks["stands_for"].sum() - alike) / window_ps, waited[at] >= _MOST * loss_ps
    plain = in_collectives and most and waited[at] >= _PLAINLY * waited.drop(at).max()
    if share < _MUCH or not (slow[at] or plain):
        return None
    return Late(int(ranks["rank"][at]), float(ranks["compute_over_median"][at]) if slow[at] else None, float(share), bool(most), alike)
