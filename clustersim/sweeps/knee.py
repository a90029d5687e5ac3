"""The knee: the smallest bandwidth at which a step stays within a tolerance of its time at infinite bandwidth.

Found by bisection with simulations. The time is taken to fall as the bandwidth rises; where flows contend it can rise for a
moment, and the knee is then one of several bandwidths at which the time crosses the tolerance, between two that are printed.

>>> def answered(search, time_s):  # asks as a sweep does, with a function in place of simulations
...     asked = next(search)
...     while True:
...         try:
...             asked = search.send(time_s(asked))
...         except StopIteration as end:
...             return end.value
>>> answered(bracket(limit_s=2.0, known={4: 5.0, 64: 0.3}, precision=0.1), lambda bytes_s: 20 / bytes_s)
(9, 10)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clustersim.sweeps.vary import Field, Point, Value, value_of

INFINITE = value_of("1 EB/s")
"""A gigabyte takes a nanosecond: what is left of a transfer is its latency."""
PRECISION = 0.002
LOWEST_BYTES_S, HIGHEST_BYTES_S = 1_000, 10**17
"""Where no bandwidth between the two is a knee there is none."""

Evaluate = Callable[[Sequence[Point]], list[dict[str, Any]]]
"""From points to their rows, in the same order."""

Search = Generator[int, float, tuple[int, int] | None]
Found = tuple[int, int] | str | None


@dataclass(frozen=True)
class Knee:
    """``low_bytes_s`` is too slow and ``high_bytes_s`` fast enough; both are None where there is no knee, and ``reason`` says why.

    ``others`` are the other varied fields of the point.
    """

    strategy: str
    field: str
    tolerance: float
    others: Mapping[str, Value]
    infinite_s: float | None = None
    low_bytes_s: int | None = None
    high_bytes_s: int | None = None
    reason: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON has it; ``value`` is the bandwidth that is fast enough."""
        return {
            "strategy": self.strategy, "field": self.field, "value": self.high_bytes_s, "unit": "B/s", "tolerance": self.tolerance,
            "low_bytes_s": self.low_bytes_s, "high_bytes_s": self.high_bytes_s, "infinite_step_time_s": self.infinite_s,
            "reason": self.reason, **{path: value.plain for path, value in self.others.items()},
        }  # fmt: skip


def bracket(limit_s: float, known: Mapping[int, float], precision: float = PRECISION) -> Search:
    """Ask for step times (s) at bandwidths (B/s) until two that are close have ``limit_s`` between them; None when none has.

    ``known`` are times that need not be asked for, at least one. Outside of them it steps by 2, 4, 16, ... times, inside it halves.
    """
    high = min((bandwidth for bandwidth, time_s in known.items() if time_s <= limit_s), default=None)
    low = max((bandwidth for bandwidth, time_s in known.items() if time_s > limit_s and (high is None or bandwidth < high)), default=None)
    step = 2
    while high is None or low is None:
        if high is None:
            assert low is not None  # of the known times one is above or below the limit
            asked = min(low * step, HIGHEST_BYTES_S)
        else:
            asked = max(high // step, LOWEST_BYTES_S)
        if asked in (low, high):
            return None
        fast_enough = (yield asked) <= limit_s
        low, high = (low, asked) if fast_enough else (asked, high)
        step *= step
    while high > low * (1 + precision) and high - low > 1:
        middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        fast_enough = (yield middle) <= limit_s
        low, high = (low, middle) if fast_enough else (middle, high)
    return low, high


def find_knees(
    field: Field, points: Sequence[Point], rows: Sequence[dict[str, Any]], strategy_of: Callable[[Point], str],
    tolerance: float, evaluate: Evaluate,
) -> list[Knee]:  # fmt: skip
    """A knee of ``field`` for each combination of the other fields of the points, in their order; all are searched at a time."""
    known: dict[tuple[Value, ...], dict[int, float]] = {}
    others: dict[tuple[Value, ...], Point] = {}
    for point, row in zip(points, rows, strict=True):
        rest = {path: value for path, value in point.items() if path != field.path}
        group = tuple(rest.values())
        others[group] = rest
        known.setdefault(group, {})
        bandwidth = point[field.path].number
        if "step_time_s" in row and isinstance(bandwidth, int):
            known[group][bandwidth] = row["step_time_s"]
    groups = list(others)
    infinite = evaluate([{**others[group], field.path: INFINITE} for group in groups])
    knees = {group: Knee(strategy_of(others[group]), field.path, tolerance, others[group]) for group in groups}
    searches: dict[tuple[Value, ...], Search] = {}
    for group, row in zip(groups, infinite, strict=True):
        if "step_time_s" not in row or not known[group]:
            knees[group] = replace(knees[group], reason=row["reason"] or "no point of it could be simulated")
            continue
        knees[group] = replace(knees[group], infinite_s=row["step_time_s"])
        searches[group] = bracket(row["step_time_s"] * (1 + tolerance), known[group])
    for group, found in _answered(searches, lambda group, at: {**others[group], field.path: _value(at)}, evaluate).items():
        knees[group] = _with(knees[group], found)
    return [knees[group] for group in groups]


def _with(knee: Knee, found: Found) -> Knee:
    if isinstance(found, tuple):
        return replace(knee, low_bytes_s=found[0], high_bytes_s=found[1])
    return replace(knee, reason=found or f"it takes no longer at {LOWEST_BYTES_S:,} B/s: the bandwidth does not matter")


def _answered(searches: dict[Any, Search], point_at: Callable[[Any, int], Point], evaluate: Evaluate) -> dict[Any, Found]:
    """What the searches return, each asked for one bandwidth a round; text where one could not be answered."""
    found: dict[Any, Found] = {}
    asked: dict[Any, int] = {}

    def advance(group: Any, answer: float | None) -> None:
        try:
            asked[group] = next(searches[group]) if answer is None else searches[group].send(answer)
        except StopIteration as end:
            found[group] = end.value

    for group in searches:
        advance(group, None)
    while asked:
        round_of, asked_now = list(asked), [point_at(group, at) for group, at in asked.items()]
        asked.clear()
        for group, row in zip(round_of, evaluate(asked_now), strict=True):
            if "step_time_s" in row:
                advance(group, row["step_time_s"])
            else:
                found[group] = row["reason"]
    return found


def _value(bytes_s: int) -> Value:
    return Value(f"{bytes_s} B/s", bytes_s)
