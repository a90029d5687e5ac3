"""``clustersim gantt``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from clustersim import units
from clustersim.commands.arguments import rank_numbers, seconds
from clustersim.commands.output import print_files, print_json
from clustersim.plots.gantt import gantt as draw
from clustersim.trace.files import read_trace


def gantt(options: argparse.Namespace) -> None:
    """Draw the chart of a run folder."""
    folder, output = Path(options.trace), Path(options.output)
    trace = read_trace(folder)
    step = units.time_text(trace.makespan_ps / units.PS_PER_S)
    draw(
        trace.ops,
        output,
        title=f"{_title(folder)}: step {step}",
        memory=trace.memory,
        capacity_bytes=_gpu_memory(folder),
        ranks=None if options.ranks is None else sorted(set(rank_numbers("--ranks", options.ranks))),
        start_s=seconds("--from", options.start),
        end_s=seconds("--to", options.end),
    )
    if options.json:
        print_json({"files": [str(output)]})
    else:
        print_files([output])


def _title(folder: Path) -> str:
    return str(_noted(folder / "manifest.json", "title") or folder.name)


def _gpu_memory(folder: Path) -> int | None:
    size = _noted(folder / "summary.json", "gpu_memory_bytes")
    return size if isinstance(size, int) and size > 0 else None


def _noted(path: Path, key: str) -> object:
    """What a document of the run folder says; None where it does not: tables without them can still be drawn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None
