"""All orders of the work, by name: those of this package, and those that other packages register.

A package adds one by an entry point of the group ``clustersim.schedules`` that names an :class:`~clustersim.schedule.order.Order`;
``schedules/README.md`` has an example.

>>> ORDERS["1f1b"].makespan
'(m+p-1)(F+B)'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from clustersim.errors import InputError
from clustersim.schedule.actions import Action, Actions, Overlap, Schedule
from clustersim.schedule.dual_pipe import DUAL_PIPE
from clustersim.schedule.layered import LAYERED
from clustersim.schedule.one_f_one_b import ONE_F_ONE_B
from clustersim.schedule.order import Order
from clustersim.schedule.v_shape import V_SHAPE
from clustersim.schedule.validator import faults
from clustersim.schedule.waves import WAVES
from clustersim.schedule.zero_bubble import ZERO_BUBBLE

GROUP = "clustersim.schedules"
_OWN = {**ONE_F_ONE_B, **LAYERED, **ZERO_BUBBLE, **V_SHAPE, **DUAL_PIPE, **WAVES}
_PRESETS = ("standard", "lga", "mpp", "pipedream-2bw")


def registered(points: Iterable[EntryPoint]) -> dict[str, Order]:
    """The orders of other packages. InputError for one that cannot be used."""
    found: dict[str, Order] = {}
    for point in sorted(points, key=lambda one: one.name):
        place = f"entry point {point.name} = {point.value} of {GROUP}"
        if point.name in _OWN or point.name in _PRESETS or point.name in found:
            raise InputError(f"{place}: there is a schedule {point.name} already; allowed: another name")
        try:
            order = point.load()
        except Exception as error:  # whatever the other package does
            raise InputError(f"{place}: cannot be loaded: {type(error).__name__}: {error}") from None
        if not isinstance(order, Order):
            raise InputError(f"{place}: expected a clustersim.schedule.order.Order, got {type(order).__name__}")
        found[point.name] = order
    return found


_OTHERS = registered(entry_points(group=GROUP))
ORDERS: Mapping[str, Order] = MappingProxyType({**_OWN, **_OTHERS})


def run_order(name: str, placement: tuple[int, ...], m: int, options: Mapping[str, int]) -> Actions:
    """The actions of an order. ValueError when it does not take these numbers, or is another package's and fails."""
    if name in _OWN:
        return _OWN[name].run(placement, m, **options)
    try:
        actions = _OTHERS[name].run(placement, m, **options)
        return tuple(tuple(step if isinstance(step, Overlap) else Action(*step) for step in row) for row in actions)
    except ValueError:
        raise
    except Exception as error:  # whatever the other package does
        raise ValueError(f"order {name} of another package fails: {type(error).__name__}: {error}; allowed: what its author says") from None


def check_others(order: str, schedule: Schedule) -> None:
    """ValueError for the first fault in a schedule by an order of another package."""
    if order in _OWN:
        return
    for fault in faults(schedule):
        where = f"rank {fault.rank}" + ("" if fault.position is None else f", position {fault.position}")
        raise ValueError(f"order {order} of another package: {where}: {fault.action}: {fault.message}")
