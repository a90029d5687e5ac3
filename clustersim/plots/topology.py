"""A picture of a cluster: its levels as rows, links as wide as their capacity, a few nodes for all of them.

Torus and dragonfly, which have no levels, show one node and beside it the routers.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim import units
from clustersim.cluster.describe import describe
from clustersim.cluster.fabrics import NETWORK, Tiers
from clustersim.cluster.meshes import Dragonfly, Torus
from clustersim.cluster.spec import Cluster, Link
from clustersim.errors import InputError
from clustersim.plots.style import FAINT_INK, INK
from clustersim.trace.files import write_whole

if TYPE_CHECKING:
    import networkx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
LINK_COLOURS = {"nvlink": "#009988", "pcie": "#EE7733", "network": "#0077BB"}
LINK_NAMES = {"nvlink": "NVLink", "pcie": "PCIe", "network": "network"}
ROWS = ("nvswitch", "gpu", "pcie_switch", "host", "nic", "network_switch", "router", "leaf", "spine", "core")
"""Bottom up: NVLink below the GPUs, the way to the network above them."""

ROW_NAMES = {
    "nvswitch": "NVSwitch", "gpu": "GPU", "pcie_switch": "PCIe switch", "host": "host", "nic": "NIC",
    "network_switch": "switch", "router": "router", "leaf": "leaf", "spine": "spine", "core": "core",
}  # fmt: skip
_FILL = {"gpu": "#DDE8F4", "nvswitch": "#CCE9E5", "pcie_switch": "#FBE3D3", "host": "#EEEEEE", "nic": "#FFFFFF"}
_SWITCH_FILL = "#CFE4F3"

_MOST_GPUS, _MOST_OF_NODE, _MOST_IN_ROW = 26, 10, 10
_ON_LINES = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
_INCH, _TITLE, _ROW_NAMES, _LEGEND = 0.34, 0.45, 1.25, 1.75  # of a unit of the axes; for the texts around
_MOST_ROUTERS, _MOST_GROUPS = 6, 6  # in each dimension of a torus; of a dragonfly


@dataclass
class _Sketch:
    """What is drawn: positions of devices, with kind and label, and links between them; texts; a name for each row."""

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    links: dict[frozenset[str], tuple[str, int]] = field(default_factory=dict)
    texts: list[tuple[float, float, str]] = field(default_factory=list)
    rows: list[tuple[float, str]] = field(default_factory=list)
    stubs: list[tuple[float, float, float, float, str, int]] = field(default_factory=list)  # links around a torus
    size: float = 1.0  # of a device, in units of the axes
    dense: bool = True  # many links lie over each other

    def put(self, name: str, kind: str, x: float, y: float, label: str = "") -> None:
        self.places[name], self.kinds[name], self.labels[name] = (x, y), kind, label

    def drawn(self) -> list[tuple[str, int]]:
        """Kind and capacity of every link."""
        return [*self.links.values(), *(stub[4:] for stub in self.stubs)]

    def box(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top of everything."""
        points = [*self.places.values(), *((x, y) for x, y, _ in self.texts), *(stub[2:4] for stub in self.stubs)]
        xs, ys = zip(*points)
        return min(xs) - 0.9, max(xs) + 0.9, min(ys) - 0.7, max(ys) + 0.7

    def join(self, links: Iterable[Link]) -> None:
        for link in links:
            if link.source in self.places and link.target in self.places:
                self.links[frozenset((link.source, link.target))] = link.kind, link.capacity_bytes_s


def draw_topology(cluster: Cluster, path: Path) -> Path:
    """Draw the cluster into a ``.png``, ``.svg`` or ``.pdf``; the path. InputError for another ending, or without links."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown kind of picture {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    if cluster.ideal:
        raise InputError(f"{path}: cluster {cluster.name} is ideal: it has no links to draw")
    mesh = cluster.has_network and isinstance(cluster.fabric, (Torus, Dragonfly))
    sketches = [_levels(cluster, only_node=mesh)] + ([_routers(cluster)] if mesh else [])
    capacities = sorted({capacity for sketch in sketches for _, capacity in sketch.drawn()})
    boxes = [sketch.box() for sketch in sketches]
    height = max(top - bottom for _, _, bottom, top in boxes) * _INCH + _TITLE
    lefts = [_ROW_NAMES]
    for left, right, _, _ in boxes:
        lefts.append(lefts[-1] + (right - left) * _INCH)
    width = max(lefts[-1] + _LEGEND, 6.0)
    with pyplot.rc_context({"font.size": 8, "svg.hashsalt": "clustersim", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure = pyplot.figure(figsize=(width, height))
        try:
            for sketch, start, (left, right, bottom, top) in zip(sketches, lefts, boxes):
                size = (right - left) * _INCH / width, (top - bottom) * _INCH / height
                ax = figure.add_axes((start / width, (height - _TITLE) / height / 2 - size[1] / 2, *size))
                _draw(ax, sketch, capacities)
                ax.set(xlim=(left, right), ylim=(bottom, top))
            figure.text(0.5, 1 - 0.22 / height, _title(cluster), fontsize=10, color=INK, ha="center", va="center")
            _legend(figure, sketches, capacities, (lefts[-1] + 0.1) / width)
            # Without a date the same cluster gives the same file.
            metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
            write_whole(path, lambda beside: figure.savefig(beside, dpi=180, metadata=metadata))
        finally:
            pyplot.close(figure)
    return path


def _title(cluster: Cluster) -> str:
    data = describe(cluster)
    size = cluster.gpus_per_node
    nodes = f"{cluster.nodes:,} {_plural('node', cluster.nodes)} of {size} {_plural('GPU', size)}"
    bisection = data["bisection_bytes_s"]
    tail = f", bisection bandwidth {units.bandwidth_text(bisection)}" if bisection is not None else ""
    return f"{cluster.name}: {nodes}{tail}"


def _levels(cluster: Cluster, only_node: bool) -> _Sketch:
    """Nodes side by side, each with its levels, and the network above; or one node alone."""
    sketch = _Sketch()
    names = cluster.gpu_names_of_copy
    shown = _shown(len(names), 64 if cluster.whole else _MOST_OF_NODE if len(names) > 16 else 16)
    most = max(2, min(4, _MOST_GPUS // max(3, len(shown))))
    copies = [0] if only_node else _shown(cluster.copies, most)
    used = {kind for _, kind in cluster.devices} | {"gpu"} | ({*cluster.fabric.kinds()} if cluster.has_network else set())
    heights = {kind: place * 1.5 for place, kind in enumerate(kind for kind in ROWS if kind in used)}
    has_arcs = any(link.source in names and link.target in names for link in cluster.node_links)
    x = 0.0
    for place, copy in enumerate(copies):
        if place and copy != copies[place - 1] + 1:
            sketch.texts.append((x + 0.4, heights["gpu"], f"… {copy - copies[place - 1] - 1:,} more\nnodes …"))
            x += 4.0
        right = _put_node(sketch, cluster, copy, shown, heights, x)
        if not cluster.whole:
            lowest = min(heights.values()) - (_depth(right - x) if "nvswitch" not in heights and has_arcs else 0.4)
            sketch.texts.append(((x + right) / 2, lowest - 0.5, f"node {copy}"))
        x = right + 2.2
    if cluster.has_network:
        _put_network(sketch, cluster, copies, heights)
    counts = describe(cluster)["devices"]
    for kind, height in heights.items():
        sketch.rows.append((height, f"{counts[kind]:,} {_plural(ROW_NAMES[kind], counts[kind])}"))
    return sketch


def _put_node(sketch: _Sketch, cluster: Cluster, copy: int, shown: list[int], heights: dict[str, float], left: float) -> float:
    """The right edge of what was put; devices stand over those that they are linked to."""
    prefix = "" if cluster.whole else f"node{copy}/"
    names = cluster.gpu_names_of_copy
    x = left
    for place, gpu in enumerate(shown):
        if place and gpu != shown[place - 1] + 1:
            sketch.texts.append((x + 0.35, heights["gpu"], f"… {gpu - shown[place - 1] - 1} …"))
            x += 1.7
        sketch.put(prefix + names[gpu], "gpu", x, heights["gpu"], str(gpu))
        x += 1.0
    right = x - 1.0
    links = [link for link in cluster.node_links if NETWORK not in (link.source, link.target)]
    neighbours: dict[str, set[str]] = defaultdict(set)
    for link in links:
        neighbours[link.source].add(link.target)
        neighbours[link.target].add(link.source)
    number = Counter()
    drawn = {names[gpu] for gpu in shown}
    hidden = {*names} - drawn
    for kind in ("nvswitch", "pcie_switch", "nic", "host", "network_switch", "router", "leaf", "spine", "core"):
        wanted = []
        for name, its in cluster.devices:
            if its != kind:
                continue
            label, number[kind] = str(number[kind]), number[kind] + 1
            near = [sketch.places[prefix + other][0] for other in neighbours[name] if other in drawn]
            lonely = kind in ("pcie_switch", "nic") and hidden and not near  # its GPUs are not shown
            if not lonely:
                wanted.append((sum(near) / len(near) if near else (left + right) / 2, name, label))
        wanted = [wanted[place] for place in _shown(len(wanted), 64 if cluster.whole else 16)]
        single = number[kind] == 1
        for (_, name, label), place in zip(wanted, _apart([want[0] for want in wanted], 1.0), strict=True):
            sketch.put(prefix + name, kind, place, heights[kind], "" if single else label)
            drawn.add(name)
    sketch.join(Link("", prefix + k.source, prefix + k.target, k.kind, k.bandwidth_bytes_s, 0, k.efficiency) for k in links)
    return right


def _put_network(sketch: _Sketch, cluster: Cluster, copies: list[int], heights: dict[str, float]) -> None:
    fabric = cluster.fabric
    nics = [name for name, kind in cluster.devices if kind == "nic"]
    above: dict[int, list[float]] = defaultdict(list)
    for copy in copies:
        for number, nic in enumerate(nics):
            if f"node{copy}/{nic}" in sketch.places:
                above[fabric.attach(copy, number)].append(sketch.places[f"node{copy}/{nic}"][0])
    near = {switch: sum(xs) / len(xs) for switch, xs in above.items()}
    if isinstance(fabric, Tiers):
        leaves = list(near)
        links = {link for a in leaves for b in leaves for link, _ in fabric.between(a, b).links}
        middle = sum(near.values()) / len(near)
        for wire in map(fabric.wire, links):
            near.setdefault(wire.target, middle)
    by_kind: dict[str, list[int]] = defaultdict(list)
    for switch in sorted(near, key=lambda switch: (near[switch], switch)):
        by_kind[fabric.switch(switch)[1]].append(switch)
    counts = fabric.kinds()
    for kind, switches in by_kind.items():
        shown = [switches[place] for place in _shown(len(switches), _MOST_IN_ROW if kind != "leaf" else 20)]
        gap = 1.0 if kind == "leaf" else 1.6
        places = _apart([near[switch] for switch in shown], gap)
        for switch, place in zip(shown, places, strict=True):
            name = fabric.switch(switch)[0]
            sketch.put(name, kind, place, heights[kind], "" if counts[kind] == 1 else name.removeprefix(kind))
        if len(shown) < counts[kind] and isinstance(fabric, Tiers):
            gaps = [(after - before, (before + after) / 2) for before, after in zip(places, places[1:])]
            widest = max(gaps, default=(0.0, 0.0))
            at = widest[1] if widest[0] > 2.5 else places[-1] + 1.6
            sketch.texts.append((at, heights[kind], f"… {counts[kind] - len(shown):,}\nmore …"))
    if isinstance(fabric, Tiers):
        sketch.join(cluster.link(link) for link in links)
    for copy in copies:
        for link in cluster.node_links:
            if link.target == NETWORK:
                name = fabric.switch(fabric.attach(copy, nics.index(link.source)))[0]
                sketch.join([Link("", f"node{copy}/{link.source}", name, link.kind, link.bandwidth_bytes_s, 0, link.efficiency)])


def _routers(cluster: Cluster) -> _Sketch:
    """The routers of a torus or a dragonfly, all or the first of each dimension or group."""
    fabric, sketch = cluster.fabric, _Sketch(size=0.5)
    if isinstance(fabric, Torus):
        placed = _torus_places(fabric)
        whole = " x ".join(map(str, fabric.dimensions))
        what = f"{whole} routers, short ends lead around"
        sketch.dense = False
    else:
        placed = _dragonfly_places(fabric)
        what = f"{fabric.groups} groups of {fabric.routers_per_group} routers"
        sketch.size = 0.62
    for router, (x, y) in placed.items():
        sketch.put(fabric.switch(router)[0], "router", x, y, str(router))
    for link in map(cluster.link, range(fabric.link_count)):
        far = isinstance(fabric, Torus) and _is_around(fabric, int(link.source[6:]), int(link.target[6:]))
        if far and link.source in sketch.places and link.target in sketch.places:
            (x, y), (to_x, to_y) = sketch.places[link.source], sketch.places[link.target]
            length = 0.75 / math.hypot(to_x - x, to_y - y)
            end = x - (to_x - x) * length, y - (to_y - y) * length
            sketch.stubs.append((x, y, *end, link.kind, link.capacity_bytes_s))
        else:
            sketch.join([link])
    xs, ys = zip(*placed.values())
    part = "" if len(placed) == fabric.switch_count else f" (of them {len(placed)} drawn)"
    sketch.texts.append(((min(xs) + max(xs)) / 2, min(ys) - 1.5, what + part))
    return sketch


def _is_around(torus: Torus, a: int, b: int) -> bool:
    """Whether the link between two neighbours closes a ring of more than two."""
    for place, size in enumerate(torus.dimensions):
        stride = math.prod(torus.dimensions[place + 1 :])
        if abs(a // stride % size - b // stride % size) > 1:
            return True
    return False


def _torus_places(torus: Torus) -> dict[int, tuple[float, float]]:
    """The last dimension to the right, the one before it up, others in oblique steps."""
    shown = [range(min(size, _MOST_ROUTERS if size > 8 else size)) for size in torus.dimensions]
    across = max(len(shown[-1]), 1)
    places: dict[int, tuple[float, float]] = {}
    spots: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]
    for depth, size in enumerate(reversed(torus.dimensions)):
        stride = math.prod(torus.dimensions[len(torus.dimensions) - depth :])
        step = [(1.0, 0.0), (0.0, 1.0), (0.42, 0.36)][min(depth, 2)] if depth < 3 else (across + 1.5, 0.0)
        extent = shown[len(shown) - 1 - depth]
        spots = [(n + i * stride, x + i * step[0], y + i * step[1]) for n, x, y in spots for i in extent]
    spread = 1.0 if len(torus.dimensions) < 3 else 2.2
    for number, x, y in spots:
        places[number] = x * spread, y * spread
    return places


def _dragonfly_places(dragonfly: Dragonfly) -> dict[int, tuple[float, float]]:
    """Groups on a circle, the routers of a group on one of their own."""
    groups, size = min(dragonfly.groups, _MOST_GROUPS), dragonfly.routers_per_group
    drawn = min(size, 16)
    inner = max(1.0, drawn / 5.5)
    outer = 0.0 if groups == 1 else max(2.4 * inner, 1.35 * inner / math.sin(math.pi / groups))
    places = {}
    for group in range(groups):
        angle = math.pi / 2 - 2 * math.pi * group / groups
        for router in range(drawn):
            turn = angle + 2 * math.pi * router / drawn
            x = outer * math.cos(angle) + inner * math.cos(turn)
            places[group * size + router] = x, outer * math.sin(angle) + inner * math.sin(turn)
    return places


def _draw(ax: Axes, sketch: _Sketch, capacities: list[int]) -> None:
    import networkx
    from matplotlib.patches import Arc

    graph = networkx.Graph()
    graph.add_nodes_from(sketch.places)
    flat = []
    for ends, (kind, capacity) in sketch.links.items():
        a, b = ends
        same_row = sketch.places[a][1] == sketch.places[b][1] and sketch.rows
        (flat.append((a, b, kind, capacity)) if same_row else graph.add_edge(a, b, kind=kind, capacity=capacity))
    for a, b, kind, capacity in flat:
        (left, y), (right, _) = sorted((sketch.places[a], sketch.places[b]))
        style = {"color": LINK_COLOURS[kind], "linewidth": _width(capacity, capacities), "zorder": 1}
        ax.add_patch(Arc(((left + right) / 2, y), right - left, 2 * _depth(right - left), theta1=180, theta2=360, **style))
    alike: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for a, b, link in graph.edges(data=True):
        alike[link["kind"], link["capacity"]].append((a, b))
    for (kind, capacity), edges in alike.items():
        # Many links must not become one dark patch.
        alpha = max(0.16, min(0.9, 28 / len(edges))) if sketch.dense else 0.9
        style = {"edge_color": LINK_COLOURS[kind], "width": _width(capacity, capacities), "alpha": alpha}
        networkx.draw_networkx_edges(graph, sketch.places, ax=ax, edgelist=edges, **style).set_zorder(1)
    for x, y, to_x, to_y, kind, capacity in sketch.stubs:
        ax.plot([x, to_x], [y, to_y], color=LINK_COLOURS[kind], linewidth=_width(capacity, capacities), zorder=1)
    _draw_devices(ax, sketch)
    for x, y, text in sketch.texts:
        ax.text(x, y, text, ha="center", va="center", color=FAINT_INK, fontsize=8, zorder=4, bbox=_ON_LINES)
    left = sketch.box()[0] - 0.2
    for y, text in sketch.rows:
        ax.text(left, y, text, ha="right", va="center", color=INK, fontsize=8)
    ax.axis("off")


def _draw_devices(ax: Axes, sketch: _Sketch) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    half = 0.38 * sketch.size
    for name, (x, y) in sketch.places.items():
        kind = sketch.kinds[name]
        style = {"facecolor": _FILL.get(kind, _SWITCH_FILL), "edgecolor": INK, "linewidth": 0.7, "zorder": 3}
        if kind == "router":
            ax.add_patch(Circle((x, y), half, **style))
        elif kind in ("gpu", "nic"):
            ax.add_patch(FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, boxstyle="square,pad=0", **style))
        else:
            wide = 1.25 * half
            box = "round,pad=0,rounding_size=0.15"
            ax.add_patch(FancyBboxPatch((x - wide, y - 0.8 * half), 2 * wide, 1.6 * half, boxstyle=box, **style))
        ax.text(x, y, sketch.labels[name], ha="center", va="center_baseline", fontsize=6.5, color=INK, zorder=4)


def _legend(figure: Figure, sketches: Sequence[_Sketch], capacities: list[int], left: float) -> None:
    from matplotlib.lines import Line2D

    kinds = list(LINK_COLOURS)
    found = {link for sketch in sketches for link in sketch.drawn()}
    handles = []
    for kind, capacity in sorted(found, key=lambda link: (kinds.index(link[0]), -link[1])):
        style = {"color": LINK_COLOURS[kind], "linewidth": _width(capacity, capacities)}
        handles.append(Line2D([], [], label=f"{LINK_NAMES[kind]} {units.bandwidth_text(capacity)}", **style))
    if handles:
        where = {"loc": "center left", "bbox_to_anchor": (left, 0.5)}
        figure.legend(handles=handles, title="capacity, each way", alignment="left", frameon=False, **where)


def _width(capacity: int, capacities: list[int]) -> float:
    """Points, by the logarithm of the capacity."""
    low, high = math.log(capacities[0]), math.log(capacities[-1])
    return 1.8 if high == low else 0.8 + 3.2 * (math.log(capacity) - low) / (high - low)


def _shown(count: int, most: int) -> list[int]:
    """The first ones and the last one, where there are too many."""
    return list(range(count)) if count <= most else [*range(most - 1), count - 1]


def _apart(wanted: list[float], gap: float) -> list[float]:
    """Near the wanted places, in that order, at least ``gap`` apart, with the same middle."""
    places: list[float] = []
    for want in wanted:
        places.append(want if not places else max(want, places[-1] + gap))
    shift = (sum(wanted) - sum(places)) / len(places) if places else 0.0
    return [place + shift for place in places]


def _depth(distance: float) -> float:
    """How far the arc of a link between neighbours in a row hangs below it."""
    return 0.18 * distance + 0.5


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return "leaves" if word == "leaf" else word + ("es" if word.lower().endswith("switch") else "s")
