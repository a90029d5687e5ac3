"""GPUs that come with the product: a sheet of hardware figures each, in ``clustersim/gpus/NAME/hardware.yaml``.

>>> find_gpu("A100-SXM4-80GB").multiprocessors, gpu_names()[:2]
(108, ['A10-24GB', 'A100-PCIE-40GB'])
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from clustersim import document
from clustersim.cluster.spec import PRECISIONS, Gpu
from clustersim.document import Section
from clustersim.errors import InputError

FOLDER = Path(__file__).resolve().parent.parent / "gpus"
_SHEET_KEYS = ("name", "memory", "usable_memory", "memory_bandwidth", "peak", "multiprocessors", "power", "software")
MAPPING_KEYS = (*_SHEET_KEYS, "efficiency")
"""Of the ``gpu:`` mapping of a topology file."""


@lru_cache(maxsize=1)
def gpu_names() -> list[str]:
    """The names of the sheets, sorted."""
    return sorted(path.parent.name for path in FOLDER.glob("*/hardware.yaml"))


@lru_cache(maxsize=64)
def find_gpu(name: str) -> Gpu:
    """The GPU of this name. InputError, with the nearest and all that are known, when there is none."""
    if name not in gpu_names():
        raise InputError(f"unknown GPU {document.shown(name)}{document.nearest(name, gpu_names())}; allowed: {', '.join(gpu_names())}")
    return read_gpu(document.load(FOLDER / name / "hardware.yaml").section("", _SHEET_KEYS))


def completed(given: Section) -> Section:
    """The ``gpu:`` mapping of a topology file; what it leaves out is that of the sheet of its name.

    InputError where there is no such sheet and something that only a sheet can leave out is missing.
    """
    name, names = given.text("name"), gpu_names()
    if name not in names:
        known = f"{document.nearest(name, names)}; the GPUs that need no more than their name: {', '.join(names)}"
        for key in ("memory", "memory_bandwidth", "peak", "efficiency"):
            if key not in given:
                given.error(key, f"missing, and no GPU {document.shown(name)} comes with the product{known}")
        return given
    sheet = document.load(FOLDER / name / "hardware.yaml").data
    if "memory" in given and "usable_memory" not in given:
        sheet = {key: value for key, value in sheet.items() if key != "usable_memory"}
    whole = replace(given.document, data={**given.document.data, given.path: {**sheet, **given.data}})
    return whole.section(given.path, MAPPING_KEYS)


def read_gpu(section: Section) -> Gpu:
    """From a sheet, or from the ``gpu:`` mapping of a topology file."""
    peak = section.section("peak", PRECISIONS)
    if not peak.data:
        section.error("peak", f"give the peak of at least one precision: {', '.join(PRECISIONS)}")
    memory_bytes = section.quantity("memory", "size", positive=True)
    usable = section.quantity("usable_memory", "size", memory_bytes, positive=True)
    if usable > memory_bytes:
        section.error("usable_memory", "more than memory; allowed: at most as much")
    return Gpu(
        name=section.text("name"),
        peak_flop_s={precision: peak.quantity(precision, "compute", positive=True) for precision in peak.data},
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_s=section.quantity("memory_bandwidth", "bandwidth", positive=True),
        usable_memory_bytes=usable,
        efficiency=section.number("efficiency", None),
        multiprocessors=section.integer("multiprocessors", None),
        software=section.text("software", None),
    )
