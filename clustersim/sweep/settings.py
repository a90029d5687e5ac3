"""What to sweep, from the experiment file (its section ``sweep``) and from the caller, who has the last word.

>>> made = read_plan("pipeline-shapes", ["strategy.name=standard,mpp", "batch.global=4..16"])
>>> [field.path for field in made.plan.fields], made.metric
(['strategy.name', 'batch.global'], 'step_time_s')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim import document, presets
from clustersim.document import Document, Section, clipped, shown
from clustersim.errors import InputError
from clustersim.experiment import SHORT_FORMS, SWEEP_KEYS
from clustersim.sweep.points import base_of
from clustersim.sweep.run import Plan
from clustersim.sweep.vary import EXAMPLE, Field, field_of, parse_field, split

METRIC = "step_time_s"
TOLERANCE_PERCENT = 5.0


@dataclass(frozen=True)
class Settings:
    """The plan, the figure of a step that pictures are asked for, and what the file is called."""

    plan: Plan
    metric: str
    name: str


def read_plan(
    reference: str | Path, vary: Sequence[str] | Mapping[str, Any] = (), overrides: Sequence[str] = (), *,
    zipped: bool = False, tolerance_percent: float | None = None, metric: str | None = None, knees: bool = True, tornado: bool = False,
) -> Settings:  # fmt: skip
    """The plan of an experiment file, or a shipped one by name.

    ``vary``: texts ``PATH=VALUES``, or a mapping from paths to such VALUES or to lists; a path that the file varies too is
    taken from here. InputError for whatever is wrong, and where nothing varies and no tornado is asked for.
    """
    path = presets.find(str(reference), "schedules", Path(), "experiment", "EXPERIMENT")
    read = document.load(path).override(overrides, SHORT_FORMS)
    section = read.section("sweep", SWEEP_KEYS)
    fields = {field.path: field for field in _of_file(read, section)}
    given = [_field(name, values, f"vary: {name}") for name, values in vary.items()] if isinstance(vary, Mapping) else map(parse_field, vary)
    seen = set()
    for field in given:
        if field.path in seen:
            raise InputError(f"--vary {field.path}: is given twice; allowed: each path once, with all of its values")
        seen.add(field.path)
        fields[field.path] = field
    if not fields and not tornado:
        raise InputError(f"--vary: nothing to vary; expected for example --vary {EXAMPLE}, or a section `sweep: {{vary: ...}}` in {path}")
    percent = section.number("tolerance_percent", TOLERANCE_PERCENT, high=1000) if tolerance_percent is None else _percent(tolerance_percent)
    plan = Plan(
        base_of(read, path.parent), tuple(fields.values()), zipped or section.boolean("zip", False), percent / 100, knees, tornado
    )
    return Settings(plan, metric or section.text("metric", METRIC, "a figure of the summary, for example step_time_s"), path.stem)


def _of_file(read: Document, section: Section) -> list[Field]:
    varied = section.raw("vary", {})
    if not isinstance(varied, Mapping):
        section.error("vary", f"expected a mapping from paths to values, got {shown(varied)}; for example {{network.bandwidth: 10..400Gb/s:log8}}")
    return [_field(name, values, f"{read.place(f'sweep.vary.{name}')}: sweep.vary.{name}") for name, values in varied.items()]


def _field(path: str, values: Any, place: str) -> Field:
    if not isinstance(values, (list, tuple)):
        return field_of(path, split(_text(values, place)), place)
    return field_of(path, [_text(value, place) for value in values], place)


def _text(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{place}: expected values, ranges or a list of them, got {shown(value)}; for example {clipped(EXAMPLE)}")
    return str(value)


def _percent(value: float) -> float:
    if not 0 < value <= 1000:
        raise InputError(f"--tolerance: expected a percentage above 0 and at most 1000, got {value:g}")
    return value
