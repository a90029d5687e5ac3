"""What a picture of a torus or a dragonfly shows: its routers, all or the first ones, and their links. No drawing."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial

from clustersim.cluster.meshes import Dragonfly, Torus
from clustersim.cluster.spec import Cluster
from clustersim.plots.sketch import Sketch

_MOST_ROUTERS, _MOST_OF_TORUS = 6, 512  # in each dimension, and in all
_MOST_GROUPS, _MOST_OF_GROUP = 6, 16  # of a dragonfly


def router_sketch(cluster: Cluster) -> Sketch:
    """The routers of a torus or a dragonfly, all or the first of each dimension or group."""
    fabric, sketch = cluster.fabric, Sketch()
    if isinstance(fabric, Torus):
        sketch.size, sketch.dense = 0.5, False
        placed = _torus_places(fabric)
        join = partial(_join_torus, sketch, fabric)
        shape = " x ".join(f"{size:,}" for size in fabric.dimensions)
    else:
        assert isinstance(fabric, Dragonfly)
        sketch.size, sketch.dense = 0.62, True
        placed = _dragonfly_places(fabric)
        join = partial(_join_dragonfly, sketch, fabric)
        shape = f"{fabric.groups:,} groups of {fabric.routers_per_group:,}"
    used = fabric.attach(cluster.nodes - 1, 0) + 1
    for router, (x, y) in placed.items():
        sketch.put(fabric.switch(router)[0], "router", x, y, str(router))
        if router >= used:
            sketch.idle.add(fabric.switch(router)[0])
    join(placed)
    lines = [f"{shape} routers" + (", short ends lead on or around" if sketch.stubs else "")]
    if used < fabric.switch_count:
        lines.append(f"{used:,} of {fabric.switch_count:,} have a node" + (", those in white have none" if sketch.idle else ""))
    if len(placed) < fabric.switch_count:
        lines.append(f"{len(placed):,} drawn, {fabric.switch_count - len(placed):,} more are not")
    if isinstance(fabric, Dragonfly) and fabric.groups > 1 and fabric.routers_per_group > _MOST_OF_GROUP:
        lines.append("links between groups end at others, too")
    left, right, bottom, _ = sketch.box()
    sketch.texts.append(((left + right) / 2, bottom - 0.2 - 0.25 * len(lines), "\n".join(lines)))
    return sketch


def _join_torus(sketch: Sketch, torus: Torus, placed: dict[int, tuple[float, float]]) -> None:
    slots = torus.link_count // torus.switch_count
    steps = _torus_steps(torus)
    for router, (x, y) in placed.items():
        for wire in map(torus.wire, range(router * slots, (router + 1) * slots)):
            stride, ahead = _torus_step(torus, router, wire.target)
            if wire.target in placed and abs(ahead) == 1:
                sketch.join([wire.rate.link(torus.switch(router)[0], torus.switch(wire.target)[0])])
                continue
            way = 1 if ahead == 1 or ahead < -1 else -1
            step = [way * part for part in steps[stride]]
            length = 0.75 / math.hypot(*step)
            sketch.stubs.append((x, y, x + step[0] * length, y + step[1] * length, wire.rate.kind, wire.rate.capacity_bytes_s))


def _torus_step(torus: Torus, a: int, b: int) -> tuple[int, int]:
    """The stride of the dimension in which two neighbours differ, and by how much."""
    for place, size in enumerate(torus.dimensions):
        stride = math.prod(torus.dimensions[place + 1 :])
        if a // stride % size != b // stride % size:
            return stride, b // stride % size - a // stride % size
    raise ValueError(f"routers {a} and {b} are the same")


def _torus_steps(torus: Torus) -> dict[int, tuple[float, float]]:
    """By stride: the last dimension to the right, the one before it up, others in oblique steps."""
    across = _torus_shown(torus)[-1]
    spread = 1.0 if len(torus.dimensions) < 3 else 2.2
    steps: dict[int, tuple[float, float]] = {}
    for depth in range(len(torus.dimensions)):
        stride = math.prod(torus.dimensions[len(torus.dimensions) - depth :])
        x, y = [(1.0, 0.0), (0.0, 1.0), (0.42, 0.36)][depth] if depth < 3 else (across + 1.5, 0.0)
        if torus.dimensions[-1 - depth] > 1:  # a ring of one has the stride of the next, and no links
            steps[stride] = x * spread, y * spread
    return steps


def _torus_shown(torus: Torus) -> list[int]:
    """How many routers of each dimension are drawn."""
    shown = [min(size, _MOST_ROUTERS if size > 8 else size) for size in torus.dimensions]
    while math.prod(shown) > _MOST_OF_TORUS:
        shown[shown.index(max(shown))] -= 1
    return shown


def _torus_places(torus: Torus) -> dict[int, tuple[float, float]]:
    spots: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]
    shown = _torus_shown(torus)
    many = {math.prod(torus.dimensions[place + 1 :]): shown[place] for place, size in enumerate(torus.dimensions) if size > 1}
    for stride, (x, y) in _torus_steps(torus).items():
        spots = [(number + i * stride, at_x + i * x, at_y + i * y) for number, at_x, at_y in spots for i in range(many[stride])]
    return {number: (x, y) for number, x, y in spots}


def _join_dragonfly(sketch: Sketch, dragonfly: Dragonfly, placed: dict[int, tuple[float, float]]) -> None:
    name = {router: dragonfly.switch(router)[0] for router in placed}
    groups: dict[int, list[int]] = defaultdict(list)
    for router in placed:
        groups[router // dragonfly.routers_per_group].append(router)
    for group, routers in groups.items():
        sketch.join(dragonfly.rate.link(name[a], name[b]) for a in routers for b in routers if a < b)
        for other in groups:
            if group < other:
                wires = dragonfly.joins(group, other)
                sketch.join(wire.rate.link(name[wire.source], name[wire.target]) for wire in wires if {*wire[:2]} <= {*placed})


def _dragonfly_places(dragonfly: Dragonfly) -> dict[int, tuple[float, float]]:
    """Groups on a circle, the routers of a group on one of their own."""
    groups, size = min(dragonfly.groups, _MOST_GROUPS), dragonfly.routers_per_group
    drawn = min(size, _MOST_OF_GROUP)
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
