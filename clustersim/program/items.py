"""The first pass of lowering: the actions of a rank become a row of items, one for each layer of each action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from clustersim.schedule.actions import Action, Overlap, Schedule


class Item(NamedTuple):
    """One layer of one action; ``first`` and ``last`` in its action.

    ``unit`` is the place of the action in the rank's order; a pair that runs as one is one unit. ``run`` numbers the stretches of work
    that one gather of the layer's parameters serves, or one scatter of its gradients.
    """

    action: Action
    layer: int
    first: bool
    last: bool
    unit: int
    run: int


def items_of(schedule: Schedule, rank: int, stages: Sequence[range], by_micro_batch: bool) -> list[Item]:
    """The items of a rank in the order of its compute; the layers of a pair take turns. ``stages``: the layers of each.

    >>> schedule = Schedule("x", 1, (0,), ((Action("F", 0, 0), Action("B", 0, 0)),))
    >>> [(item.action.kind, item.layer, item.run) for item in items_of(schedule, 0, [range(2)], False)]
    [('F', 0, 0), ('F', 1, 1), ('B', 1, 2), ('B', 0, 3)]
    """
    items: list[Item] = []
    run_of: dict[tuple[Any, ...], int] = {}  # of the runs that the last unit was part of
    runs = 0
    for unit, one in enumerate(schedule.actions[rank]):
        rows = [_layers(schedule, action, stages) for action in (one if isinstance(one, Overlap) else (one,))]
        seen: dict[tuple[Any, ...], int] = {}
        for action, layer, first, last in _in_turn(rows):
            # The next step has new parameters.
            served = action.micro_batch if by_micro_batch else (schedule.step(action), None)
            key = action.kind, action.stage, layer, served
            if key not in run_of:
                run_of[key], runs = runs, runs + 1
            seen[key] = run_of[key]
            items.append(Item(action, layer, first, last, unit, run_of[key]))
        run_of = seen
    return items


def _layers(schedule: Schedule, action: Action, stages: Sequence[range]) -> list[tuple[Action, int, bool, bool]]:
    """The action's layers in the order in which it runs them, and whether each is its first and last."""
    layers = stages[action.stage % schedule.stages]
    order = list(layers if action.kind == "F" else reversed(layers))
    return [(action, layer, at == 0, at == len(order) - 1) for at, layer in enumerate(order)]


def _in_turn(rows: list[list[Any]]) -> Iterator[Any]:
    return (item for together in zip_longest(*rows) for item in together if item is not None)
