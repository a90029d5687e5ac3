"""``clustersim calibrate``: the figures of a calibration fitted to measurements."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from clustersim import units
from clustersim.cluster.gpus import FOLDER
from clustersim.commands.output import console, print_files, print_json, print_warnings
from clustersim.compute.calibration import Calibration, load_calibration
from clustersim.compute.software import load_software
from clustersim.document import clipped, shown
from clustersim.errors import InputError
from clustersim.fitting.fit import Fit, fit
from clustersim.fitting.parameters import PARAMETERS, Parameter, parameters
from clustersim.fitting.rows import Measurements, read_rows
from clustersim.fitting.write import calibration_text
from clustersim.trace.files import check_writable, write_whole

_SUFFIXES = (".yaml", ".yml")


def calibrate(options: argparse.Namespace) -> None:
    """Fit, print the figures and the error of every row, and write the calibration where ``-o`` says."""
    wanted = parameters([name.strip() for name in options.fit.split(",")])
    output = _output(options.output)
    path = _csv(options.csv)
    measurements = read_rows(path, options.gpu, options.software, options.experiment)
    pair = f"{measurements.gpu.name}/{measurements.software}"
    like = options.like or pair
    start = _start(measurements, like, given=options.like is not None)
    done = _fitted(measurements, start, wanted)
    print_warnings(done.warnings)
    if output:
        text = calibration_text(done, like if like != pair else None, path.name, datetime.date.today().isoformat())
        write_whole(output, lambda beside: beside.write_text(text, encoding="utf-8"))
    if options.json:
        print_json(_document(done, output))
        return
    _print(done)
    if output:
        print_files([output])


def _output(given: str | None) -> Path | None:
    if given is None:
        return None
    path = Path(given)
    if path.suffix not in _SUFFIXES:
        raise InputError(f"-o {clipped(given)}: a calibration is a YAML file; allowed: a name that ends in {' or '.join(_SUFFIXES)}")
    check_writable(path.parent)
    return path


def _csv(given: str) -> Path:
    """A file, or one that comes with the product as ``GPU/NAME``."""
    shipped = FOLDER / f"{given}.csv"
    return shipped if not Path(given).exists() and shipped.is_file() else Path(given)


def _start(measurements: Measurements, like: str, given: bool) -> Calibration:
    """Where the fit begins, on the measured GPU under its software; ``given``: it was asked for."""
    software = load_software(measurements.software)
    gpu, slash, of = like.partition("/")
    try:
        if not slash:
            raise InputError(f"expected GPU/SOFTWARE, for example A100-SXM4-80GB/megatron-2022, got {shown(like)}")
        start = load_calibration(gpu, of)
    except InputError as error:
        raise InputError(f"--like: {error}" if given else f"{error}; --like GPU/SOFTWARE begins with the figures of another pair") from None
    return replace(start, gpu=measurements.gpu, software=software)


def _fitted(measurements: Measurements, start: Calibration, wanted: Sequence[Parameter]) -> Fit:
    """With a line on stderr: rewritten for each trial on a terminal, one alone elsewhere, where experiments take a while."""
    if not sys.stderr.isatty():
        if measurements.experiments:
            experiments, figures = _count(len(measurements.experiments), "experiment"), _count(len(wanted), "figure")
            print(f"simulating {experiments} for each trial of {figures}", file=sys.stderr)
        return fit(measurements, start, wanted)
    try:
        return fit(measurements, start, wanted, _progress)
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _progress(trials: int, error: float) -> None:
    print(f"\r\033[Ktrial {trials}: mean error {error:.2%}", end="", file=sys.stderr, flush=True)


def _document(done: Fit, output: Path | None) -> dict[str, Any]:
    calibration = done.calibration
    return {
        "gpu": calibration.gpu.name,
        "software": calibration.software.name,
        "fitted": {f"{name}_s" if PARAMETERS[name].is_time else name: value for name, value in done.values.items()},
        "mape": done.mape,
        "max_ape": done.max_ape,
        "rows": [
            {
                "place": row.place, "case": row.case, "source": row.source,
                "measured_s": row.measured_s, "predicted_s": time_s, "error": error,
            }
            for row, time_s, error in zip(done.measurements.rows, done.predicted_s, done.errors, strict=True)
        ],
        "warnings": list(done.warnings),
        "files": [str(output)] if output else [],
    }


def _print(done: Fit) -> None:
    calibration = done.calibration
    rows = Table(title=f"{calibration.gpu.name} under {calibration.software.name}", title_justify="left", title_style="bold")
    for head in ("line", "what", "measured", "predicted", "error (%)"):
        rows.add_column(head, justify="left" if head == "what" else "right")
    for row, time_s, error in zip(done.measurements.rows, done.predicted_s, done.errors, strict=True):
        line = row.place.rpartition(":")[2]
        rows.add_row(line, row.case, units.time_text(row.measured_s), units.time_text(time_s), f"{100 * error:+.2f}")
    console().print(rows)
    print(f"error, predicted / measured - 1: mean {100 * done.mape:.2f} %, greatest {100 * done.max_ape:.2f} %")
    for name, value in done.values.items():
        print(f"{name}: {units.time_text(value) if PARAMETERS[name].is_time else f'{value:.4g}'}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
