"""What a rank holds in memory: its share of the training state for good, activations from their forward to their backward.

Buffers of partitioned parameters and gradients come with their collectives, in :mod:`clustersim.program.data_pass`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clustersim.program.compute_pass import Work
from clustersim.program.kinds import PART_CODE
from clustersim.program.template import Template

_HEAD = PART_CODE["head"]


@dataclass(frozen=True)
class Sizes:
    """Bytes on one rank. By pipeline rank ``state``: kinds that stay for the whole step.

    Of one pass (a micro-batch, or a slice of one): ``kept_bytes`` of a layer from its forward to the end of its backward,
    ``working_bytes`` of the layer whose backward runs, computed again, and ``head_bytes`` of the logits and the loss.
    """

    state: Sequence[Mapping[str, int]]
    kept_bytes: int
    working_bytes: int
    head_bytes: int


def add_memory(template: Template, rank: int, work: Sequence[Work], sizes: Sizes, layers: int) -> None:
    """Append what the rank holds: the state, and the activations of its work.

    The weight gradient needs the activations too: a backward in two parts frees them at the end of the second.

    >>> from clustersim.program.items import Item
    >>> from clustersim.schedule.actions import Action
    >>> template = Template()
    >>> ops = [template.op(0, "compute", kind, 0, 0, 0) for kind in ("forward", "input", "weight")]
    >>> work = [Work(Item(Action(kind, 0, 0), 0, True, True, op, op), (op,), op, op, (op,)) for kind, op in zip("FIW", ops)]
    >>> add_memory(template, 0, work, Sizes([{"weights": 100}], 7, 0, 0), layers=2)
    >>> [(held.begin, held.end, held.size_bytes) for held in template.held]
    [(-1, -1, 100), (0, 2, 7)]
    """
    for what, size in sizes.state[rank].items():
        template.hold(rank, what, size)
    forwards: dict[tuple[int, int, int], Work] = {}  # whose backward has not ended
    for one in work:
        kind, stage, micro_batch = one.item.action
        key = stage, micro_batch, one.item.layer
        if kind == "F":
            forwards[key] = one
            continue
        if sizes.working_bytes:
            template.hold(rank, "activations", sizes.working_bytes, _first_of_layer(template, one), one.compute)
        if kind in "BW":
            forward = forwards.pop(key)
            template.hold(rank, "activations", sizes.kept_bytes, forward.first, one.compute)
            if one.item.layer == layers - 1:
                # The head is the last of the forward and the first of the backward; without ops of its own it counts with the layer.
                template.hold(rank, "activations", sizes.head_bytes, forward.compute, one.first)


def _first_of_layer(template: Template, work: Work) -> int:
    """The first compute op of a backward behind that of the head."""
    return next(op for op in range(work.first, work.compute + 1) if template.activity[op] < 0 and template.part[op] != _HEAD)
