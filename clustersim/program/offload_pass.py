"""Activations in the memory of the host between their forward and their backward (ZeRO-Infinity, arXiv 2104.07857)."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.program.compute_pass import Work
from clustersim.program.template import Exchange, Template

_AHEAD = 2  # pieces of work: one that runs while the fetch does, after one that has ended


def offload_activations(template: Template, rank: int, work: Sequence[Work], kept_bytes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Send each layer's activations out once its forward has ended, and fetch them while the work before its backward runs.

    The ops that take them out and back, by the position of the forward in ``work``. What is needed again at once stays.
    """
    forwards: dict[tuple[int, int, int], int] = {}
    moved: dict[int, tuple[int, int]] = {}
    for at, one in enumerate(work):
        kind, stage, micro_batch = one.item.action
        key = stage, micro_batch, one.item.layer
        if kind == "F":
            forwards[key] = at
        elif kind in "BI" and at - forwards[key] > _AHEAD:
            moved[forwards[key]] = at, 0
    fetches: list[tuple[int, int, int]] = []
    for at, (back, _) in moved.items():
        out = _move(template, rank, work[at], "offload", kept_bytes, list(work[at].results))
        fetches.append((back, at, out))
    for back, at, out in sorted(fetches):
        fetch = _move(template, rank, work[back], "fetch", kept_bytes, [out, work[back - _AHEAD].compute])
        template.dependencies.append((work[back].first, fetch))
        moved[at] = out, fetch
    return moved


def _move(template: Template, rank: int, one: Work, kind: str, kept_bytes: Sequence[int], after: Sequence[int]) -> int:
    exchange = Exchange("host", kind, rank, -1, kept_bytes[one.item.layer])
    return template.exchange(rank, kind, kind, one.item.action, one.item.layer, exchange, after)
