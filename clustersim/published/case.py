"""One published figure, and how it is predicted: the experiments to simulate, and the figure read from their summaries.

>>> keys = experiment("megatron-2021", model="megatron-1.7b")
>>> case = Case("example", TEST, "one GPU", "iteration time", "s", 2.0, (keys,), of("step_time_s"))
>>> case.predicted([{"step_time_s": 1.9}]), round(error(case.measured, 1.9), 3)
(1.9, -0.05)
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
CALIBRATION, TEST = "calibration", "test"

Keys = Mapping[str, Any]
"""An experiment as its file would hold it; names of files in it are relative to ``DATA``."""
Row = Mapping[str, str]
Summary = Mapping[str, Any]
Predicted = Callable[[Sequence[Summary]], float]


@dataclass(frozen=True)
class Case:
    """A published figure. ``predicted`` takes the summaries of ``experiments``, in their order, and gives it in the same ``unit``.

    ``use`` says whether costs may be fitted to it (``calibration``), or never (``test``).
    """

    source: str
    use: str
    case: str
    quantity: str
    unit: str
    measured: float
    experiments: tuple[Keys, ...]
    predicted: Predicted


@dataclass(frozen=True)
class LeftOut:
    """A published row for which there is no prediction, and why."""

    source: str
    case: str
    reason: str


def rows(name: str) -> list[Row]:
    """The rows of a file of measurements; every field is text, and empty where the source says nothing."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def experiment(software: str | None, **keys: Any) -> Keys:
    """The keys of an experiment on a generation of software, None where all times are given.

    >>> experiment("megatron-2021", model="gpt3-175b")
    {'software': 'megatron-2021', 'model': 'gpt3-175b'}
    """
    return {"software": software, **keys} if software else keys


def gpt(row: Row, vocab: int) -> Keys:
    """The plain GPT of a row with ``layers``, ``hidden`` and ``heads``.

    >>> gpt({"layers": "24", "hidden": "2304", "heads": "24"}, 51200)
    {'layers': 24, 'hidden': 2304, 'heads': 24, 'vocab': 51200}
    """
    return {**{key: whole(row[key]) for key in ("layers", "hidden", "heads")}, "vocab": vocab}


def whole(text: str) -> int:
    """A whole number that may be written as ``32.0``."""
    return int(float(text))


def of(key: str, scale: float = 1.0) -> Predicted:
    """A figure of the first summary, times ``scale``."""
    return lambda summaries: summaries[0][key] * scale


def error(measured: float, predicted: float) -> float:
    """Relative error of a prediction; where 0 was measured (of yes and no), the difference.

    >>> error(2.0, 3.0), error(0, 1), error(0, 0)
    (0.5, 1.0, 0.0)
    """
    return predicted / measured - 1 if measured else float(predicted)
