"""One point of a sweep: the experiment with a few fields replaced, its key, and its simulation.

>>> from clustersim import document
>>> base = base_of(document.load(presets.folder("schedules") / "pipeline-shapes.yaml"), presets.folder("schedules"))
>>> row = solve(base, {"strategy.name": "standard"})
>>> row["status"], row["step_time_s"]
('ok', 176.0)
>>> solve(base, {"batch.global": "8", "parallel.data": "3"})["status"]
'infeasible'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import clustersim
from clustersim import presets, units
from clustersim.cluster.load import BASE
from clustersim.document import Document
from clustersim.errors import DeadlockError, InputError
from clustersim.experiment import SHORT_FORMS, Experiment, parse, with_strategy
from clustersim.read_strategy import FILE_SUFFIX
from clustersim.simulation import manifest, release, simulate
from clustersim.sweeps.vary import Point

STRATEGY = "strategy.name"
OK, INFEASIBLE, FAILED = "ok", "infeasible", "failed"

Assignments = Mapping[str, str]
"""For each replaced path the text of its value."""


@dataclass(frozen=True)
class Base:
    """The experiment that all points change: its document with the overrides in and without ``sweep:``, and the folder it lies in."""

    document: Document
    near: Path


def base_of(read: Document, folder: Path) -> Base:
    """The base in a document of an experiment; file names in it are relative to ``folder``."""
    return Base(replace(read, data={key: value for key, value in read.data.items() if key != "sweep"}), folder.resolve())


def texts(point: Point) -> dict[str, str]:
    """What a point puts into the experiment."""
    return {path: value.text for path, value in point.items()}


def resolved(base: Base, assignments: Assignments) -> Document:
    """The document of a point. Another strategy drops what the file says for its own; other fields are put in after that."""
    read = base.document
    if STRATEGY in assignments:
        read = with_strategy(read, assignments[STRATEGY])
    others = [f"{path}={text}" for path, text in assignments.items() if path != STRATEGY]
    return read.override(others, SHORT_FORMS, option="--vary")


def strategy_of(base: Base, assignments: Assignments) -> str:
    """The name of the strategy of a point, as it is written."""
    given = base.document.data.get("strategy")
    name = given.get("name") if isinstance(given, Mapping) else given
    return assignments.get(STRATEGY) or assignments.get("strategy") or str(name)


def key(base: Base, assignments: Assignments) -> str:
    """A hash of the resolved inputs, of the files that they name, and of the program: equal for equal results."""
    try:
        data = resolved(base, assignments).data
    except InputError as error:  # a path into what is no mapping: the row will say so
        data = {"refused": str(error)}
    content = {"inputs": data, "files": _files(data, base.near), "program": _program()}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


def digest_of_tree(folder: Path) -> str:
    """A hash of the files in a folder, by their names inside it; what Python compiled from them does not count."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in files}
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


@cache
def _program() -> str:
    """All of the package: whatever is changed in it could change a result."""
    return digest_of_tree(Path(clustersim.__file__).parent)


def solve(base: Base, assignments: Assignments) -> dict[str, Any]:
    """The summary of a point, with ``status``, ``reason``, ``version`` and ``seed``, ``warnings``; without the summary where there is none.

    ``warnings`` are those of the experiment. A point that cannot be is ``infeasible``: the summary is there all the same when only
    the memory is too small. One whose simulation goes wrong is ``failed``.
    """
    try:
        experiment = parse(resolved(base, assignments), base.near)
        return _simulated(experiment)
    except DeadlockError as error:
        return _without(FAILED, str(error))
    except InputError as error:
        return _without(INFEASIBLE, str(error))
    except MemoryError:
        return _without(FAILED, "out of memory")
    except Exception as error:  # whatever is wrong with one point, the others are still wanted
        return _without(FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _simulated(experiment: Experiment) -> dict[str, Any]:
    summary = simulate(experiment).summary
    reason = None
    if not summary["fits"]:
        needed = units.size_text(summary["peak_memory_bytes"] + summary["reserve_bytes"])
        has = units.size_text(summary["usable_memory_bytes"])
        reason = f"does not fit: a GPU needs {needed} and has {has}"
    made = manifest(experiment)
    return {
        "status": OK if summary["fits"] else INFEASIBLE, "reason": reason, "version": made["version"], "seed": made["seed"],
        "warnings": list(experiment.warnings), **summary,
    }  # fmt: skip


def _without(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason, "version": release(), "seed": None, "warnings": []}


def failed(reason: str) -> dict[str, Any]:
    """The row of a point that came to no end."""
    return _without(FAILED, reason)


def _files(data: Mapping[str, Any], near: Path) -> dict[str, str | None]:
    """What the files say on which the inputs depend, as hashes; None for one that is not there."""
    strategy = data.get("strategy")
    name = strategy.get("name") if isinstance(strategy, Mapping) else strategy
    found: dict[str, str | None] = {"cluster": None}
    cluster, model = data.get("cluster"), data.get("model")
    cluster = cluster.get(BASE) if isinstance(cluster, Mapping) else cluster
    if isinstance(cluster, str):
        with suppress(InputError):  # the point will say so
            found["cluster"] = _digest(presets.find(cluster, "topologies", near, "cluster", "cluster"))
    if isinstance(model, str) and ("/" in model or model.endswith(".json")):
        found["model"] = _digest(near / model) or _digest(Path(model))
    if isinstance(name, str) and name.endswith(FILE_SUFFIX):
        found["strategy"] = _digest(near / name)
    return found


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None
