"""What to sweep, from the experiment file (its section ``sweep``) and from the caller, who has the last word.

>>> made = read_plan("pipeline-shapes", ["strategy.name=standard,mpp", "batch.global=4..16"])
>>> [field.path for field in made.plan.fields], made.metric
(['strategy.name', 'batch.global'], None)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clustersim import document, presets
from clustersim.document import Document, Section, clipped, nearest, shown
from clustersim.errors import InputError
from clustersim.experiment import SHORT_FORMS, SWEEP_KEYS
from clustersim.read_strategy import FILE_SUFFIX
from clustersim.schedule.strategy import PRESETS
from clustersim.sweeps.points import STRATEGY, base_of
from clustersim.sweeps.run import Plan
from clustersim.sweeps.vary import EXAMPLE, Field, field_of, parse_field, split

METRIC = "step_time_s"
TOLERANCE_PERCENT = 5.0


@dataclass(frozen=True)
class Settings:
    """The plan, the one figure of a step that pictures are to show (None: the usual ones), and what the file is called."""

    plan: Plan
    metric: str | None
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
    fields = _by_path(_of_file(read, section), f"{path}: sweep.vary") | _by_path(_given(vary), "--vary")
    _check_paths(fields)
    _check_strategies(fields.get(STRATEGY))
    if not fields and not tornado:
        raise InputError(f"--vary: nothing to vary; expected for example --vary {EXAMPLE}, or a section `sweep: {{vary: ...}}` in {path}")
    percent = tolerance_percent or section.number("tolerance_percent", TOLERANCE_PERCENT, high=1000)
    zipped = zipped or section.boolean("zip", False)
    # Side by side a value may come again with another one of the other fields.
    varied = tuple(field if zipped else field.distinct() for field in fields.values())
    plan = Plan(base_of(read, path.parent), varied, zipped, percent / 100, knees, tornado)
    return Settings(plan, metric or section.text("metric", None, "a figure of the summary, for example step_time_s"), path.stem)


def _by_path(fields: Sequence[Field], place: str) -> dict[str, Field]:
    by_path = {field.path: field for field in fields}
    if len(by_path) < len(fields):
        paths = ", ".join(field.path for field in fields)
        raise InputError(f"{place}: a path is given twice: {paths}; allowed: once, with all of its values")
    return by_path


def _check_paths(paths: Collection[str]) -> None:
    """Of a mapping and a key inside it one would replace the other; what a sweep does is none of its points' inputs."""
    for path in paths:
        if path.partition(".")[0] == "sweep":
            raise InputError(f"--vary {clipped(path)}: what a sweep does cannot be varied; allowed: any other key of the experiment")
        inside = [other for other in paths if other.startswith(f"{path}.")]
        if inside:
            raise InputError(f"--vary: {clipped(inside[0])} is a part of {clipped(path)}; allowed: one of the two")


def _check_strategies(field: Field | None) -> None:
    """A name that no experiment can have is a slip, not a point that cannot be."""
    for value in field.values if field else ():
        if value.text not in PRESETS and not value.text.endswith(FILE_SUFFIX):
            known = f"{shown(value.text)}{nearest(value.text, tuple(PRESETS))}; allowed: {', '.join(PRESETS)}, or a .csv file"
            raise InputError(f"--vary {STRATEGY}: unknown strategy {known}")


def _given(vary: Sequence[str] | Mapping[str, Any]) -> list[Field]:
    if isinstance(vary, Mapping):
        return [_field(path, values, f"vary: {path}") for path, values in vary.items()]
    return [_in_full(parse_field(text)) for text in vary]


def _of_file(read: Document, section: Section) -> list[Field]:
    varied = section.raw("vary", {})
    if not isinstance(varied, Mapping):
        example = "{network.bandwidth: 10..400Gb/s:log8}"
        section.error("vary", f"expected a mapping from paths to values, got {shown(varied)}; for example {example}")
    return [_field(name, values, f"{read.place(f'sweep.vary.{name}')}: sweep.vary.{name}") for name, values in varied.items()]


def _field(path: str, values: Any, place: str) -> Field:
    if not isinstance(values, (list, tuple)):
        return _in_full(field_of(path, split(_text(values, place)), place))
    return _in_full(field_of(path, [_text(value, place) for value in values], place))


def _in_full(field: Field) -> Field:
    """``strategy=lga`` is short for ``strategy.name=lga``, as in a file; ``strategy={name: lga}`` stays what it is."""
    short = field.path == "strategy" and not any(value.text.startswith("{") for value in field.values)
    return replace(field, path=STRATEGY) if short else field


def _text(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{place}: expected values, ranges or a list of them, got {shown(value)}; for example {clipped(EXAMPLE)}")
    return str(value)
