"""Pictures as files: the formats, whole or not at all, equal bytes for equal input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.errors import InputError
from clustersim.trace.files import Write, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DPI = 150.0
_SETTINGS = {"svg.hashsalt": "clustersim", "font.family": ["DejaVu Sans"], "path.simplify": False, "hatch.linewidth": 0.7}
# Neither dates nor versions, so that equal input gives equal bytes.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def checked(path: str | Path) -> Path:
    """The path of a picture; InputError for another format."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown picture format {path.suffix!r}; allowed: {', '.join(FORMATS)}")
    return path


def save(path: Path, draw: Callable[[], Figure]) -> None:
    """Write what ``draw`` makes, whole or not at all."""
    write_whole(path, picture_writer(draw))


def picture_writer(draw: Callable[[], Figure]) -> Write:
    """For :func:`~clustersim.trace.files.write_all`: what ``draw`` makes, in the format of the path.

    A letter that the font lacks is a box, without a warning for each.
    """

    def write(path: Path) -> None:
        import matplotlib

        kind = path.suffix.lower()
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from (current )?font")
            draw().savefig(path, format=kind[1:], dpi=DPI, metadata=_METADATA[kind])

    return write
