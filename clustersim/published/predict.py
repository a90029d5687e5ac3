"""Predictions for published cases: each experiment simulated once, on all cores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.document import Document
from clustersim.errors import InputError
from clustersim.published.case import DATA, Case, Keys, LeftOut, error
from clustersim.published.steady import figures, parts
from clustersim.sweeps.points import base_of
from clustersim.sweeps.run import workers

Progress = Callable[[int, int], None]
"""Experiments simulated, of so many."""

_STEP_TIME = "step_time_s"


@dataclass(frozen=True)
class Prediction:
    """A case with what the simulator says to it, in the unit of the case, and the relative error."""

    case: Case
    predicted: float
    error: float

    def document(self) -> dict[str, Any]:
        """A row of ``validate --json``, and of its table."""
        names = ("source", "use", "case", "quantity", "unit", "measured")
        return {**{name: getattr(self.case, name) for name in names}, "predicted": self.predicted, "error": self.error}


def predict(cases: Sequence[Case], jobs: int | None = None, progress: Progress | None = None) -> tuple[list[Prediction], list[LeftOut]]:
    """A prediction for each case, in their order; left out is one with an experiment that the simulator refuses, with the reason.

    ``jobs`` processes simulate, by default one a core. A layer and a collective are timed here.
    """
    points = {_key(part): part for case in cases for keys in case.experiments for part in parts(keys)}
    found: dict[str, dict[str, Any]] = {}
    with workers(base_of(Document({}, "published"), DATA), jobs) as pool:
        names = list(points)
        for number, row in pool.solve([{key: json.dumps(value) for key, value in points[name].items()} for name in names]):
            found[names[number]] = row
            if progress:
                progress(len(found), len(points))
    predictions, left_out = [], []
    for case in cases:
        try:
            summaries = [figures(keys, [_simulated(found[_key(part)]) for part in parts(keys)]) for keys in case.experiments]
            predicted = float(case.predicted(summaries))
        except InputError as refused:
            left_out.append(LeftOut(case.source, f"{case.case}, {case.quantity}", str(refused)))
        else:
            predictions.append(Prediction(case, predicted, error(case.measured, predicted)))
    return predictions, left_out


def _simulated(row: dict[str, Any]) -> dict[str, Any]:
    """The summary in the row of a point; InputError where there is none."""
    if _STEP_TIME not in row:
        raise InputError(row["reason"])
    return row


def _key(keys: Keys) -> str:
    return json.dumps(keys, sort_keys=True)
