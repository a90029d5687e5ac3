"""What a rank holds in memory: its share of the training state for good, activations from their forward to their backward.

Buffers of partitioned parameters and gradients come with their collectives, in :mod:`clustersim.program.data_pass`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from clustersim.program.compute_pass import Work
from clustersim.program.kinds import PART_CODE
from clustersim.program.template import Template

_HEAD = PART_CODE["head"]
NOTHING: Mapping[int, tuple[int, int]] = MappingProxyType({})


@dataclass(frozen=True)
class Sizes:
    """Bytes on one rank. By pipeline rank ``state``: kinds that stay for the whole step.

    Of one pass (a micro-batch, or a slice of one), by layer: ``kept_bytes`` from its forward to the end of its backward,
    ``working_bytes`` of the layer whose backward runs, computed again, and ``head_bytes`` of the logits and the loss, which run
    with the backward, with ``loss_bytes`` more while they do. With ``keeps_working`` what a split backward computes again stays from its
    first part to its second.
    """

    state: Sequence[Mapping[str, int]]
    kept_bytes: Sequence[int]
    working_bytes: Sequence[int]
    head_bytes: int
    loss_bytes: int = 0
    keeps_working: bool = False


def add_memory(
    template: Template, rank: int, work: Sequence[Work], sizes: Sizes, layers: int, moved: Mapping[int, tuple[int, int]] = NOTHING
) -> None:
    """Append what the rank holds: the state, and the activations of its work, but for the time that they are ``moved`` to the host.

    ``moved``: by position of a forward the ops that take them there and back.

    The weight gradient needs the activations too: a backward in two parts frees them at the end of the second.

    >>> from clustersim.program.items import Item
    >>> from clustersim.schedule.actions import Action
    >>> template = Template()
    >>> ops = [template.op(0, "compute", kind, 0, 0, 0) for kind in ("forward", "input", "weight")]
    >>> work = [Work(Item(Action(kind, 0, 0), 0, True, True, op, op), (op,), op, op, (op,)) for kind, op in zip("FIW", ops)]
    >>> add_memory(template, 0, work, Sizes([{"weights": 100}], [7, 7], [0, 0], 0), layers=2)
    >>> [(held.begin, held.end, held.size_bytes) for held in template.held]
    [(-1, -1, 100), (0, 2, 7)]
    """
    for what, size in sizes.state[rank].items():
        if size:
            template.hold(rank, what, size)
    forwards: dict[tuple[int, int, int], tuple[int, tuple[int, int] | None]] = {}  # those whose backward has not ended
    heads: dict[tuple[int, int, int], int] = {}  # the op that made the logits
    again: dict[tuple[int, int, int], int] = {}  # the op that began to compute a layer again, for both parts of its backward
    for at, one in enumerate(work):
        kind, stage, micro_batch = one.item.action
        key = stage, micro_batch, one.item.layer
        if kind == "F":
            forwards[key] = one.first, moved.get(at)
            continue
        working = sizes.working_bytes[one.item.layer]
        if working and kind == "I" and sizes.keeps_working:
            again[key] = _first_of_layer(template, one)
        elif working:
            begin = again.pop(key) if key in again else _first_of_layer(template, one)
            template.hold(rank, "activations", working, begin, one.compute)
        if kind != "W" and one.item.layer == layers - 1:
            heads[key] = one.first
            if sizes.loss_bytes:
                template.hold(rank, "activations", sizes.loss_bytes, one.first, _last_of_head(template, one))
        if kind in "BW":
            begin, away = forwards.pop(key)
            if away is not None:
                template.hold(rank, "activations", sizes.kept_bytes[one.item.layer], begin, away[0])
                begin = away[1]
            template.hold(rank, "activations", sizes.kept_bytes[one.item.layer], begin, one.compute)
            if key in heads:
                # The logits stay until the weights of the head have their gradient.
                template.hold(rank, "activations", sizes.head_bytes, heads.pop(key), _last_of_head(template, one))


def _first_of_layer(template: Template, work: Work) -> int:
    """The first compute op of a backward behind that of the head."""
    return next(op for op in range(work.first, work.compute + 1) if template.activity[op] < 0 and template.part[op] != _HEAD)


def _last_of_head(template: Template, work: Work) -> int:
    """The last op of the head in a backward; the first of all where the head has no op of its own."""
    return max((op for op in range(work.first, work.compute + 1) if template.part[op] == _HEAD), default=work.first)
