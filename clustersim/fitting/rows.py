"""The rows that a calibration is fitted to: measured kernels, or measured times of experiments.

A CSV with ``time_us`` has kernels (:mod:`clustersim.compute.tables`). One with ``measured_s`` or ``measured_ms`` has experiments: a
column for each key, named by its path (``parallel.tensor``), over the keys of a base; ``quantity`` says what was timed (``step`` by
default, ``layer_forward``, ``layer_backward``), ``source`` and ``case`` are for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from clustersim import document, presets
from clustersim.cluster.gpus import find_gpu
from clustersim.cluster.spec import Gpu
from clustersim.compute.calibration import Calibration
from clustersim.compute.durations import Analytic
from clustersim.compute.kernels import Kernel
from clustersim.compute.roofline import kernel_s
from clustersim.compute.software import load_software
from clustersim.compute.tables import TIME, positive, read_csv, read_kernels
from clustersim.document import Document
from clustersim.errors import InputError
from clustersim.experiment import KEYS, SHORT_FORMS, Experiment, parse
from clustersim.fitting.times import QUANTITIES, STEP, check_layers, times_s

_SECONDS = {"measured_s": 1.0, "measured_ms": 1e-3}
_OWN = ("quantity", *_SECONDS, "source", "case")
_LONGEST = 1e9


@dataclass(frozen=True)
class KernelOf:
    """A kernel in a precision."""

    kernel: Kernel
    precision: str

    def predicted_s(self, calibration: Calibration) -> float:
        return kernel_s(self.kernel, calibration, self.precision)


@dataclass(frozen=True)
class TimeOf:
    """What is timed of an experiment, by the place of the experiment in :attr:`Measurements.experiments`."""

    experiment: int
    quantity: str


@dataclass(frozen=True)
class Row:
    """A measurement: ``place`` is its line, ``case`` what it says of itself."""

    place: str
    case: str
    source: str
    measured_s: float
    subject: KernelOf | TimeOf


@dataclass(frozen=True)
class Measurements:
    """The rows of a file. ``gpu`` is what they were measured on, ``software`` under which generation; each experiment is there once."""

    gpu: Gpu
    software: str
    rows: tuple[Row, ...]
    experiments: tuple[Experiment, ...] = ()

    def predicted_s(self, calibration: Calibration) -> list[float]:
        """Seconds of each row; every experiment is simulated once for what is timed of it."""
        found: dict[tuple[int, str], float] = {}
        for row in self.rows:
            if isinstance(row.subject, TimeOf) and (row.subject.experiment, row.subject.quantity) not in found:
                number = row.subject.experiment
                times = times_s(under(self.experiments[number], calibration), row.subject.quantity)
                found |= {(number, quantity): time_s for quantity, time_s in times.items()}
        return [
            found[row.subject.experiment, row.subject.quantity] if isinstance(row.subject, TimeOf) else row.subject.predicted_s(calibration)
            for row in self.rows
        ]


def under(experiment: Experiment, calibration: Calibration) -> Experiment:
    """The experiment with kernels as long as the calibration says, on its own cluster's GPU."""
    own = replace(calibration, gpu=experiment.cluster.gpu)
    return replace(experiment, cost=None, calibration=own, durations=Analytic(own, experiment.precision))


def read_rows(path: Path, gpu: str | None, software: str | None, base: str | None) -> Measurements:
    """The measurements in a CSV. ``gpu`` and ``software`` are needed where the rows do not say them, ``base`` is an experiment file.

    InputError, with the line, for whatever is wrong.
    """
    fields, rows = read_csv(path)
    timed = [field for field in fields if field in (TIME, *_SECONDS)]
    if len(timed) != 1:
        got = ", ".join(timed) or "none"
        raise InputError(
            f"{path}:1: expected one column of times, got {got}; allowed: {TIME} of kernels, or measured_s or measured_ms of experiments"
        )
    if software is not None:
        with _at("--software"):
            load_software(software)
    if timed == [TIME]:
        if base is not None:
            raise InputError(f"--experiment: {path} has measured kernels, which depend on no experiment")
        return _kernels(path, gpu, software)
    return _experiments(path, fields, rows, gpu, software, base)


def _kernels(path: Path, gpu_name: str | None, software: str | None) -> Measurements:
    if gpu_name is None:
        raise InputError(f"{path}: does not say on which GPU the kernels were measured; give --gpu, for example --gpu A100-SXM4-80GB")
    gpu = _gpu(gpu_name)
    rows = []
    for row in read_kernels(path):
        precision = row.precision or ("bf16" if "bf16" in gpu.peak_flop_s else "fp16")
        if precision not in gpu.peak_flop_s:
            raise InputError(f"{row.place}: precision: {gpu.name} has no peak for {precision}; allowed: {', '.join(gpu.peak_flop_s)}")
        rows.append(Row(row.place, row.case or _described(row.kernel), row.source, row.time_s, KernelOf(row.kernel, precision)))
    return Measurements(gpu, _software(software, gpu, f"{path}"), tuple(rows))


def _described(kernel: Kernel) -> str:
    """``matmul 4096 x 4096 x 1024``."""
    return f"{type(kernel).__name__.lower()} {' x '.join(f'{size:g}' for size in kernel)}"


def _gpu(name: str) -> Gpu:
    try:
        gpu = find_gpu(name)
    except InputError as error:
        raise InputError(f"--gpu: {error}") from None
    return gpu


def _software(name: str | None, gpu: Gpu, place: str) -> str:
    found = name or gpu.software
    if found is None:
        raise InputError(f"{place}: {gpu.name} has no usual software; give --software, for example --software megatron-2024")
    with _at(place):
        return load_software(found).name


def _experiments(
    path: Path, fields: Sequence[str], rows: Sequence[tuple[str, dict[str, str]]], gpu: str | None, software: str | None, base: str | None
) -> Measurements:
    keys = [field for field in fields if field not in _OWN]
    for key in keys:
        if key.partition(".")[0] not in KEYS:
            allowed = (*_OWN, *KEYS)
            hint = f"{document.nearest(key, allowed)}; allowed: {', '.join(allowed)} and paths below them"
            raise InputError(f"{path}:1: unknown column {document.shown(key)}{hint}")
    near, below = path.parent, None
    if base is not None:
        file = presets.find(base, "schedules", Path(), "experiment", "--experiment")
        near, below = file.parent, document.load(file)
    found: dict[str, tuple[int, Experiment]] = {}
    measured, expected = [], None
    for place, row in rows:
        read = (below or Document({}, place)).override([f"{key}={row[key]}" for key in keys if row[key]], SHORT_FORMS, option=f"{place}:")
        name = json.dumps(read.data, sort_keys=True)
        if name not in found:
            experiment, own = _parsed(read, near, place, software)
            pair = experiment.cluster.gpu.name, own
            expected = expected or (gpu or pair[0], software or pair[1])
            if pair != expected:
                this, wanted = (" under ".join(one) for one in (pair, expected))
                raise InputError(f"{place}: is of {this}, expected {wanted}; allowed: rows of one GPU and one software")
            found[name] = (len(found), experiment)
        measured.append(_row(place, row, *found[name]))
    assert expected is not None  # there is a row
    experiments = tuple(experiment for _, experiment in found.values())
    return Measurements(experiments[0].cluster.gpu, expected[1], tuple(measured), experiments)


def _parsed(read: Document, near: Path, place: str, software: str | None) -> tuple[Experiment, str]:
    """The experiment, at the GPU's peak until a calibration is tried, and its software: a pair needs no calibration to be fitted."""
    with _at(place):
        if "cost" in read.data:
            read.error("cost", "is what is fitted; allowed: to leave it out")
        own = read.section("", KEYS).text("software", software, "the name of a generation of software")
        experiment = parse(read.override(["software=", "cost=peak"]), near)
        gpu = experiment.cluster.gpu
        if gpu.multiprocessors is None:
            read.error("cluster", f"does not say how many multiprocessors {gpu.name} has; give gpu.multiprocessors")
        return experiment, _software(own, gpu, place)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Errors in here name the row."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None


def _row(place: str, row: dict[str, str], number: int, experiment: Experiment) -> Row:
    quantity = row.get("quantity") or STEP
    if quantity not in QUANTITIES:
        hint = f"{document.nearest(quantity, QUANTITIES)}; allowed: {', '.join(QUANTITIES)}"
        raise InputError(f"{place}: quantity: unknown value {document.shown(quantity)}{hint}")
    if quantity != STEP:
        with _at(place):
            check_layers(experiment)
    ((column, scale),) = [(column, scale) for column, scale in _SECONDS.items() if column in row]
    measured = positive(row[column], f"{place}: {column}", _LONGEST)
    named = row.get("case") or quantity
    case = named if quantity in (STEP, named) else f"{named}, {quantity}"
    return Row(place, case, row.get("source", ""), measured * scale, TimeOf(number, quantity))
