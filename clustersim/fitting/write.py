"""A fit as a calibration file, which ``cost:`` takes, with its errors as comments."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.compute.calibration import HEAD_SIZES, Calibration
from clustersim.fitting.fit import Fit
from clustersim.fitting.parameters import PARAMETERS
from clustersim.importers.common import remark, scalar
from clustersim.units import time_text

_MAX_SOURCE = 900
_WAYS = ("forward", "backward")


def calibration_text(done: Fit, like: str | None, file: str, date: str) -> str:
    """The YAML text of a fit to ``file``.

    With ``like`` (``GPU/SOFTWARE``) it holds what was fitted and takes the rest from there; without it, all figures.
    """
    calibration, rows = done.calibration, done.measurements.rows
    sources = "; ".join(dict.fromkeys(row.source for row in rows if row.source)) or f"measured, {file}"
    kept = [name for name in PARAMETERS if name in done.values or like is None]
    lines = [
        f"gpu: {scalar(calibration.gpu.name)}",
        f"software: {scalar(calibration.software.name)}",
        *([f"like: {scalar(like)}"] if like else []),
        f"source: {scalar(_source(sources))}",
        f"date: {date}",
        f"rows: {scalar(f'{len(rows)} of {file}')}",
        *_figures(calibration, kept),
        f"# fitted: {', '.join(done.values)}; predicted / measured - 1 in the mean {done.mape:.2%}, at most {done.max_ape:.2%}",
        *(f"# {warning}" for warning in done.warnings),
        *_errors(done),
    ]
    return "\n".join(lines) + "\n"


def _source(text: str) -> str:
    """Printable, and no longer than a value may be."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= _MAX_SOURCE else printable[: _MAX_SOURCE - 3] + "..."


def _figures(calibration: Calibration, names: Sequence[str]) -> list[str]:
    lines = []
    for name in names:
        parameter = PARAMETERS[name]
        if parameter.head_size is None:
            value = getattr(calibration, parameter.field)
            lines.append(f"{name}: {value * 1e6:.4g} us" if parameter.is_time else f"{name}: {value:.4g}")
    ways = [way for way in _WAYS if any(name.startswith(f"attention.{way}.") for name in names)]
    if ways:
        lines.append(f"attention: {{{', '.join(f'{way}: {_by_head_size(calibration, way)}' for way in ways)}}}")
    return lines


def _by_head_size(calibration: Calibration, way: str) -> str:
    known = getattr(calibration, f"attention_{way}")
    return f"{{{', '.join(f'{key}: {known[size]:.4g}' for key, size in HEAD_SIZES.items() if size in known)}}}"


def _errors(done: Fit) -> list[str]:
    return [
        f"#  {row.place.rpartition(':')[2]:>4} {time_text(row.measured_s):>10} {time_text(time_s):>10} {error:+8.2%}  {remark(row.case)}"
        for row, time_s, error in zip(done.measurements.rows, done.predicted_s, done.errors, strict=True)
    ]
