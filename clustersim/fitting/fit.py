"""Least squares on the logarithm of predicted / measured: an error of 10 % counts the same in a second as in a microsecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from clustersim.compute.calibration import Calibration
from clustersim.errors import InputError
from clustersim.fitting.parameters import Parameter, put, value_of
from clustersim.fitting.rows import Measurements

Progress = Callable[[int, float], None]
"""Trials so far, and the mean error of the last one."""

_STEP = 1e-4
"""Of the range of a figure, for derivatives: the clock counts whole picoseconds, and smaller steps would see its rounding. So near to
its bound a figure is at it."""
_TOLERANCE = 1e-6
_SEEN = 0.01
"""Per cent of the times for one per cent of a figure, root mean square over the rows: less does not determine it."""
_DIGITS = 4


@dataclass(frozen=True)
class Fit:
    """``values`` are the fitted figures in SI units, by name; ``calibration`` has them; ``predicted_s`` are its times of the rows.

    ``warnings`` name the figures that the rows do not determine.
    """

    measurements: Measurements
    calibration: Calibration
    values: dict[str, float]
    predicted_s: tuple[float, ...]
    warnings: tuple[str, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """predicted / measured - 1, by row."""
        return tuple(time_s / row.measured_s - 1 for time_s, row in zip(self.predicted_s, self.measurements.rows, strict=True))

    @property
    def mape(self) -> float:
        return sum(map(abs, self.errors)) / len(self.errors)

    @property
    def max_ape(self) -> float:
        return max(map(abs, self.errors))


def fit(measurements: Measurements, start: Calibration, wanted: Sequence[Parameter], progress: Progress | None = None) -> Fit:
    """The ``wanted`` figures that come nearest to the measurements; all others stay as in ``start``, where the search begins.

    Figures are rounded to four digits, and the errors are those of the rounded ones. InputError for more figures than rows.
    """
    if len(wanted) > len(measurements.rows):
        raise InputError(
            f"--fit: {len(wanted)} figures cannot be fitted to {len(measurements.rows)} row{'s' * (len(measurements.rows) > 1)};"
            " allowed: at most as many figures as rows"
        )
    measured = np.log([row.measured_s for row in measurements.rows])
    low, span = np.array([one.low for one in wanted]), np.array([one.high - one.low for one in wanted])
    trials = 0

    def residuals(places: np.ndarray) -> np.ndarray:
        nonlocal trials
        trials += 1
        found = np.log(measurements.predicted_s(put(start, _named(wanted, low + span * (places - 1))))) - measured
        if progress:
            progress(trials, float(np.abs(np.expm1(found)).mean()))
        return found

    # Each figure as its place between its bounds, plus one: steps for derivatives are then parts of the range, at 0 as elsewhere.
    begin = 1 + np.clip((np.array([value_of(start, one.name) for one in wanted]) - low) / span, _STEP, 1 - _STEP)
    found = least_squares(
        residuals, begin, bounds=(1.0, 2.0), x_scale="jac", diff_step=_STEP, xtol=_TOLERANCE, ftol=_TOLERANCE**2, gtol=_TOLERANCE**2
    )
    places = np.where(found.x - 1 < _STEP, 1.0, np.where(2 - found.x < _STEP, 2.0, found.x))
    reached = low + span * (places - 1)
    values = {name: float(f"{value:.{_DIGITS}g}") for name, value in _named(wanted, reached).items()}
    calibration = put(start, values)
    doubts = _doubts(wanted, reached, found.jac / span)
    return Fit(measurements, calibration, values, tuple(measurements.predicted_s(calibration)), tuple(doubts))


def _named(wanted: Sequence[Parameter], values: np.ndarray) -> dict[str, float]:
    return {one.name: float(value) for one, value in zip(wanted, values, strict=True)}


def _doubts(wanted: Sequence[Parameter], values: np.ndarray, slopes: np.ndarray) -> list[str]:
    """A figure at its bound, or one that can move while the others make up for it. ``slopes``: by row and figure, of the logarithms."""
    warnings = []
    moved = slopes * values
    for place, one in enumerate(wanted):
        own, others = moved[:, place], np.delete(moved, place, axis=1)
        rest = own - others @ np.linalg.lstsq(others, own, rcond=None)[0] if len(wanted) > 1 else own
        if values[place] in (one.low, one.high):
            warnings.append(f"{one.name} is at the end of its range, {values[place]:g}: the rows ask for a value beyond it")
        elif _size(rest) < _SEEN:
            others_do = " once the other fitted figures make up for it" if _size(own) >= _SEEN else ""
            warnings.append(f"{one.name} is not determined by these rows: 1 % of it moves them by less than {_SEEN:g} %{others_do}")
    return warnings


def _size(slopes: np.ndarray) -> float:
    return float(np.sqrt(np.mean(slopes**2)))
