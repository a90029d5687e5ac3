"""The experiment file that the importers of jobs write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.importers.common import commented, remark

Entry = tuple[str, str]
"""A value as YAML, and where it came from."""


@dataclass(frozen=True)
class Job:
    """Keys of an experiment file in their order; ``model`` is one entry (a name) or a mapping of them."""

    source: str
    model: Entry | Mapping[str, Entry]
    cluster: Entry
    parallel: Mapping[str, Entry]
    strategy: Mapping[str, Entry]
    batch: Mapping[str, Entry]
    precision: Entry
    recompute: Entry


def experiment_text(job: Job) -> str:
    """The file, each value with a comment on its origin.

    >>> one = ("1", "by default")
    >>> job = Job("run.sh", ("gpt3-175b", "asked for"), ("ideal", "asked for"), {"data": ("4", "GPUs")}, {"name": ("standard", "")},
    ...           {"global": ("8", "--global-batch-size")}, ("bf16", "--bf16"), ("none", "by default"))
    >>> print(experiment_text(job).split("\\n")[1])
    model: gpt3-175b              # asked for
    """
    lines = [f"# Made by `clustersim import` from {remark(job.source)}."]
    for key in ("model", "cluster", "parallel", "strategy", "batch", "precision", "recompute"):
        value = getattr(job, key)
        if isinstance(value, Mapping):
            lines += [f"{key}:", *(_line(f"  {inner}", entry) for inner, entry in value.items())]
        else:
            lines.append(_line(key, value))
    return "\n".join(lines) + "\n"


def exact_size(size_bytes: int) -> str:
    """A size as it stands in the file, not rounded.

    >>> exact_size(80_000_000), exact_size(1_000_000_001)
    ('80 MB', '1000000001 B')
    """
    number, units = size_bytes, ["B", "kB", "MB", "GB"]
    while len(units) > 1 and number % 1000 == 0:
        number, units = number // 1000, units[1:]
    return f"{number} {units[0]}"


def _line(key: str, entry: Entry) -> str:
    value, origin = entry
    return commented(f"{key}: {value}", origin) if origin else f"{key}: {value}"
