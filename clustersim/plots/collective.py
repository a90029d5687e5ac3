"""Bus bandwidth of collectives by message size, a line per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.trace.files import write_whole

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, with a marker each so that the lines stay apart in grey.
_LINES = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#D55E00", "v"), ("#56B4E9", "P"), ("#000000", "X"))


def draw_collective(rows: Sequence[dict[str, Any]], path: Path, *, title: str) -> Path:
    """Draw rows of :func:`clustersim.commands.collective.collective_rows`; InputError when the format is unknown or nothing takes time."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: unknown picture format {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    drawn = [row for row in rows if row["busbw_bytes_s"] is not None]
    if not drawn:
        raise InputError(f"{path}: nothing to draw, no collective takes any time")
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for number, algorithm in enumerate(dict.fromkeys(row["algorithm"] for row in drawn)):
        colour, marker = _LINES[number % len(_LINES)]
        points = [(row["size_bytes"], row["busbw_bytes_s"] / 1e9) for row in drawn if row["algorithm"] == algorithm]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.4, label=algorithm)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size (bytes)")
    axes.set_ylabel("bus bandwidth (GB/s, one direction)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    metadata = {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else None
    return write_whole(path, lambda beside: figure.savefig(beside, dpi=150, metadata=metadata))


def _size(size: float, _: int) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size:g} B"
