"""All orders of the work, by name.

>>> ORDERS["1f1b"].makespan
'(m+p-1)(F+B)'
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from clustersim.schedule.dual_pipe import DUAL_PIPE
from clustersim.schedule.layered import LAYERED
from clustersim.schedule.one_f_one_b import ONE_F_ONE_B
from clustersim.schedule.order import Order
from clustersim.schedule.v_shape import V_SHAPE
from clustersim.schedule.waves import WAVES
from clustersim.schedule.zero_bubble import ZERO_BUBBLE

ORDERS: Mapping[str, Order] = MappingProxyType({**ONE_F_ONE_B, **LAYERED, **ZERO_BUBBLE, **V_SHAPE, **DUAL_PIPE, **WAVES})
