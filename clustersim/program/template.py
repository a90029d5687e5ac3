"""One replica's ops, not yet tied to ranks and links: what lowering writes and :mod:`clustersim.program.instantiate` reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clustersim.program.kinds import KIND_CODE, MEMORY_CODE, PART_CODE
from clustersim.schedule.actions import Action


class Exchange(NamedTuple):
    """A kind of activity: the dimension that communicates (tensor, data, pipeline), how, on which pipeline rank, the payload in bytes.

    Along the pipeline it is between that rank and ``to``. ``fixed_ps`` replaces the links when given.
    """

    dimension: str
    collective: str
    pipeline: int
    to: int
    payload_bytes: int
    fixed_ps: int | None = None


class Held(NamedTuple):
    """Memory of a pipeline rank, by its kind's code, from the start of op ``begin`` to the end of op ``end``; -1: always, for good."""

    pipeline: int
    begin: int
    end: int
    what: int
    size_bytes: int


@dataclass
class Template:
    """Columns by op, dependencies as (op, on), ops by (pipeline rank, stream, peer), the exchange of each activity, memory."""

    pipeline: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    part: list[int] = field(default_factory=list)
    stage: list[int] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    micro_batch: list[int] = field(default_factory=list)
    duration_ps: list[int] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    activity: list[int] = field(default_factory=list)
    peer: list[int] = field(default_factory=list)
    dependencies: list[tuple[int, int]] = field(default_factory=list)
    streams: dict[tuple[int, str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    exchanges: dict[Exchange, int] = field(default_factory=dict)
    activity_exchange: list[int] = field(default_factory=list)
    joint: dict[tuple[str, int], int] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)

    def op(
        self, pipeline: int, stream: str, kind: str, stage: int, layer: int, micro_batch: int,
        part: str = "", duration_ps: int = 0, flops: float = 0.0, activity: int = -1, peer: int = -1,
    ) -> int:  # fmt: skip
        """Append an op to its stream; its number."""
        number = len(self.kind)
        self.pipeline.append(pipeline)
        self.kind.append(KIND_CODE[kind])
        self.part.append(PART_CODE[part])
        self.stage.append(stage)
        self.layer.append(layer)
        self.micro_batch.append(micro_batch)
        self.duration_ps.append(duration_ps)
        self.flops.append(flops)
        self.activity.append(activity)
        self.peer.append(peer)
        self.streams[pipeline, stream, peer].append(number)
        return number

    def exchange(
        self, pipeline: int, stream: str, kind: str, action: Action, layer: int, exchange: Exchange, after: Sequence[int] = (),
        peer: int = -1, joined: str = "",
    ) -> int:  # fmt: skip
        """Append an op that takes part in an activity: one of its own, or the one that is ``joined`` by this name for the layer."""
        key = joined, layer
        activity = self.joint[key] if joined and key in self.joint else self._new_activity(exchange)
        if joined:
            self.joint[key] = activity
        op = self.op(pipeline, stream, kind, action.stage, layer, action.micro_batch, activity=activity, peer=peer)
        self.dependencies += [(op, on) for on in after]
        return op

    def hold(self, pipeline: int, what: str, size_bytes: int, begin: int = -1, end: int = -1) -> None:
        """Append memory that the rank holds from the start of ``begin`` to the end of ``end``."""
        self.held.append(Held(pipeline, begin, end, MEMORY_CODE[what], size_bytes))

    def _new_activity(self, exchange: Exchange) -> int:
        self.activity_exchange.append(self.exchanges.setdefault(exchange, len(self.exchanges)))
        return len(self.activity_exchange) - 1
