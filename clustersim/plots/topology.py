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
    size: float = 1.0  # of a device, in units of the axes

    def put(self, name: str, kind: str, x: float, y: float, label: str = "") -> None:
        self.places[name], self.kinds[name], self.labels[name] = (x, y), kind, label

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
    widths = [min(18.0, max(4.5, 0.36 * _span(sketches[0], 0) + 1.2))] + ([6.0] if mesh else [])
    height = max(3.6, 0.82 * _span(sketches[0], 1) + 1.4, 6.0 if mesh else 0)
    with pyplot.rc_context({"font.size": 8, "svg.hashsalt": "clustersim", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure, axes = pyplot.subplots(
            1, len(sketches), figsize=(sum(widths) + 2.0, height), width_ratios=widths, squeeze=False, layout="constrained"
        )
        try:
            capacities = sorted({capacity for sketch in sketches for _, capacity in sketch.links.values()})
            for ax, sketch in zip(axes[0], sketches):
                _draw(ax, sketch, capacities)
            figure.suptitle(_title(cluster), fontsize=10, color=INK)
            _legend(figure, sketches, capacities)
            # Without a date the same cluster gives the same file.
            metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
            write_whole(path, lambda beside: figure.savefig(beside, dpi=180, metadata=metadata))
        finally:
            pyplot.close(figure)
    return path


def _title(cluster: Cluster) -> str:
    data = describe(cluster)
    nodes = f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''} of {cluster.gpus_per_node} GPU{'s' if cluster.gpus_per_node > 1 else ''}"
    bisection = data["bisection_bytes_s"]
    tail = f", bisection bandwidth {units.bandwidth_text(bisection)}" if bisection is not None else ""
    return f"{cluster.name}: {nodes}{tail}"


def _levels(cluster: Cluster, only_node: bool) -> _Sketch:
    """Nodes side by side, each with its levels, and the network above; or one node alone."""
    sketch = _Sketch()
    names = cluster.gpu_names_of_copy
    shown = _shown(len(names), 64 if cluster.whole else _MOST_OF_NODE if len(names) > 16 else 16)
    most = max(1, min(4, _MOST_GPUS // max(3, len(shown))))
    copies = [0] if only_node else _shown(cluster.copies, most)
    used = {kind for _, kind in cluster.devices} | {"gpu"} | ({*cluster.fabric.kinds()} if cluster.has_network else set())
    heights = {kind: place * 1.5 for place, kind in enumerate(kind for kind in ROWS if kind in used)}
    x = 0.0
    for place, copy in enumerate(copies):
        if place and copy != copies[place - 1] + 1:
            sketch.texts.append((x + 0.4, heights["gpu"], f"… {copy - copies[place - 1] - 1:,} more\nnodes …"))
            x += 4.0
        right = _put_node(sketch, cluster, copy, shown, heights, x)
        if not cluster.whole:
            sketch.texts.append(((x + right) / 2, min(heights.values()) - 1.15, f"node {copy}"))
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
            sketch.texts.append((x, heights["gpu"], f"… {gpu - shown[place - 1] - 1}\nmore …"))
            x += 1.4
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
        if len(shown) < counts[kind]:
            sketch.texts.append((places[-1] + 1.6, heights[kind], f"… {counts[kind] - len(shown):,}\nmore …"))
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
        what = f"{whole} routers"
    else:
        placed = _dragonfly_places(fabric)
        what = f"{fabric.groups} groups of {fabric.routers_per_group} routers"
        sketch.size = 0.62
    for router, (x, y) in placed.items():
        sketch.put(fabric.switch(router)[0], "router", x, y, str(router))
    sketch.join(cluster.link(link) for link in range(fabric.link_count))
    xs, ys = zip(*placed.values())
    part = "" if len(placed) == fabric.switch_count else f" (of them {len(placed)} drawn)"
    sketch.texts.append(((min(xs) + max(xs)) / 2, min(ys) - 1.3, what + part))
    return sketch


def _torus_places(torus: Torus) -> dict[int, tuple[float, float]]:
    """The last dimension to the right, the one before it up, others in oblique steps."""
    shown = [range(min(size, _MOST_ROUTERS if size > 8 else size)) for size in torus.dimensions]
    across = max(len(shown[-1]), 1)
    places: dict[int, tuple[float, float]] = {}
    spots: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]
    for depth, size in enumerate(reversed(torus.dimensions)):
        stride = math.prod(torus.dimensions[len(torus.dimensions) - depth :])
        step = [(1.0, 0.0), (0.0, 1.0), (0.42, 0.36)][min(depth, 2)] if depth < 3 else (across + 1.5, 0.0)
        scale = 1.0 if depth != 2 else 1.0
        extent = shown[len(shown) - 1 - depth]
        spots = [(n + i * stride, x + i * step[0] * scale, y + i * step[1] * scale) for n, x, y in spots for i in extent]
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
        ax.add_patch(Arc(((left + right) / 2, y), right - left, 0.36 * (right - left) + 0.9, theta1=180, theta2=360, **style))
    edges = list(graph.edges(data=True))
    # Many links must not become one dark patch.
    alpha = min(0.9, max(0.25, 12 / math.sqrt(len(edges) + 1)))
    if edges:
        lines = networkx.draw_networkx_edges(
            graph,
            sketch.places,
            ax=ax,
            edgelist=[edge[:2] for edge in edges],
            edge_color=[LINK_COLOURS[edge[2]["kind"]] for edge in edges],
            width=[_width(edge[2]["capacity"], capacities) for edge in edges],
            alpha=alpha,
        )
        lines.set_zorder(1)
    _draw_devices(ax, sketch)
    for x, y, text in sketch.texts:
        ax.text(x, y, text, ha="center", va="center", color=FAINT_INK, fontsize=8, zorder=4)
    left = min(x for x, _ in sketch.places.values()) - 1.1
    for y, text in sketch.rows:
        ax.text(left, y, text, ha="right", va="center", color=INK, fontsize=8)
    ax.set_aspect("equal")
    ax.margins(0.04)
    ax.autoscale_view()
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
            ax.add_patch(FancyBboxPatch((x - wide, y - 0.8 * half), 2 * wide, 1.6 * half, boxstyle="round,pad=0,rounding_size=0.15", **style))
        ax.text(x, y, sketch.labels[name], ha="center", va="center_baseline", fontsize=6.5, color=INK, zorder=4)


def _legend(figure, sketches: Sequence[_Sketch], capacities: list[int]) -> None:
    from matplotlib.lines import Line2D

    found = sorted({link for sketch in sketches for link in sketch.links.values()}, key=lambda link: (list(LINK_COLOURS).index(link[0]), -link[1]))
    handles = [
        Line2D([], [], color=LINK_COLOURS[kind], linewidth=_width(capacity, capacities), label=f"{LINK_NAMES[kind]} {units.bandwidth_text(capacity)}")
        for kind, capacity in found
    ]
    if handles:
        figure.legend(handles=handles, loc="outside right center", frameon=False, title="capacity, each way", alignment="left")


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


def _span(sketch: _Sketch, axis: int) -> float:
    values = [place[axis] for place in sketch.places.values()]
    return max(values) - min(values) + 1


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return {"leaf": "leaves", "switch": "switches", "NVSwitch": "NVSwitches", "PCIe switch": "PCIe switches"}.get(word, word + "s")
