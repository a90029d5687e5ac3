"""Bus bandwidth of collectives by message size, a line per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.trace.files import write_whole

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours. Lines that often coincide differ in width and marker, so that the one on top leaves the other to be seen.
_LINES = {
    "multi-ring": {"color": "#56B4E9", "marker": "o", "linewidth": 4.5, "markersize": 9},
    "ring": {"color": "#0072B2", "marker": "s", "linewidth": 1.6, "markersize": 3.5},
    "tree": {"color": "#009E73", "marker": "^", "linewidth": 1.6, "markersize": 5},
    "halving-doubling": {"color": "#E69F00", "marker": "D", "linewidth": 2.4, "markersize": 6},
    "hierarchical": {"color": "#CC79A7", "marker": "v", "linewidth": 1.6, "markersize": 5},
    "direct": {"color": "#D55E00", "marker": "P", "linewidth": 1.4, "markersize": 4.5},
    "in-switch": {"color": "#000000", "marker": "X", "linewidth": 1.6, "markersize": 5.5},
    "send": {"color": "#0072B2", "marker": "o", "linewidth": 1.6, "markersize": 4},
}


def check_format(path: Path) -> Path:
    """The path; InputError when it ends in no known picture format."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: unknown picture format {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    return path


def draw_collective(rows: Sequence[dict[str, Any]], path: Path, *, title: str) -> Path:
    """Draw rows of :func:`clustersim.commands.collective.collective_rows`; InputError when the format is unknown or nothing takes time."""
    check_format(path)
    drawn = [row for row in rows if row["busbw_bytes_s"] is not None]
    if not drawn:
        raise InputError(f"{path}: nothing to draw, no collective takes any time")
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogFormatter

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for algorithm in sorted({row["algorithm"] for row in drawn}, key=list(_LINES).index):
        points = [row for row in drawn if row["algorithm"] == algorithm]
        sizes, bandwidths = [row["size_bytes"] for row in points], [row["busbw_bytes_s"] / 1e9 for row in points]
        known = points[0]["in_library"]
        label = algorithm if known else f"{algorithm}\n(not in the library)"
        axes.plot(sizes, bandwidths, label=label, linestyle="-" if known else "--", **_LINES[algorithm])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    sizes = sorted({row["size_bytes"] for row in drawn})
    if sizes[-1] < 10 * sizes[0]:  # too narrow for a label at every decade
        axes.set_xticks(sizes)
        axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("size (bytes)")
    axes.set_ylabel("bus bandwidth (GB/s, one direction)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", frameon=False, fontsize=9, handlelength=3)
    metadata = {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else None
    return write_whole(path, lambda beside: figure.savefig(beside, dpi=150, metadata=metadata))


def _size(size: float, _: int) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size:g} B"
