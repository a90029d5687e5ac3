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
from clustersim.schedule.dual_pipe import DUAL_PIPE
from clustersim.schedule.layered import LAYERED
from clustersim.schedule.one_f_one_b import ONE_F_ONE_B
from clustersim.schedule.order import Order
from clustersim.schedule.v_shape import V_SHAPE
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


ORDERS: Mapping[str, Order] = MappingProxyType({**_OWN, **registered(entry_points(group=GROUP))})
