"""Data-parallel traffic: gathers of partitioned parameters, reductions of gradients.

The order of work is that of arXiv 2106.02679: a gradient is reduced after the last backward that adds to it (where gradients are
partitioned, after every run); partitioned parameters are gathered before each run of a layer, ``prefetch`` layers ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.compute_pass import Work
from clustersim.program.costs import Costs
from clustersim.program.items import Item
from clustersim.program.template import Exchange, Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import Strategy, parameter_buffers


@dataclass(frozen=True)
class DataParallel:
    """What the data-parallel traffic of a job follows from."""

    strategy: Strategy
    schedule: Schedule
    costs: Costs
    traffic: Traffic
    data: int

    @property
    def exchanges(self) -> bool:
        """Whether any rank shares its gradients with another."""
        return self.data > 1 or self.schedule.pipes > 1

    @property
    def gathers(self) -> bool:
        return self.data > 1 and self.strategy.partition == "parameters"

    @property
    def scatters_runs(self) -> bool:
        return self.data > 1 and self.strategy.partition in ("gradients", "parameters")

    def served(self, item: Item) -> Item:
        """The item as the name of a collective: of one micro-batch, or of several."""
        if self.scatters_runs and self.strategy.timing == "micro_batch":
            return item
        return item._replace(action=item.action._replace(micro_batch=-1))


class _Run(NamedTuple):
    """A stretch of work on one layer: positions of its first and last piece."""

    begin: int
    end: int


def add_data(template: Template, parallel: DataParallel, rank: int, work: Sequence[Work]) -> None:
    """Append the data-parallel traffic of a rank."""
    runs = _runs(work)
    if parallel.gathers:
        _add_gathers(template, parallel, rank, work, [run for run in runs if work[run.end].item.action.kind != "W"])
    complete = [run for run in runs if work[run.end].item.action.kind in "BW"]
    if not parallel.scatters_runs:
        complete = sorted({work[run.end].item.layer: run for run in complete}.values(), key=lambda run: run.end)
    held_back = not parallel.strategy.overlap and not parallel.scatters_runs
    reductions = []
    for run in complete:
        last = work[run.end]
        reductions.append(_reduce(template, parallel, rank, last, after=work[-1].result if held_back else last.compute))
        if not parallel.strategy.overlap and parallel.scatters_runs and run.end + 1 < len(work):
            template.dependencies.append((work[run.end + 1].first, reductions[-1]))
    last_of_layer = {work[run.end].item.layer: (run, reduction) for run, reduction in zip(complete, reductions, strict=True)}
    last = sorted(last_of_layer.values())
    reductions += [op for run, reduction in last for op in _reduce_with_twin(template, parallel, rank, work[run.end].item, reduction)]
    if parallel.data > 1 and parallel.strategy.partition in ("optimizer", "gradients"):
        _gather_updated(template, parallel, rank, [work[run.end].item for run, _ in last], reductions)


def _runs(work: Sequence[Work]) -> list[_Run]:
    found: dict[int, _Run] = {}
    for at, one in enumerate(work):
        run = one.item.run
        found[run] = _Run(found[run].begin if run in found else at, at)
    return list(found.values())


def _add_gathers(template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], runs: list[_Run]) -> None:
    """A gather ahead of each run, as soon as a buffer is free."""
    buffers = parameter_buffers(parallel.strategy, len(parallel.traffic.layer_bytes), parallel.schedule)
    for number, run in enumerate(runs):
        free = [work[runs[number - buffers].end].compute] if number >= buffers else []
        op = _gather(template, parallel, rank, parallel.served(work[run.begin].item), free)
        template.dependencies.append((work[run.begin].first, op))


def _gather(template: Template, parallel: DataParallel, rank: int, item: Item, after: list[int]) -> int:
    exchange = Exchange("data", "all_gather", rank, -1, parallel.traffic.layer_bytes[item.layer], parallel.costs.gather_ps)
    return template.exchange(rank, "data", "gather", item.action, item.layer, exchange, after)


def _reduce(template: Template, parallel: DataParallel, rank: int, work: Work, after: int) -> int:
    """Over the replicas; the op after which the gradient is reduced."""
    if parallel.data == 1:
        return after
    item = parallel.served(work.item)
    collective = "all_reduce" if parallel.strategy.partition == "none" else "reduce_scatter"
    exchange = Exchange("data", collective, rank, -1, parallel.traffic.layer_bytes[item.layer], parallel.costs.reduce_ps)
    return template.exchange(rank, "data", "reduce", item.action, item.layer, exchange, [after])


def _reduce_with_twin(template: Template, parallel: DataParallel, rank: int, item: Item, after: int) -> list[int]:
    """Between the two copies of the model: what each replica's rank holds of the layer's reduced gradient."""
    twin = parallel.schedule.twin(item.action.stage)
    if twin is None or parallel.schedule.placement[twin] == rank:
        return []
    size = parallel.traffic.layer_bytes[item.layer]
    if parallel.strategy.partition != "none":
        size = -(-size // parallel.data)
    pair = sorted((rank, parallel.schedule.placement[twin]))
    exchange = Exchange("pipeline", "all_reduce", *pair, size, parallel.costs.reduce_ps)
    action = item.action._replace(micro_batch=-1)
    return [template.exchange(rank, "data", "reduce", action, item.layer, exchange, [after], joined="twins")]


def _gather_updated(
    template: Template, parallel: DataParallel, rank: int, items: list[Item], reductions: list[int]
) -> None:
    # The update needs the norm of all gradients, so no new parameter leaves before the last reduction.
    before = reductions
    for item in items:
        before = [_gather(template, parallel, rank, item._replace(action=item.action._replace(micro_batch=-1)), before)]
