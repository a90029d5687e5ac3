"""Colours of a Gantt chart: one hue for each kind of op, told apart by the colour-blind and in grey.

The colours are taken from the palettes of Okabe and Ito and of Paul Tol so that any two kinds, in either shade, differ by at
least 9 in CIELAB for normal sight, protanopia, deuteranopia and tritanopia, and kinds that stand side by side differ by at
least 7 in lightness. Related kinds share a family: forwards blue, backwards warm, collectives green and violet, pipeline purple.

>>> style("forward").colour, style("all_to_all").label, style("unheard_of").label
('#004488', 'all-to-all', 'unheard_of')
"""

from __future__ import annotations

from dataclasses import dataclass

SHADED_KINDS = ("forward", "backward", "input", "weight")
"""Kinds that come in two shades, by turns for the chunks or layers of a rank. A paler recompute would look idle."""

COMPUTE_KINDS = (*SHADED_KINDS, "recompute", "optimizer")

IDLE = "#F1F1F1"
INK, FAINT_INK = "#222222", "#666666"

_LONGEST = 30  # letters of a name in a picture
_LIGHTER = 0.32  # how far the second shade is on the way to white


@dataclass(frozen=True)
class Style:
    """The colour (``#RRGGBB``) of a kind and its name in the legend."""

    colour: str
    label: str


STYLES = {
    "forward": Style("#004488", "forward"),
    "recompute": Style("#99DDFF", "recompute"),
    "backward": Style("#E69F00", "backward"),
    "input": Style("#DDCC77", "input gradient"),
    "weight": Style("#CC3311", "weight gradient"),
    "optimizer": Style("#000000", "optimizer"),
    "tensor": Style("#44BB99", "tensor parallel"),
    "context": Style("#6600BB", "context parallel"),
    "expert": Style("#AA99FF", "expert parallel"),
    "reduce": Style("#999933", "gradient reduction"),
    "gather": Style("#228833", "parameter gather"),
    "send": Style("#CC79A7", "send"),
    "recv": Style("#AA3377", "receive"),
    "offload": Style("#552200", "offload to the host"),
    "fetch": Style("#CCFF00", "fetch from the host"),
}
"""In the order of the legend."""


PROFILED_STYLES = {
    "kernel": Style("#004488", "compute kernel"),
    "copy": Style("#99DDFF", "copy"),
    "all_reduce": Style("#999933", "all-reduce"),
    "reduce_scatter": Style("#E69F00", "reduce-scatter"),
    "all_gather": Style("#228833", "all-gather"),
    "broadcast": Style("#DDCC77", "broadcast"),
    "all_to_all": Style("#6600BB", "all-to-all"),
    "communication": Style("#44BB99", "unnamed collective"),
}
"""Kinds of a profiler trace, in colours of the kinds that they never stand beside."""


def family_colour(family: str) -> str:
    """That of a kind of communication (:data:`clustersim.analysis.streams.FAMILIES`): of the op that stands for it.

    >>> family_colour("pipeline") == style("recv").colour, family_colour("all_reduce") == style("all_reduce").colour
    (True, True)
    """
    return style({"data": "reduce", "pipeline": "recv"}.get(family, family)).colour


@dataclass(frozen=True)
class CauseStyle:
    """A cause of idle time: the colour (``#RRGGBB``) of its hatching on white, and the hatching; plain colour where there is none."""

    colour: str
    hatch: str


CAUSE_STYLES = {
    "warm_up": CauseStyle("#555555", "/"),
    "drain": CauseStyle("#555555", "\\"),
    "data": CauseStyle("#888888", "."),
    "peer": CauseStyle("#888888", "x"),
    "contention": CauseStyle("#AA0000", "+"),
    "dependency": CauseStyle("#888888", "-"),
    "copies": CauseStyle("#888888", "|"),
    "other_step": CauseStyle("#AA7700", "/"),
    "nothing": CauseStyle("#DDDDDD", ""),
}


@dataclass(frozen=True)
class MemoryStyle:
    """The colour (``#RRGGBB``) of a kind of memory, its hatching, and its name in the legend."""

    colour: str
    hatch: str
    label: str


MEMORY_STYLES = {
    "weights": MemoryStyle("#4D4D4D", "", "weights"),
    "gradients": MemoryStyle("#8A8A8A", "////", "gradients"),
    "optimizer": MemoryStyle("#B8B8B8", "", "optimizer state"),
    "buffers": MemoryStyle("#F0E442", "", "buffers"),
    "activations": MemoryStyle("#6A5AC0", "", "activations"),
}
"""From the bottom of the stack upwards: what never changes in greys, then the two hues that no op has."""


def memory_style(kind: str) -> MemoryStyle:
    """The style of a kind of memory; a pale one under its own name for one that has none."""
    return MEMORY_STYLES.get(kind, MemoryStyle("#EEDDCC", "....", short(kind)))


def short(name: str) -> str:
    """A name from a trace as a picture has room for it: on one line, long ones cut.

    >>> short("forward"), short("a\\n" + "b" * 90)
    ('forward', 'a bbbbbbbbbbbbbbbbbbbbbbbbb...')
    """
    line = "".join(c if c.isprintable() else " " for c in name)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def style(kind: str) -> Style:
    """The style of a kind; a grey under its own name for one that has none."""
    return STYLES.get(kind) or PROFILED_STYLES.get(kind) or Style("#888888", short(kind))


def rgb(colour: str) -> tuple[float, float, float]:
    """``#RRGGBB`` as three numbers from 0 to 1."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue


def shades(kind: str) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """The two shades of a kind as RGB in 0..1; the same one twice for a kind that is not shaded."""
    dark = rgb(style(kind).colour)
    if kind not in SHADED_KINDS:
        return dark, dark
    red, green, blue = (part + (1 - part) * _LIGHTER for part in dark)
    return dark, (red, green, blue)


def luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance of an sRGB colour, 0 (black) to 1 (white); https://www.w3.org/TR/WCAG21/#dfn-relative-luminance.

    >>> round(luminance((1.0, 1.0, 1.0)), 3), luminance((0.0, 0.0, 0.0))
    (1.0, 0.0)
    """
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def ink_on(colour: tuple[float, float, float]) -> str:
    """Black or white, whichever has the higher contrast on ``colour``."""
    return "#FFFFFF" if luminance(colour) < 0.179 else INK
