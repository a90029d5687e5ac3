"""What a picture of a cluster shows and where it stands: rows of devices, some nodes for all of them, links. No drawing.

Lengths are in units of the axes. Whatever is left out leaves a text with its number in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from clustersim.cluster.fabrics import NETWORK, Tiers
from clustersim.cluster.spec import Cluster, Link

ROWS = ("nvswitch", "gpu", "pcie_switch", "host", "nic", "network_switch", "router", "leaf", "spine", "core")
"""Bottom up: NVLink below the GPUs, the way to the network above them."""

ROW_NAMES = {
    "nvswitch": "NVSwitch", "gpu": "GPU", "pcie_switch": "PCIe switch", "host": "host", "nic": "NIC",
    "network_switch": "switch", "router": "router", "leaf": "leaf", "spine": "spine", "core": "core",
}  # fmt: skip
_MOST_GPUS, _MOST_OF_NODE, _MOST_OF_LIST, _MOST_LEAVES, _MOST_ABOVE = 26, 10, 64, 20, 10
_HALF = 0.38  # of a device of size 1
_CLEAR = 0.5  # between the middle of a device and links that pass it


@dataclass
class Sketch:
    """Positions of devices, with kind and label, and links between them; texts; a name for each row.

    While a sketch is made, the height of a device is the number of its row; ``stretch`` makes room for the links.
    """

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    links: dict[frozenset[str], tuple[str, int]] = field(default_factory=dict)
    texts: list[tuple[float, float, str]] = field(default_factory=list)
    rows: list[tuple[float, str]] = field(default_factory=list)
    stubs: list[tuple[float, float, float, float, str, int]] = field(default_factory=list)  # links that lead out of the picture
    idle: set[str] = field(default_factory=set)  # routers without a node
    size: float = 1.0  # of a device
    dense: bool = True  # many links may lie over each other

    def put(self, name: str, kind: str, x: float, y: float, label: str = "") -> None:
        self.places[name], self.kinds[name], self.labels[name] = (x, y), kind, label

    def half(self, name: str) -> tuple[float, float]:
        """Half of the width and of the height of a device."""
        half, kind = _HALF * self.size, self.kinds[name]
        if kind in ("router", "gpu", "nic"):
            return half, half
        return (1.05 if kind == "host" else 1.25) * half, 0.8 * half

    def drawn(self) -> list[tuple[str, int]]:
        """Kind and capacity of every link."""
        return [*self.links.values(), *(stub[4:] for stub in self.stubs)]

    def box(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top of everything."""
        points = [*self.places.values(), *(stub[2:4] for stub in self.stubs)]
        for x, y, text in self.texts:
            wide = text_width(text) / 2 - 0.4
            points += [(x - wide, y), (x + wide, y)]
        xs, ys = zip(*points, strict=False)
        return min(xs) - 0.9, max(xs) + 0.9, min(ys) - 0.7, max(ys) + 0.7

    def join(self, links: Iterable[Link]) -> None:
        for link in links:
            if link.source in self.places and link.target in self.places:
                self.links[frozenset((link.source, link.target))] = link.kind, link.capacity_bytes_s

    def flat(self) -> Iterator[tuple[str, str]]:
        """Links between devices of one row, the left one first."""
        for ends in self.links:
            a, b = sorted(ends, key=self.places.__getitem__)
            if self.rows and self.places[a][1] == self.places[b][1]:
                yield a, b

    def stretch(self) -> None:
        """From numbers of rows to heights: the wider the links between two rows, the farther apart, or links hide behind boxes."""
        reach: dict[int, float] = defaultdict(float)
        for ends in self.links:
            (x, low), (to_x, high) = sorted((self.places[end] for end in ends), key=lambda place: place[1])
            for row in range(int(low), int(high)):
                reach[row] = max(reach[row], abs(to_x - x) / (high - low))
        heights = [0.0]
        for row in range(len(self.rows) - 1):
            heights.append(heights[-1] + min(4.5, max(1.5, 1.1 + 0.19 * reach[row])))
        self.places = {name: (x, heights[int(row)]) for name, (x, row) in self.places.items()}
        self.texts = [(x, heights[int(row)], text) for x, row, text in self.texts]
        self.rows = [(heights[int(row)], text) for row, text in self.rows]

    def clear(self, name: str) -> None:
        """Move a device sideways, as little as needed, out of the way of links that pass its row."""
        x, y = self.places[name]
        passing = []
        for ends in self.links:
            (left, low), (right, high) = sorted((self.places[end] for end in ends), key=lambda place: place[1])
            if low < y < high:
                passing.append(left + (right - left) * (y - low) / (high - low))
        others = [at for other, (at, row) in self.places.items() if row == y and other != name]
        free = [x + step / 10 for step in sorted(range(-20, 21), key=abs)]
        free = [at for at in free if all(abs(at - other) >= 2.2 * _CLEAR for other in others)] or [x]
        room = {at: min([_CLEAR - 1e-6, *(abs(at - way) for way in passing)]) for at in free}
        self.places[name] = max(free, key=room.__getitem__), y


def level_sketch(cluster: Cluster, counts: dict[str, int], only_node: bool) -> Sketch:
    """Nodes side by side, each with its levels, and the network above; or one node alone. ``counts`` are those of the kinds."""
    sketch = Sketch()
    names = cluster.gpu_names_of_copy
    shown = first_and_last(len(names), _MOST_OF_LIST if cluster.whole else _MOST_OF_NODE if len(names) > 16 else 16)
    most = max(2, min(4, _MOST_GPUS // max(3, len(shown))))
    copies = [0] if only_node else first_and_last(cluster.copies, most)
    rows = _rows(cluster, counts)
    sketch.rows = [(row, text) for row, text in enumerate(rows.values())]
    order = {key: row for row, key in enumerate(rows)}
    x, unders = 0.0, []
    for place, copy in enumerate(copies):
        if place and copy != copies[place - 1] + 1:
            text = f"… {copy - copies[place - 1] - 1:,} more\nnodes …"
            sketch.texts.append((x + text_width(text) / 2 - 0.9, order["gpu"], text))
            x += text_width(text) + 0.4
        right, labels = _put_node(sketch, cluster, copy, shown, order, x)
        unders += labels
        x = right + 2.2
    if cluster.has_network:
        _put_network(sketch, cluster, copies, order)
    sketch.stretch()
    for name in [name for name, kind in sketch.kinds.items() if kind == "host"]:
        sketch.clear(name)
    deepest = max([0.4, *(arc_depth(sketch.places[b][0] - sketch.places[a][0]) - sketch.places[a][1] for a, b in sketch.flat())])
    sketch.texts += [(at, -deepest - 0.5, text) for at, text in unders]
    return sketch


def _rows(cluster: Cluster, counts: dict[str, int]) -> dict[str, str]:
    """Of each row, bottom up, its key (a kind; of a tree the name of the level) and its label."""
    own = {kind for _, kind in cluster.devices} | {"gpu"}
    rows = {kind: _counted(counts[kind], kind) for kind in ROWS if kind in own}
    if not cluster.has_network:
        return rows
    if isinstance(cluster.fabric, Tiers):
        for count, tier in zip(cluster.fabric.groups, cluster.fabric.tiers, strict=False):
            level = f" ({tier.name.rstrip('-')})" if tier.name != tier.kind else ""
            rows[tier.name] = _counted(count * tier.switches, tier.kind) + level
        return rows
    return rows | {kind: _counted(counts[kind], kind) for kind in cluster.fabric.kinds()}


def _put_node(
    sketch: Sketch, cluster: Cluster, copy: int, shown: list[int], order: dict[str, int], left: float
) -> tuple[float, list[tuple[float, str]]]:
    """The right edge of what was put, and the names under it; devices stand over those that they are linked to."""
    prefix = "" if cluster.whole else f"node{copy}/"
    names = cluster.gpu_names_of_copy
    x, of_node = left, defaultdict(list)
    for place, gpu in enumerate(shown):
        if place and gpu != shown[place - 1] + 1:
            sketch.texts.append((x + 0.35, order["gpu"], f"… {gpu - shown[place - 1] - 1} …"))
            x += 1.7
        elif place and cluster.whole and gpu % cluster.gpus_per_node == 0:
            x += 1.2
        sketch.put(prefix + names[gpu], "gpu", x, order["gpu"], str(gpu))
        of_node[gpu // cluster.gpus_per_node].append(x)
        x += 1.0
    links = [link for link in cluster.node_links if NETWORK not in (link.source, link.target)]
    _put_devices(sketch, cluster, prefix, links, {names[gpu] for gpu in shown}, order)
    sketch.join(Link("", prefix + k.source, prefix + k.target, k.kind, k.bandwidth_bytes_s, 0, k.efficiency) for k in links)
    if not cluster.whole:
        return x - 1.0, [((left + x - 1.0) / 2, f"node {copy}")]
    return x - 1.0, [(sum(xs) / len(xs), _listed_node(cluster, node)) for node, xs in of_node.items() if cluster.nodes > 1]


def _listed_node(cluster: Cluster, node: int) -> str:
    """A node of a whole cluster by the names of its GPUs."""
    size = cluster.gpus_per_node
    names = cluster.gpu_names[node * size : (node + 1) * size]
    before = {name.rpartition("/")[0] for name in names}
    return f"node {before.pop()}" if len(before) == 1 and "" not in before else f"{names[0]} … {names[-1]}"


def _put_devices(
    sketch: Sketch, cluster: Cluster, prefix: str, links: Sequence[Link], drawn: set[str], order: dict[str, int]
) -> None:
    neighbours: dict[str, set[str]] = defaultdict(set)
    for link in links:
        neighbours[link.source].add(link.target)
        neighbours[link.target].add(link.source)
    gpu_places = [sketch.places[prefix + gpu][0] for gpu in drawn]
    hidden = len(drawn) < len(cluster.gpu_names_of_copy)
    for kind in ("nvswitch", "pcie_switch", "nic", "host", "network_switch", "router", "leaf", "spine", "core"):
        wanted = []
        devices = [name for name, its in cluster.devices if its == kind]
        for number, name in enumerate(devices):
            near = [sketch.places[prefix + other][0] for other in neighbours[name] if other in drawn]
            if near or not (kind in ("pcie_switch", "nic") and hidden):  # its GPUs are not shown
                wanted.append((sum(near) / len(near) if near else (min(gpu_places) + max(gpu_places)) / 2, number))
        wanted = [wanted[place] for place in first_and_last(len(wanted), _MOST_OF_LIST if cluster.whole else 16)]
        places = apart([want for want, _ in wanted], [1.3 if cluster.whole and kind in ROWS[5:] else 1.0] * len(wanted))
        for (_, number), x in zip(wanted, places, strict=True):
            sketch.put(prefix + devices[number], kind, x, order[kind], "" if len(devices) == 1 else str(number))
            drawn.add(devices[number])


def _put_network(sketch: Sketch, cluster: Cluster, copies: list[int], order: dict[str, int]) -> None:
    fabric = cluster.fabric
    nics = [name for name, kind in cluster.devices if kind == "nic"]
    above: dict[int, list[float]] = defaultdict(list)
    for copy in copies:
        for number, nic in enumerate(nics):
            if f"node{copy}/{nic}" in sketch.places:
                above[fabric.attach(copy, number)].append(sketch.places[f"node{copy}/{nic}"][0])
    near = {switch: sum(xs) / len(xs) for switch, xs in above.items()}
    if isinstance(fabric, Tiers):
        _put_tiers(sketch, fabric, near, order)
    else:
        for switch, x in near.items():
            name, kind = fabric.switch(switch)
            sketch.put(name, kind, x, order[kind], "" if fabric.switch_count == 1 else str(switch))
    for copy in copies:
        for link in cluster.node_links:
            if link.target == NETWORK:
                name = fabric.switch(fabric.attach(copy, nics.index(link.source)))[0]
                sketch.join([Link("", f"node{copy}/{link.source}", name, link.kind, link.bandwidth_bytes_s, 0, link.efficiency)])


def _put_tiers(sketch: Sketch, fabric: Tiers, near: dict[int, float], order: dict[str, int]) -> None:
    """The leaves over the NICs, and of the groups above them the first switches and the last, with their links."""
    leaves = sorted(near)
    below = {number: near[number] for number in (leaves[place] for place in first_and_last(len(leaves), _MOST_LEAVES))}
    _put_row(sketch, fabric, 0, below, order)
    for level, tier in enumerate(fabric.tiers[1 : len(fabric.groups)], 1):
        size, under = fabric.tiers[level - 1].switches, defaultdict(list)
        for number, x in below.items():
            under[number // size // tier.children if tier.children else 0].append(x)
        each = first_and_last(tier.switches, max(2, _MOST_ABOVE // len(under)))
        here = {group * tier.switches + place: sum(xs) / len(xs) for group, xs in sorted(under.items()) for place in each}
        here = _put_row(sketch, fabric, level, here, order)
        uplink = fabric.uplink(level - 1)
        for number in below:
            group = number // size // tier.children if tier.children else 0
            low = fabric.switch(fabric.first_switch[level - 1] + number)[0]
            for high in here:
                if high // tier.switches == group:
                    sketch.join([uplink.link(low, fabric.switch(fabric.first_switch[level] + high)[0])])
        below = here


def _put_row(sketch: Sketch, fabric: Tiers, level: int, wanted: dict[int, float], order: dict[str, int]) -> dict[int, float]:
    """Switches of a level, with the number of those left out in their places; where each now stands."""
    tier, total = fabric.tiers[level], fabric.groups[level] * fabric.tiers[level].switches
    items: list[tuple[float, float, int | str]] = []
    before = -1
    for number, x in [*wanted.items(), (total, max(wanted.values()))]:
        if number > before + 1:
            text = f"… {number - before - 1:,} more …"
            middle = x if before < 0 or number == total else (x + wanted[before]) / 2
            items.append((middle, text_width(text) + 0.3, text))
        if number < total:
            items.append((x, 1.0 if level == 0 else 1.3, number))
        before = number
    places = {}
    for (_, _, item), x in zip(items, apart([item[0] for item in items], [item[1] for item in items]), strict=True):
        if isinstance(item, str):
            sketch.texts.append((x, order[tier.name], item))
        else:
            places[item] = x
            sketch.put(fabric.switch(fabric.first_switch[level] + item)[0], tier.kind, x, order[tier.name], "" if total == 1 else str(item))
    return places


def first_and_last(count: int, most: int) -> list[int]:
    """The first ones and the last one, where there are too many.

    >>> first_and_last(3, 4), first_and_last(9, 4)
    ([0, 1, 2], [0, 1, 2, 8])
    """
    return list(range(count)) if count <= most else [*range(most - 1), count - 1]


def apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Near the wanted places, in that order, no nearer than the widths allow, with the same middle.

    >>> apart([0, 0, 5], [1, 1, 1])
    [-0.333..., 0.666..., 4.666...]
    """
    places: list[float] = []
    for place, want in enumerate(wanted):
        places.append(want if not place else max(want, places[-1] + (widths[place - 1] + widths[place]) / 2))
    shift = (sum(wanted) - sum(places)) / len(places) if places else 0.0
    return [place + shift for place in places]


def arc_depth(distance: float) -> float:
    """How far the arc of a link between neighbours in a row hangs below it."""
    return 0.18 * distance + 0.5


def text_width(text: str) -> float:
    """Of a text of 8 points, about."""
    return 0.19 * max(map(len, text.split("\n"))) + 0.3


def _counted(count: int, kind: str) -> str:
    return f"{count:,} {plural(ROW_NAMES[kind], count)}"


def plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return "leaves" if word == "leaf" else word + ("es" if word.lower().endswith("switch") else "s")
