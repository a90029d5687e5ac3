"""A picture of a cluster: its levels as rows, links wider with their capacity (thinner where many cross), some nodes for all.

Torus and dragonfly, which have no levels, show one node and beside it the routers.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim import units
from clustersim.cluster.describe import describe
from clustersim.cluster.meshes import Dragonfly, Torus
from clustersim.cluster.spec import Cluster
from clustersim.errors import InputError
from clustersim.plots.routers import router_sketch
from clustersim.plots.sketch import Sketch, arc_depth, level_sketch, plural
from clustersim.plots.style import FAINT_INK, INK
from clustersim.trace.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
LINK_COLOURS = {"nvlink": "#009988", "pcie": "#EE7733", "network": "#0077BB"}
LINK_NAMES = {"nvlink": "NVLink", "pcie": "PCIe", "network": "network"}
_FILL = {"gpu": "#DDE8F4", "nvswitch": "#CCE9E5", "pcie_switch": "#FBE3D3", "host": "#EEEEEE", "nic": "#FFFFFF"}
_SWITCH_FILL = "#CFE4F3"

_INCH, _TITLE, _LINE = 0.34, 0.45, 0.19  # of a unit of the axes; height of the title, and of each further line of it
_TITLE_POINTS, _POINTS, _LABEL_POINTS, _LEAST_POINTS = 10, 8, 6.5, 4
_LEGEND_TITLE = "capacity, each way"
_SAMPLE = 0.5  # of a line in the legend, with the space around it

Looks = Mapping[tuple[str, int], Mapping[str, Any]]
"""Colour, width and opacity of links, by kind and capacity."""


def draw_topology(cluster: Cluster, path: Path, data: Mapping[str, Any] | None = None) -> Path:
    """Draw the cluster into a ``.png``, ``.svg`` or ``.pdf``; the path. InputError for another ending, or without links.

    ``data`` is what ``describe`` says of the cluster, where that is known already.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown kind of picture {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    if cluster.ideal:
        raise InputError(f"{path}: cluster {cluster.name} is ideal: it has no links to draw")
    data = describe(cluster) if data is None else data
    mesh = cluster.has_network and isinstance(cluster.fabric, (Torus, Dragonfly))
    sketches = [level_sketch(cluster, data["devices"], only_node=mesh)] + ([router_sketch(cluster)] if mesh else [])
    # Without a date the same cluster gives the same file.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    with pyplot.rc_context({"svg.hashsalt": "clustersim", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure = pyplot.figure()
        try:
            _lay_out(figure, sketches, _title(cluster, data))
            write_whole(path, lambda beside: figure.savefig(beside, dpi=180, metadata=metadata))
        finally:
            pyplot.close(figure)
    return path


def _lay_out(figure: Figure, sketches: Sequence[Sketch], title: Sequence[str]) -> None:
    """Row names, the sketches side by side, the legend; the title above."""
    looks = _looks(sketches)
    legend = {link: f"{LINK_NAMES[link[0]]} {units.bandwidth_text(link[1])}" for link in looks}
    lefts = [max((_inches(text, _POINTS) for sketch in sketches for _, text in sketch.rows), default=0.0) + 0.25]
    boxes = [sketch.box() for sketch in sketches]
    for left, right, _, _ in boxes:
        lefts.append(lefts[-1] + (right - left) * _INCH)
    width = lefts[-1] + (max(_inches(text, _POINTS) for text in [*legend.values(), _LEGEND_TITLE]) + _SAMPLE + 0.3 if legend else 0.2)
    lines = _wrapped(title, width - 0.3)
    top_of_all = _TITLE + _LINE * (len(lines) - 1)
    height = max(max(top - bottom for _, _, bottom, top in boxes) * _INCH, 0.3 + 0.17 * (len(legend) + 1)) + top_of_all
    figure.set_size_inches(width, height)
    for sketch, start, (left, right, bottom, top) in zip(sketches, lefts, boxes, strict=False):
        size = (right - left) * _INCH / width, (top - bottom) * _INCH / height
        ax = figure.add_axes((start / width, (height - top_of_all) / height / 2 - size[1] / 2, *size))
        _draw(ax, sketch, looks)
        ax.set(xlim=(left, right), ylim=(bottom, top))
    style = {"fontsize": _TITLE_POINTS, "color": INK, "ha": "center", "va": "center"}
    figure.text(0.5, 1 - (0.22 + _LINE * (len(lines) - 1) / 2) / height, "\n".join(lines), **style)
    if legend:
        _legend(figure, legend, looks, lefts[-1] / width)


def _title(cluster: Cluster, data: Mapping[str, Any]) -> list[str]:
    """Parts that stay together where there is room."""
    size, bisection = cluster.gpus_per_node, data["bisection_bytes_s"]
    nodes = f"{cluster.nodes:,} {plural('node', cluster.nodes)} of {size} {plural('GPU', size)}"
    tail = [f"bisection bandwidth {units.bandwidth_text(bisection)}"] if bisection is not None else []
    return [f"{cluster.name}:", nodes + ("," if tail else ""), *tail]


def _wrapped(parts: Sequence[str], room: float) -> list[str]:
    """Lines of the title, each within ``room`` inches."""
    lines: list[str] = []
    for part in parts:
        if lines and _inches(f"{lines[-1]} {part}", _TITLE_POINTS) <= room:
            lines[-1] += f" {part}"
        else:
            lines += textwrap.wrap(part, max(10, int(len(part) * room / max(room, _inches(part, _TITLE_POINTS)))))
    return lines


def _inches(text: str, points: float) -> float:
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=points).get_extents().width / 72 if text.strip() else 0.0


def _looks(sketches: Sequence[Sketch]) -> Looks:
    """Alike in the picture and in the legend, kind by kind, the widest first. Many links must not become one dark patch."""
    kinds = list(LINK_COLOURS)
    counts = Counter(link for sketch in sketches for link in sketch.drawn())
    over = Counter(link for sketch in sketches if sketch.dense for link in sketch.drawn())
    over.update(sketch.links[frozenset(ends)] for sketch in sketches for ends in sketch.flat())  # arcs lie closer together
    capacities = sorted({capacity for _, capacity in counts})
    looks = {}
    for kind, capacity in sorted(counts, key=lambda link: (kinds.index(link[0]), -link[1])):
        most = max(count for link, count in over.items() if link[0] == kind) if over else 0
        width = min(1.0, max(0.3, 80 / (most or 1))) * _width(capacity, capacities)  # in order within a kind
        alpha = min(0.9, max(0.45, 40 / (over[kind, capacity] or 1)))
        looks[kind, capacity] = {"color": LINK_COLOURS[kind], "linewidth": width, "alpha": alpha}
    return looks


def _draw(ax: Axes, sketch: Sketch, looks: Looks) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Arc

    flat = [*sketch.flat()]
    for a, b in flat:
        (left, y), (right, _) = sketch.places[a], sketch.places[b]
        style = looks[sketch.links[frozenset((a, b))]]
        half = {"theta1": 180, "theta2": 360, "zorder": 1}
        ax.add_patch(Arc(((left + right) / 2, y), right - left, 2 * arc_depth(right - left), **half, **style))
    lines: dict[tuple[str, int], list[Any]] = defaultdict(list)
    in_row = {frozenset(ends) for ends in flat}
    ports = _ports(sketch, [ends for ends in sketch.links if ends not in in_row]) if sketch.rows else {}
    for ends, link in sketch.links.items():
        if ends not in in_row:
            lines[link].append([ports.get((end, ends), sketch.places[end]) for end in sorted(ends)])
    for x, y, to_x, to_y, kind, capacity in sketch.stubs:
        lines[kind, capacity].append([(x, y), (to_x, to_y)])
    for link, segments in lines.items():
        ax.add_collection(LineCollection(segments, zorder=1, capstyle="butt", **looks[link]), autolim=False)
    _draw_devices(ax, sketch)
    for x, y, text in sketch.texts:
        ax.text(x, y, text, ha="center", va="center", color=FAINT_INK, fontsize=_POINTS, zorder=4)
    for y, text in sketch.rows:
        ax.text(sketch.box()[0] - 0.2, y, text, ha="right", va="center", color=INK, fontsize=_POINTS)
    ax.axis("off")


def _ports(sketch: Sketch, links: Sequence[frozenset[str]]) -> dict[tuple[str, frozenset[str]], tuple[float, float]]:
    """Where each link meets each of its devices: links leave upwards and downwards, side by side, never behind other devices."""
    sides: dict[tuple[str, int], list[tuple[float, frozenset[str]]]] = defaultdict(list)
    for ends in links:
        low, high = sorted(ends, key=lambda end: sketch.places[end][1])
        sides[low, 1].append((sketch.places[high][0], ends))
        sides[high, -1].append((sketch.places[low][0], ends))
    ports = {}
    for (name, up), found in sides.items():
        (x, y), (wide, tall) = sketch.places[name], sketch.half(name)
        if sketch.kinds[name] == "router" or len(found) < 4:
            wide = 0.0
        found.sort(key=lambda link: (link[0], sorted(link[1])))
        step = min(0.12, 1.5 * wide / len(found))
        for place, (_, ends) in enumerate(found):
            ports[name, ends] = x + (place - (len(found) - 1) / 2) * step, y + up * (tall - 0.03)
    return ports


def _draw_devices(ax: Axes, sketch: Sketch) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    for name, (x, y) in sketch.places.items():
        kind, (wide, high) = sketch.kinds[name], sketch.half(name)
        fill = "white" if name in sketch.idle else _FILL.get(kind, _SWITCH_FILL)
        style = {"facecolor": fill, "edgecolor": FAINT_INK if name in sketch.idle else INK, "linewidth": 0.7, "zorder": 3}
        if kind == "router":
            ax.add_patch(Circle((x, y), wide, **style))
        else:
            box = "square,pad=0" if kind in ("gpu", "nic") else "round,pad=0,rounding_size=0.15"
            ax.add_patch(FancyBboxPatch((x - wide, y - high), 2 * wide, 2 * high, boxstyle=box, **style))
        label = sketch.labels[name]
        if label:
            room = 2 * wide * _INCH - 0.04
            points = min(_LABEL_POINTS, _LABEL_POINTS * room / _inches(label, _LABEL_POINTS))
            if points >= _LEAST_POINTS:
                ax.text(x, y, label, ha="center", va="center_baseline", fontsize=points, color=INK, zorder=4)


def _legend(figure: Figure, names: Mapping[tuple[str, int], str], looks: Looks, left: float) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name, solid_capstyle="butt", **looks[link]) for link, name in names.items()]
    where = {"loc": "center left", "bbox_to_anchor": (left, 0.5), "fontsize": _POINTS, "title_fontsize": _POINTS}
    figure.legend(handles=handles, title=_LEGEND_TITLE, alignment="left", frameon=False, **where)


def _width(capacity: int, capacities: list[int]) -> float:
    """Points, by the logarithm of the capacity."""
    low, high = math.log(capacities[0]), math.log(capacities[-1])
    return 1.8 if high == low else 0.8 + 3.2 * (math.log(capacity) - low) / (high - low)
