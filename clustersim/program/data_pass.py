"""Data-parallel traffic: gathers of partitioned parameters, reductions of gradients.

The order of work is that of arXiv 2106.02679: a gradient is reduced after the last backward that adds to it (where gradients are
partitioned, after every run); partitioned parameters are gathered before each run of a layer, ``prefetch`` layers ahead. Buffers
hold whole parameters from their gather to the end of the run, and partitioned gradients from the run to the end of the reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.compute_pass import Work
from clustersim.program.costs import Costs
from clustersim.program.grid import Grid
from clustersim.program.items import Item
from clustersim.program.kinds import KIND_CODE
from clustersim.program.template import Exchange, Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import OPTIMIZER_AWAY, Strategy, parameter_buffers

_ADDS = (KIND_CODE["backward"], KIND_CODE["weight"])


@dataclass(frozen=True)
class DataParallel:
    """What the data-parallel traffic of a job follows from."""

    strategy: Strategy
    schedule: Schedule
    stages: Sequence[range]
    costs: Costs
    traffic: Traffic
    grid: Grid

    @property
    def gathers(self) -> bool:
        return self.grid.copies > 1 and self.strategy.partition == "parameters"

    @property
    def scatters_runs(self) -> bool:
        return self.grid.copies > 1 and self.strategy.partition in ("gradients", "parameters")

    def needs_weights(self, item: Item) -> bool:
        """A weight gradient needs none, unless the layer is computed again for it."""
        return any(segment.kind != "weight" for segment in self.costs.segments(item.action.kind, item.layer))

    def served(self, item: Item) -> Item:
        """The item as the name of a collective: of one micro-batch, or of several."""
        if self.scatters_runs and self.strategy.timing == "micro_batch":
            return item
        return item._replace(action=item.action._replace(micro_batch=-1))

    def gradients(self, layers: Sequence[int]) -> list[tuple[int, str, str, str]]:
        """As :meth:`sizes`, of the gradients on their way."""
        ratio = self.traffic.gradient_ratio
        return [(round(size * ratio), everyone, shard, replica) for size, everyone, shard, replica in self.sizes(layers)]

    def sizes(self, layers: Sequence[int]) -> list[tuple[int, str, str, str]]:
        """Bytes of these layers, and the groups that share them: all, those that divide state, those that hold the same part.

        Experts are held by fewer copies than the rest.
        """
        dense = sum(self.traffic.layer_bytes[layer] for layer in layers)
        experts = sum(self.traffic.expert_bytes[layer] for layer in layers) if self.traffic.expert_bytes else 0
        found = [(dense, "data", "shard", "replica"), (experts, "expert_data", "expert_data", "")]
        return [one for one in found if one[0]]

    def gathered(self, layer: int) -> list[tuple[int, str]]:
        """Bytes of a layer that are gathered, and the groups that do."""
        return [(size, shard) for size, _, shard, _ in self.sizes([layer]) if self.grid.size(shard) > 1]


class _Run(NamedTuple):
    """A stretch of work on one layer: positions of its first and last piece."""

    begin: int
    end: int


def add_data(template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], updates: Sequence[int]) -> None:
    """Append the data-parallel traffic of a rank; ``updates`` are the optimizer's ops by step, if any."""
    runs = _runs(work)
    if parallel.gathers:
        _add_gathers(template, parallel, rank, work, [run for run in runs if parallel.needs_weights(work[run.end].item)], updates)
    by_step: dict[int, list[_Run]] = {}
    for run in runs:
        if work[run.end].item.action.kind in "BW":
            by_step.setdefault(parallel.schedule.step(work[run.end].item.action), []).append(run)
    for step, complete in sorted(by_step.items()):
        _add_reductions(template, parallel, rank, work, complete, updates[step] if updates else None)


def _runs(work: Sequence[Work]) -> list[_Run]:
    found: dict[int, _Run] = {}
    for at, one in enumerate(work):
        run = one.item.run
        found[run] = _Run(found[run].begin if run in found else at, at)
    return list(found.values())


def _add_gathers(
    template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], runs: list[_Run], updates: Sequence[int]
) -> None:
    """A gather ahead of each run, as soon as a buffer is free and the parameters are those of the step."""
    buffers = parameter_buffers(parallel.strategy, parallel.stages)
    late = 1 if parallel.schedule.flushes else 2
    for number, run in enumerate(runs):
        item = work[run.begin].item
        after = [work[runs[number - buffers].end].compute] if number >= buffers else []
        step = parallel.schedule.step(item.action) - late
        if updates and step >= 0:
            after.append(updates[step])
        for size, shard in parallel.gathered(item.layer):
            op = _gather(template, parallel, rank, parallel.served(item), size, shard, after)
            template.dependencies.append((work[run.begin].first, op))
            template.hold(rank, "buffers", size, op, work[run.end].compute)


def _gather(
    template: Template, parallel: DataParallel, rank: int, item: Item, size: int, shard: str, after: Sequence[int]
) -> int:
    exchange = Exchange(shard, "all_gather", rank, -1, size, parallel.costs.gather_ps)
    return template.exchange(rank, "data", "gather", item.action, item.layer, exchange, after)


def _add_reductions(
    template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], complete: list[_Run], update: int | None
) -> None:
    """The reductions of one step, before its optimizer's op, and the gathers of what it changed."""
    if not parallel.scatters_runs:
        complete = sorted({work[run.end].item.layer: run for run in complete}.values(), key=lambda run: run.end)
    held_back = not parallel.strategy.overlap and not parallel.scatters_runs
    end = work[max(run.end for run in complete)]
    reduced: dict[_Run, list[int]] = {}
    for bucket in _buckets(parallel, work, complete):
        last = work[bucket[-1].end]
        layers = [work[run.end].item.layer for run in bucket]
        ops = _reduce(template, parallel, rank, last.item, layers, after=end.results if held_back else [last.compute])
        reduced.update(dict.fromkeys(bucket, ops))
        if parallel.scatters_runs:
            _hold_gradients(template, parallel, rank, work, bucket, ops)
            if not parallel.strategy.overlap and bucket[-1].end + 1 < len(work):
                template.dependencies += [(work[bucket[-1].end + 1].first, op) for op in ops]
    last_of_layer = {work[run.end].item.layer: run for run in complete}
    ops = [op for each in reduced.values() for op in each]
    for run in sorted(last_of_layer.values()):
        ops += _reduce_with_twin(template, parallel, rank, work[run.end].item, reduced[run] or [work[run.end].compute])
    ops = list(dict.fromkeys(ops))
    if parallel.strategy.offload in OPTIMIZER_AWAY:
        ops = [_update_on_host(template, parallel, rank, work, sorted(last_of_layer), ops or list(end.results))]
    if update is not None:
        template.dependencies += [(update, op) for op in ops]
        ops = [update]
    if parallel.grid.copies > 1 and parallel.strategy.partition in ("optimizer", "gradients"):
        _gather_updated(template, parallel, rank, work, [run for _, run in sorted(last_of_layer.items())], ops)


def _buckets(parallel: DataParallel, work: Sequence[Work], complete: Sequence[_Run]) -> list[list[_Run]]:
    """Runs whose gradients are reduced together: as many as fill a bucket, of one micro-batch where each is reduced by itself."""
    if parallel.strategy.bucket_bytes is None:
        return [[run] for run in complete]
    buckets: list[list[_Run]] = []
    filled, served = parallel.strategy.bucket_bytes, None
    for run in complete:
        item = parallel.served(work[run.end].item)
        if filled >= parallel.strategy.bucket_bytes or item.action.micro_batch != served:
            buckets.append([])
            filled, served = 0, item.action.micro_batch
        buckets[-1].append(run)
        filled += sum(size for size, *_ in parallel.gradients([item.layer]))
    return buckets


def _hold_gradients(
    template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], bucket: Sequence[_Run], ops: Sequence[int]
) -> None:
    for run in bucket:
        size = sum(size for size, *_ in parallel.gradients([work[run.end].item.layer]))
        template.hold(rank, "buffers", size, _first_to_add(template, work[run.begin]), ops[-1])


def _first_to_add(template: Template, work: Work) -> int:
    """The first op that adds to the gradient; what is computed again before it does not."""
    return next(op for op in range(work.first, work.compute + 1) if template.kind[op] in _ADDS)


def _reduce(
    template: Template, parallel: DataParallel, rank: int, item: Item, layers: Sequence[int], after: Sequence[int]
) -> list[int]:
    """Over the copies of the model: the last op of each kind of group. Where groups divide the state, within them and then between."""
    served, fixed_ps = parallel.served(item), parallel.costs.reduce_ps
    fixed_ps = None if fixed_ps is None else fixed_ps * len(layers)
    done: list[int] = []
    for size, everyone, shard, replica in parallel.gradients(layers):
        if parallel.grid.size(everyone) == 1:
            continue
        phases = [(everyone, "all_reduce", size)]
        if parallel.strategy.partition != "none":
            phases = [(shard, "reduce_scatter", size)]
            if replica and parallel.grid.size(replica) > 1:
                phases.append((replica, "all_reduce", -(-size // parallel.grid.size(shard))))
        before = after
        for dimension, collective, payload in phases:
            if parallel.grid.size(dimension) > 1:
                exchange = Exchange(dimension, collective, rank, -1, payload, fixed_ps)
                before = [template.exchange(rank, "data", "reduce", served.action, item.layer, exchange, before)]
        done += before
    return done


def _reduce_with_twin(template: Template, parallel: DataParallel, rank: int, item: Item, after: Sequence[int]) -> list[int]:
    """Between the two copies of the model on a pipeline: what each rank holds of the layer's reduced gradient."""
    twin = parallel.schedule.twin(item.action.stage)
    if twin is None or parallel.schedule.placement[twin] == rank:
        return []
    parts = parallel.grid.shards if parallel.strategy.partition != "none" else 1
    size = sum(-(-size // parts) for size, *_ in parallel.gradients([item.layer]))
    lower, upper = sorted((rank, parallel.schedule.placement[twin]))
    exchange = Exchange("pipeline", "all_reduce", lower, upper, size, parallel.costs.reduce_ps)
    action = item.action._replace(micro_batch=-1)
    joined = f"twins of step {parallel.schedule.step(item.action)}"
    return [template.exchange(rank, "data", "reduce", action, item.layer, exchange, after, joined=joined)]


def _update_on_host(
    template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], layers: Sequence[int], after: Sequence[int]
) -> int:
    """Gradients go to the host, whose processor updates its copy, and new weights come back (ZeRO-Offload, arXiv 2101.06840)."""
    divided = parallel.strategy.partition != "none"
    size = sum(-(-size // parallel.grid.size(shard)) if divided else size for size, _, shard, _ in parallel.sizes(layers))
    action = work[-1].item.action._replace(micro_batch=-1)
    for kind in ("offload", "fetch"):
        exchange = Exchange("host", kind, rank, -1, size)
        after = [template.exchange(rank, kind, kind, action, layers[0], exchange, after)]
    return after[0]


def _gather_updated(
    template: Template, parallel: DataParallel, rank: int, work: Sequence[Work], last: Sequence[_Run], before: Sequence[int]
) -> None:
    """Each layer's new parameters, first those that the next step needs first; it waits for them.

    The update needs the norm of all gradients, so that none leaves before the last reduction.
    """
    step = parallel.schedule.step(work[last[0].end].item.action) + (1 if parallel.schedule.flushes else 2)
    waiting: dict[int, Work] = {}
    for one in work:
        if one.item.action.kind == "F" and parallel.schedule.step(one.item.action) == step:
            waiting.setdefault(one.item.layer, one)
    for run in last:
        item = work[run.end].item
        item = item._replace(action=item.action._replace(micro_batch=-1))
        for size, shard in parallel.gathered(item.layer):
            before = [_gather(template, parallel, rank, item, size, shard, before)]
            if item.layer in waiting:
                template.dependencies.append((waiting[item.layer].first, before[0]))
