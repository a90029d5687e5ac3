"""A whole sweep: the points of the grid, what each loses to its network, the knees, the tornado."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from clustersim.errors import InputError
from clustersim.experiment import parse
from clustersim.sweeps.knee import INFINITE, Evaluate, Knee, find_knees
from clustersim.sweeps.points import Assignments, Base, key, strategy_of, texts
from clustersim.sweeps.slips import refuse_slips
from clustersim.sweeps.store import Store
from clustersim.sweeps.tornado import Bar, tornado
from clustersim.sweeps.vary import Field, Point, combined

Progress = Callable[[int, int], None]
"""Points done, and points known to be needed so far."""


class Workers(Protocol):
    """Where points are simulated."""

    def solve(self, points: Sequence[Assignments]) -> Iterator[tuple[int, dict[str, Any]]]: ...


@dataclass(frozen=True)
class Plan:
    """What to sweep: ``fields`` in all combinations, or ``zipped``; knees within ``tolerance`` (0.05: 5 %); with a ``tornado`` or not."""

    base: Base
    fields: tuple[Field, ...]
    zipped: bool = False
    tolerance: float = 0.05
    knees: bool = True
    tornado: bool = False

    @property
    def bandwidths(self) -> list[Field]:
        return [field for field in self.fields if field.is_bandwidth]


@dataclass(frozen=True)
class Sweep:
    """``points`` in the order of the grid, with a row each (:func:`clustersim.sweeps.points.solve`).

    ``slowdowns``: the step time over that with every varied bandwidth infinite, None where there is none; ``strategies`` by
    point. ``bars`` is None where no tornado was asked for.
    """

    plan: Plan
    points: tuple[Point, ...]
    rows: tuple[dict[str, Any], ...]
    strategies: tuple[str, ...]
    slowdowns: tuple[float | None, ...]
    knees: tuple[Knee, ...]
    bars: tuple[Bar, ...] | None


def workers(base: Base, jobs: int | None = None, dask: str | None = None) -> AbstractContextManager[Workers]:
    """``jobs`` processes on this machine, by default one a core; or the workers of the Dask scheduler at the address ``dask``."""
    if dask is None:
        from clustersim.sweeps.pool import Processes

        return Processes(base, jobs or os.cpu_count() or 1)
    from clustersim.sweeps.on_dask import DaskWorkers

    return DaskWorkers(base, dask)


def run(plan: Plan, pool_of: AbstractContextManager[Workers], folder: Path | None = None, progress: Progress | None = None) -> Sweep:
    """Simulate what is not in the ``folder`` yet; each point is kept there as soon as it is finished.

    InputError for a value that can never be, when not a single point makes an experiment (with the reason of the first), and
    when another sweep is at work in the folder.
    """
    points = combined(plan.fields, plan.zipped)
    refuse_slips(plan.base, plan.fields, points)
    with pool_of as pool, Store(folder) as store:  # in this order: processes that are forked off would hold the lock as well
        evaluate = _evaluator(plan.base, store, pool, progress or (lambda done, total: None))
        rows = evaluate(points)
        _refuse_if_none(rows)

        def strategy(point: Point) -> str:
            return strategy_of(plan.base, texts(point))

        slowdowns = _slowdowns(plan, points, rows, evaluate)
        knees = [knee for field in _searched(plan) for knee in find_knees(field, points, rows, strategy, plan.tolerance, evaluate)]
        bars = tuple(tornado(parse(plan.base.document, plan.base.near), evaluate)) if plan.tornado else None
    return Sweep(plan, tuple(points), tuple(rows), tuple(map(strategy, points)), slowdowns, tuple(knees), bars)


def _evaluator(base: Base, store: Store, pool: Workers, progress: Progress) -> Evaluate:
    done = total = 0

    def evaluate(points: Sequence[Point]) -> list[dict[str, Any]]:
        nonlocal done, total
        wanted = [texts(point) for point in points]
        keys = [key(base, assignments) for assignments in wanted]
        missing = {name: assignments for name, assignments in zip(keys, wanted, strict=True) if name not in store}
        names = list(missing)
        total += len(names)
        progress(done, total)
        for number, row in pool.solve(list(missing.values())):
            store.add(names[number], row, missing[names[number]])
            done += 1
            progress(done, total)
        return [store[name] for name in keys]

    return evaluate


def _refuse_if_none(rows: Sequence[dict[str, Any]]) -> None:
    if not any("step_time_s" in row for row in rows):
        raise InputError(rows[0]["reason"])


def _searched(plan: Plan) -> list[Field]:
    """Values that go together leave nothing to hold fixed while a bandwidth is searched."""
    return plan.bandwidths if plan.knees and not (plan.zipped and len(plan.fields) > 1) else []


def _slowdowns(plan: Plan, points: Sequence[Point], rows: Sequence[dict[str, Any]], evaluate: Evaluate) -> tuple[float | None, ...]:
    infinite = {field.path: INFINITE for field in plan.bandwidths}
    if not infinite:
        return (None,) * len(points)
    references = evaluate([{**point, **infinite} for point in points])
    times = [(row.get("step_time_s"), reference.get("step_time_s")) for row, reference in zip(rows, references, strict=True)]
    return tuple(own / best if own and best else None for own, best in times)
