"""The experiment's ``cost:`` and ``software:``: how long compute takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clustersim import document
from clustersim.cluster.spec import Gpu
from clustersim.compute.calibration import Calibration, allowed_software, load_calibration, read_calibration
from clustersim.compute.durations import Analytic, Durations, Measured
from clustersim.compute.kernels import Kernel
from clustersim.compute.tables import read_table
from clustersim.document import Section
from clustersim.errors import InputError

PEAK = "peak"
FIXED_KEYS = ("forward", "backward", "input", "weight", "reduce", "gather", "optimizer")
_EXPECTED = f"{PEAK}, a path to a calibration file, or a mapping with table, with trace, or with forward and backward"
_MEASURED = ("table", "trace")


@dataclass(frozen=True)
class FixedCost:
    """Seconds per layer and micro-batch, of one reduction or gather of a layer (None: the links decide), of a rank's optimizer."""

    forward_s: float
    backward_s: float
    input_s: float
    weight_s: float
    reduce_s: float | None
    gather_s: float | None
    optimizer_s: float


class Cost(NamedTuple):
    """``kind`` is fixed times, ``"peak"``, or None: then ``durations`` of kernels under a ``calibration``, or the GPU's efficiency where
    both are None.
    """

    kind: str | FixedCost | None
    calibration: Calibration | None = None
    durations: Durations | None = None


def read_cost(top: Section, gpu: Gpu, precision: str, near: Path) -> Cost:
    """InputError where the keys exclude one another, or nothing is known of the GPU under the software."""
    value = top.raw("cost", None)
    if isinstance(value, dict) and not any(key in value for key in _MEASURED):
        _no_software(top, "fixed times do not depend on it")
        return Cost(_fixed(top))
    if value == PEAK:
        _no_software(top, "the peak does not depend on it")
        return Cost(PEAK)
    if value is not None and not isinstance(value, (dict, str)):
        top.refuse("cost", f"expected {_EXPECTED}, got {document.shown(value)}")
    calibration = _calibration(top, gpu, value if isinstance(value, str) else None, near)
    if not isinstance(value, dict):
        return Cost(None, calibration, None if calibration is None else Analytic(calibration, precision))
    section = top.section("cost", _MEASURED)
    key = "table" if "table" in section else "trace"
    if calibration is None:
        section.error(key, f"what it does not have needs a calibration, and cluster's {gpu.name} has an efficiency instead")
    if all(key in section for key in _MEASURED):
        section.error("trace", "excludes table; allowed: one of them")
    what = {"table": "a path to a CSV of measured kernels", "trace": "a path to a PyTorch profiler trace with shapes"}[key]
    path = _file(top, section.text(key, expected=what), near, f"cost.{key}")
    return Cost(None, calibration, Measured(_read_measured(key, path, precision), Analytic(calibration, precision)))


def _read_measured(key: str, path: Path, precision: str) -> Mapping[Kernel, float]:
    if key == "table":
        return read_table(path, precision)
    from clustersim.importers.kineto_shapes import read_trace_products

    return read_trace_products(path, precision)


def _calibration(top: Section, gpu: Gpu, path: str | None, near: Path) -> Calibration | None:
    if path is not None:
        _no_software(top, "the calibration file names its own")
        return read_calibration(document.load(_file(top, path, near, "cost")), gpu)
    if gpu.efficiency is not None:
        _no_software(top, f"the GPU {gpu.name} has one efficiency for everything; leave gpu.efficiency out of the cluster file")
        return None
    software = top.text("software", gpu.software, "the name of a generation of software")
    if software is None:
        top.error("software", f"missing, and {gpu.name} has no usual one; allowed: {allowed_software(gpu.name)}")
    try:
        return load_calibration(gpu.name, software, gpu)
    except InputError as error:
        top.refuse("software", str(error))


def _no_software(top: Section, why: str) -> None:
    if "software" in top:
        top.error("software", f"has no effect here: {why}")


def _file(top: Section, text: str, near: Path, key: str) -> Path:
    for path in (near / text, Path(text)):
        if path.is_file():
            return path
    top.error(key, f"no such file: {document.clipped(text)}; allowed: {_EXPECTED}")


def _fixed(top: Section) -> FixedCost:
    cost = top.section("cost", FIXED_KEYS)
    forward_s, backward_s = cost.quantity("forward", "time"), cost.quantity("backward", "time")
    return FixedCost(
        forward_s=forward_s,
        backward_s=backward_s,
        input_s=cost.quantity("input", "time", backward_s / 2),
        weight_s=cost.quantity("weight", "time", backward_s / 2),
        reduce_s=cost.quantity("reduce", "time", None),
        gather_s=cost.quantity("gather", "time", None),
        optimizer_s=cost.quantity("optimizer", "time", 0.0),
    )
