"""Orders of the work: each a pure function from a placement and the number of micro-batches to actions per rank.

Letters: p ranks, v stages per rank, m micro-batches. Makespans in units of a whole rank and micro-batch, F forward and B backward.
"""

from __future__ import annotations

from collections.abc import Callable

from clustersim.schedule.actions import Action

Actions = tuple[tuple[Action, ...], ...]


def one_f_one_b(placement: tuple[int, ...], m: int) -> Actions:
    """1F1B (PipeDream-Flush, arXiv 2006.09503): min(m, p-1-r) warm-up forwards on rank r, then one forward, one backward.

    One stage per rank. Makespan (m+p-1)(F+B); at most min(m, p-r) forwards in flight. With p = 1 it is standard accumulation.

    >>> [" ".join(map(str, rank)) for rank in one_f_one_b((0, 1), 3)]
    ['0F0 0F1 0B0 0F2 0B1 0B2', '1F0 1B0 1F1 1B1 1F2 1B2']
    """
    p = len(placement)
    ranks = []
    for r in range(p):
        warm_up = min(m, p - 1 - r)
        actions = [Action("F", r, i) for i in range(warm_up)]
        for i in range(m - warm_up):
            actions += (Action("F", r, warm_up + i), Action("B", r, i))
        actions += (Action("B", r, i) for i in range(m - warm_up, m))
        ranks.append(tuple(actions))
    return tuple(ranks)


def layered(placement: tuple[int, ...], m: int) -> Actions:
    """Layered order (LGA, arXiv 2106.02679): all micro-batches through a stage before the next one, micro-batches ascending both ways.

    On one rank it is layered gradient accumulation, on the modular placement with one layer a stage modular pipeline parallelism,
    with one stage per rank GPipe (arXiv 1811.06965). Modular makespan ((v-1) max(p,m) + m + p - 1)(F+B)/v;
    contiguous (p(v-1)m + m + p - 1)(F+B)/v. All m v forwards are in flight.

    >>> [" ".join(map(str, rank)) for rank in layered((0, 1, 0, 1), 2)]
    ['0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1', '1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1']
    """
    ranks = []
    for r in range(max(placement) + 1):
        stages = [stage for stage, rank in enumerate(placement) if rank == r]
        forwards = [Action("F", stage, i) for stage in stages for i in range(m)]
        backwards = [Action("B", stage, i) for stage in reversed(stages) for i in range(m)]
        ranks.append((*forwards, *backwards))
    return tuple(ranks)


ORDERS: dict[str, Callable[[tuple[int, ...], int], Actions]] = {"1f1b": one_f_one_b, "gpipe": layered, "layered": layered}
SINGLE_STAGE_ORDERS = ("1f1b", "gpipe")
