"""Labels that do not lie on each other.

>>> spread([1.0, 1.1, 5.0], apart=1.0)
[0.55, 1.55, 5.0]
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

_BESIDE = (((8, 0), "left", "center"), ((-8, 0), "right", "center"), ((0, 8), "center", "bottom"), ((0, -8), "center", "top"))


def spread(places: Sequence[float], apart: float) -> list[float]:
    """Sorted ``places`` moved as little as it takes for neighbours to be ``apart``: what touches is laid around its own mean."""
    blocks: list[list[float]] = []  # sum of the places less the offsets in the block, number of places
    for place in places:
        blocks.append([place, 1])
        while len(blocks) > 1 and _first(blocks[-2], apart) + blocks[-2][1] * apart > _first(blocks[-1], apart):
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    return [round(_first(block, apart) + at * apart, 9) for block in blocks for at in range(int(block[1]))]


def _first(block: Sequence[float], apart: float) -> float:
    return block[0] / block[1] - (block[1] - 1) * apart / 2


def labelled(axes: Axes) -> None:
    """Name each point by its ``gid``, on the first of its four sides where no other point or name is."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    points = [line for line in axes.lines if line.get_gid()]
    taken = [line.get_window_extent(renderer).padded(1) for line in points]
    for number, line in enumerate(points):
        (x,), (y,) = line.get_xdata(), line.get_ydata()
        others = [box for at, box in enumerate(taken) if at != number]
        for side, (offset, across, up) in enumerate(_BESIDE):
            text = axes.annotate(
                line.get_gid(), (x, y), xytext=offset, textcoords="offset points", ha=across, va=up, fontsize=8.5, color=line.get_color()
            )
            box: Bbox = text.get_window_extent(renderer)
            if side + 1 == len(_BESIDE) or not any(box.overlaps(other) for other in others):
                taken.append(box)
                break
            text.remove()
