"""The figures of a calibration by their keys in its file: what they are, how far a fit may move them, how they are put in.

>>> from clustersim.compute.calibration import load_calibration
>>> a100 = load_calibration("A100-SXM4-80GB", "megatron-2022")
>>> changed = put(a100, {"matmul_efficiency": 0.5, "attention.forward.head_128": 0.25})
>>> changed.matmul_efficiency, changed.attention_forward[128], changed.ramp == a100.ramp
(0.5, 0.25, True)
>>> value_of(changed, "attention.forward.head_128")
0.25
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clustersim.compute.calibration import HEAD_SIZES, Calibration
from clustersim.document import nearest, shown
from clustersim.errors import InputError

_WAYS = ("forward", "backward")


@dataclass(frozen=True)
class Parameter:
    """``field`` of the calibration, with the head size in it where it has one, and the least and greatest value that a fit tries."""

    name: str
    field: str
    low: float
    high: float
    head_size: int | None = None

    @property
    def is_time(self) -> bool:
        return self.field.endswith("_s")


def _shares(*names: str) -> list[Parameter]:
    return [Parameter(name, name, 0.01, 1.0) for name in names]


PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        *_shares("matmul_efficiency", "fp8_efficiency", "memory_efficiency"),
        Parameter("ramp", "ramp", 1.0, 5000.0),
        *_shares("unaligned"),
        Parameter("overhead", "overhead_s", 0.0, 1e-4),
        Parameter("launch", "launch_s", 0.0, 1e-4),
        *(
            Parameter(f"attention.{way}.{key}", f"attention_{way}", 0.01, 1.0, head_size=size)
            for way in _WAYS for key, size in HEAD_SIZES.items()
        ),
        Parameter("slowdown", "slowdown", 0.0, 1.0),
    )
}  # fmt: skip


def parameters(names: Sequence[str]) -> list[Parameter]:
    """The parameters of these names. InputError for an unknown one, and one that stands twice."""
    for name in names:
        if name not in PARAMETERS:
            raise InputError(f"--fit: unknown figure {shown(name)}{nearest(name, list(PARAMETERS))}; allowed: {', '.join(PARAMETERS)}")
        if names.count(name) > 1:
            raise InputError(f"--fit: {name} stands twice; allowed: each figure once")
    return [PARAMETERS[name] for name in names]


def value_of(calibration: Calibration, name: str) -> float:
    """A figure, in SI units; of a head size that the calibration does not have, what it takes for it."""
    parameter = PARAMETERS[name]
    if parameter.head_size is not None:
        return calibration.attention(parameter.head_size, parameter.field.endswith("backward"))
    return getattr(calibration, parameter.field)


def put(calibration: Calibration, values: Mapping[str, float]) -> Calibration:
    """The calibration with these figures in place of its own; 8 bits keep their ratio to 16 bits where nothing is said of them."""
    ratio = calibration.fp8_efficiency / calibration.matmul_efficiency
    if "matmul_efficiency" in values:
        values = {"fp8_efficiency": min(1.0, ratio * values["matmul_efficiency"]), **values}
    for name, value in values.items():
        parameter = PARAMETERS[name]
        field: Any = value
        if parameter.head_size is not None:
            field = {**getattr(calibration, parameter.field), parameter.head_size: value}
        calibration = replace(calibration, **{parameter.field: field})
    return calibration
