"""The first pass of lowering: the actions of a rank become a row of items, one for each layer of each action."""

from __future__ import annotations

from typing import NamedTuple

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


def items_of(schedule: Schedule, rank: int, layers: int, by_micro_batch: bool) -> list[Item]:
    """The items of a rank in the order of its compute; the layers of a pair take turns.

    >>> schedule = Schedule("x", 1, (0,), ((Action("F", 0, 0), Action("B", 0, 0)),))
    >>> [(item.action.kind, item.layer, item.run) for item in items_of(schedule, 0, 2, False)]
    [('F', 0, 0), ('F', 1, 1), ('B', 1, 2), ('B', 0, 3)]
    """
    per_stage = layers // schedule.stages
    items: list[Item] = []
    run_of: dict[tuple, int] = {}  # of the runs that the last unit was part of
    runs = 0
    for unit, one in enumerate(schedule.actions[rank]):
        row = _in_turn([_layers(schedule, action, per_stage) for action in (one if isinstance(one, Overlap) else (one,))])
        seen: dict[tuple, int] = {}
        for action, layer, position in row:
            key = action.kind, action.stage, layer, action.micro_batch if by_micro_batch else None
            if key not in run_of:
                run_of[key], runs = runs, runs + 1
            seen[key] = run_of[key]
            items.append(Item(action, layer, position == 0, position == per_stage - 1, unit, run_of[key]))
        run_of = seen
    return items


def _layers(schedule: Schedule, action: Action, per_stage: int) -> list[tuple[Action, int, int]]:
    """The action's layers in the order in which it runs them, with their position."""
    begin = action.stage % schedule.stages * per_stage
    layers = range(begin, begin + per_stage)
    return [(action, layer, position) for position, layer in enumerate(layers if action.kind == "F" else reversed(layers))]


def _in_turn(rows: list[list]) -> list:
    return [item for together in zip(*rows, strict=True) for item in together]
