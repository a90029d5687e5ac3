"""Files that come with the product: cluster files in ``topologies/``, experiments in ``schedules/``.

They lie beside the package in a source tree and inside it once installed; both are found by name from any folder.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.document import nearest
from clustersim.errors import InputError

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

    InputError at ``place`` when there is none, with the nearest preset.
    """
    looks_like_path = "/" in reference or reference.endswith((".yaml", ".yml", ".json"))
    if looks_like_path:
        for candidate in (near / reference, Path(reference)):
            if candidate.is_file():
                return candidate
    preset = folder(kind) / f"{reference}.yaml"
    if "/" not in reference and preset.is_file():
        return preset
    if looks_like_path:
        raise InputError(f"{place}: no such {what} file: {reference}")
    known = names(kind)
    raise InputError(
        f"{place}: unknown {what} {reference!r}{nearest(reference, known)}; allowed: {', '.join(known)}, or a path to a file"
    )
