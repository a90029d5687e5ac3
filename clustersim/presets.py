"""Files that come with the product: cluster files in ``topologies/``, experiments in ``schedules/``.

They lie beside the package in a source tree and inside it once installed; both are found by name from any folder.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.document import clipped, nearest, shown
from clustersim.errors import InvalidValueError

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: str) -> Path:
    """The folder of the shipped ``topologies`` or ``schedules``."""
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def names(kind: str) -> list[str]:
    """The preset names of one kind, sorted."""
    return sorted(path.stem for path in folder(kind).glob("*.yaml"))


def find(reference: str, kind: str, near: Path, what: str, place: str) -> Path:
    """The file that ``reference`` means: a preset's name, or a path (relative to ``near``, then to the working folder).

    InvalidValueError at ``place`` when there is none, with the nearest preset.
    """
    looks_like_path = "/" in reference or reference.endswith((".yaml", ".yml", ".json"))
    candidates = (near / reference, Path(reference)) if looks_like_path else ()
    for candidate in candidates:
        if _kind_of(candidate) == "a file":
            return candidate
    known = names(kind)
    if reference in known:
        return folder(kind) / f"{reference}.yaml"
    allowed = f"allowed: {', '.join(known)}, or a path to a file"
    if looks_like_path:
        found = next((kind for kind in map(_kind_of, candidates) if kind), "")
        problem = f"{clipped(reference)} is {found}, not a file" if found else f"no such {what} file: {clipped(reference)}"
        raise InvalidValueError(f"{place}: {problem}; {allowed}")
    raise InvalidValueError(f"{place}: unknown {what} {shown(reference)}{nearest(reference, known)}; {allowed}{_hint(reference)}")


def _kind_of(path: Path) -> str:
    """What is there: ``a file``, ``a folder``, ``a device``; nothing at all is ``""``."""
    try:
        return "a file" if path.is_file() else "a folder" if path.is_dir() else "a device or pipe" if path.exists() else ""
    except (OSError, ValueError):  # too long a name, a loop of links
        return ""


def _hint(reference: str) -> str:
    """A file without ``/`` and suffix is taken for a name: say how to write it."""
    return f" (./{reference} is one)" if _kind_of(Path(reference)) == "a file" else ""
