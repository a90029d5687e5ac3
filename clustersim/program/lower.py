"""Lowering: the actions of a schedule become ops of one replica, with their traffic and dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.program.costs import Costs, Segment
from clustersim.program.template import Exchange, Template
from clustersim.schedule.actions import Action, Schedule
from clustersim.schedule.strategy import Strategy


@dataclass(frozen=True)
class Traffic:
    """Payloads in bytes on one rank: what a micro-batch hands from layer to layer, what of it a rank sends to the next stage

    (when that is a part, the tensor ranks gather the whole on arrival), and by layer its weights (or gradients).
    """

    activation_bytes: int
    message_bytes: int
    layer_bytes: tuple[int, ...]


def lower(schedule: Schedule, strategy: Strategy, costs: Costs, traffic: Traffic, data: int) -> Template:
    """The ops of one replica out of ``data``, one rank per pipeline stage.

    Order of work as in arXiv 2106.02679: a gradient is reduced after the last backward that adds to it (where gradients are
    partitioned, after every run); partitioned parameters are gathered before each run of a layer, ``prefetch`` runs ahead.
    A run is the stretch of work that one gather serves. InputError when an action uses what nothing produces.
    """
    lowering = _Lowering(schedule, strategy, costs, traffic, data)
    for rank, actions in enumerate(schedule.actions):
        lowering.rank(rank, actions)
    lowering.connect()
    return lowering.template


class _Item(NamedTuple):
    """One layer of one action; ``first`` and ``last`` in its action."""

    action: Action
    layer: int
    first: bool
    last: bool
    run: int


class _Lowering:
    def __init__(self, schedule: Schedule, strategy: Strategy, costs: Costs, traffic: Traffic, data: int) -> None:
        self.schedule, self.strategy, self.costs, self.traffic = schedule, strategy, costs, traffic
        self.layers = len(traffic.layer_bytes)
        self.replicated = data > 1
        self.gathers = self.replicated and strategy.partition == "parameters"
        self.scatters_runs = strategy.partition in ("gradients", "parameters")
        self.template = Template()
        self.produced: dict[Action, int] = {}  # the op after which an action's result is there, on its own rank
        self.received: dict[Action, int] = {}  # the receive that brings an action its input
        self.wanted: list[tuple[int, Action, Action]] = []  # an op, its action, the action whose result it uses

    def rank(self, rank: int, actions: Sequence[Action]) -> None:
        items = list(self._items(actions))
        last_backward = {item.layer: index for index, item in enumerate(items) if item.action.kind == "B"}
        run_ends: list[int] = []  # by run, its last compute op
        reductions: list[int] = []
        late: list[_Item] = []  # reductions that wait for all compute
        result = compute = None
        gates: list[int] = []  # data-parallel collectives that hold up the next layer
        for index, item in enumerate(items):
            if item.run == len(run_ends):
                run_ends.append(-1)
                if self.gathers:
                    gates.append(self._gather(rank, item, after=self._buffer_free(run_ends, item.run)))
            # Also across actions: a tensor-parallel collective holds up the compute stream.
            waits = gates if result is None else [*gates, result]
            gates = []
            first_op = len(self.template.kind)
            if item.first and self._gathers_message(rank, item.action):
                waits.append(self._gather_message(rank, item))
            compute, result = self._layer(rank, item, waits, compute)
            run_ends[item.run] = compute
            if item.first:
                self._want_inputs(first_op, item.action)
            if item.last:
                self._deliver(rank, item, result)
            ends_run = index + 1 == len(items) or items[index + 1].run != item.run
            if not self.replicated or item.action.kind == "F":
                continue
            if not (ends_run if self.scatters_runs else index == last_backward[item.layer]):
                continue
            if self.strategy.overlap or self.scatters_runs:
                reductions.append(self._reduce(rank, item, after=compute))
                if not self.strategy.overlap:
                    gates.append(reductions[-1])
            else:
                late.append(item)
        reductions += [self._reduce(rank, item, after=result) for item in late]
        if self.replicated and self.strategy.partition in ("optimizer", "gradients"):
            self._gather_updated(rank, [items[index] for _, index in sorted(last_backward.items())], reductions)

    def _items(self, actions: Sequence[Action]) -> Iterator[_Item]:
        per_stage = self.layers // self.schedule.stages
        run, last_key = -1, None
        for action in actions:
            layers = range(action.stage * per_stage, (action.stage + 1) * per_stage)
            for position, layer in enumerate(layers if action.kind == "F" else reversed(layers)):
                key = (action.kind, layer, action.micro_batch if self.strategy.timing == "micro_batch" else None)
                if key != last_key:
                    run, last_key = run + 1, key
                yield _Item(action, layer, position == 0, position == per_stage - 1, run)

    def _layer(self, rank: int, item: _Item, waits: list[int], previous: int | None) -> tuple[int, int]:
        """Compute segments and the tensor-parallel all-reduces between them: the last compute op, and the op that has the result.

        ``previous`` is the compute op before; the stream's order makes waiting for it needless.
        """
        stage, micro_batch = item.action.stage, item.action.micro_batch
        for segment in self._segments(item):
            op = self.template.op(
                rank, "compute", segment.kind, stage, item.layer, micro_batch,
                part=segment.part, duration_ps=segment.duration_ps, flops=segment.flops,
            )  # fmt: skip
            self.template.dependencies += [(op, wait) for wait in waits if wait != previous]
            previous = result = op
            if segment.all_reduce:
                exchange = Exchange("tensor", "all_reduce", rank, -1, self.traffic.activation_bytes)
                result = self._communicate(rank, "tensor", item, micro_batch, exchange, after=op)
            waits = [result]
        return previous, result

    def _segments(self, item: _Item) -> tuple[Segment, ...]:
        head = item.layer == self.layers - 1
        if item.action.kind == "F":
            return self.costs.forward + (self.costs.head_forward if head else ())
        return (self.costs.head_backward if head else ()) + self.costs.backward

    def _communicate(
        self, rank: int, kind: str, item: _Item, micro_batch: int, exchange: Exchange, after: int | None
    ) -> int:
        stream = "data" if exchange.dimension == "data" else kind
        op = self.template.op(
            rank, stream, kind, item.action.stage, item.layer, micro_batch,
            activity=self.template.new_activity(exchange), peer=exchange.to,
        )  # fmt: skip
        if after is not None:
            self.template.dependencies.append((op, after))
        return op

    # Data-parallel traffic

    def _buffer_free(self, run_ends: list[int], run: int) -> int | None:
        """The op that frees a parameter buffer for ``run``: there are prefetch + 1, and one when nothing overlaps."""
        buffers = 1 + (self.strategy.prefetch if self.strategy.overlap else 0)
        return run_ends[run - buffers] if run >= buffers else None

    def _gather(self, rank: int, item: _Item, after: int | None) -> int:
        exchange = Exchange("data", "all_gather", rank, -1, self.traffic.layer_bytes[item.layer], self.costs.gather_ps)
        return self._communicate(rank, "gather", item, self._served(item), exchange, after)

    def _reduce(self, rank: int, item: _Item, after: int | None) -> int:
        collective = "all_reduce" if self.strategy.partition == "none" else "reduce_scatter"
        exchange = Exchange("data", collective, rank, -1, self.traffic.layer_bytes[item.layer], self.costs.reduce_ps)
        return self._communicate(rank, "reduce", item, self._served(item), exchange, after)

    def _served(self, item: _Item) -> int:
        """The one micro-batch that a collective serves, or -1 for several."""
        single = self.scatters_runs and self.strategy.timing == "micro_batch"
        return item.action.micro_batch if single else -1

    def _gather_updated(self, rank: int, items: list[_Item], reductions: list[int]) -> None:
        # The update needs the norm of all gradients, so no new parameter leaves before the last reduction.
        before = reductions
        for item in items:
            exchange = Exchange("data", "all_gather", rank, -1, self.traffic.layer_bytes[item.layer], self.costs.gather_ps)
            gather = self._communicate(rank, "gather", item, -1, exchange, after=None)
            self.template.dependencies += [(gather, op) for op in before]
            before = [gather]

    # Pipeline traffic

    def _gathers_message(self, rank: int, action: Action) -> bool:
        source = action.stage + (-1 if action.kind == "F" else 1)
        crosses = 0 <= source < self.schedule.stages and self.schedule.placement[source] != rank
        return crosses and self.traffic.message_bytes < self.traffic.activation_bytes

    def _gather_message(self, rank: int, item: _Item) -> int:
        exchange = Exchange("tensor", "all_gather", rank, -1, self.traffic.activation_bytes)
        return self._communicate(rank, "tensor", item, item.action.micro_batch, exchange, after=None)

    def _want_inputs(self, op: int, action: Action) -> None:
        kind, stage, micro_batch = action
        if kind == "F" and stage > 0:
            self.wanted.append((op, action, Action("F", stage - 1, micro_batch)))
        if kind == "B":
            self.wanted.append((op, action, Action("F", stage, micro_batch)))
            if stage < self.schedule.stages - 1:
                self.wanted.append((op, action, Action("B", stage + 1, micro_batch)))

    def _deliver(self, rank: int, item: _Item, result: int) -> None:
        """Note the result, and send it when the next stage lies on another rank."""
        kind, stage, micro_batch = item.action
        self.produced[item.action] = result
        target = stage + (1 if kind == "F" else -1)
        if not 0 <= target < self.schedule.stages or self.schedule.placement[target] == rank:
            return
        to = self.schedule.placement[target]
        exchange = Exchange("pipeline", "send", rank, to, self.traffic.message_bytes)
        send = self._communicate(rank, "send", item, micro_batch, exchange, after=result)
        # Receives are posted ahead, in the order in which the peer sends.
        self.received[Action(kind, target, micro_batch)] = self.template.op(
            to, "recv", "recv", target, item.layer, micro_batch, activity=self.template.activity[send], peer=rank
        )

    def connect(self) -> None:
        """Tie each action's first op to its inputs, once all ranks are lowered."""
        for op, action, source in self.wanted:
            crosses = source.stage != action.stage and self.schedule.placement[source.stage] != self.schedule.placement[action.stage]
            on = self.received.get(action) if crosses else self.produced.get(source)
            if on is None:
                raise InputError(f"schedule {self.schedule.name}: {action} uses the result of {source}, which no rank runs")
            self.template.dependencies.append((op, on))
