"""GPUs that the importers know: the sections of shipped topology files, and what each generation's links are.

>>> gpu = find_gpu("h100")
>>> gpu.name, gpu.generation.nvlinks, gpu.topology
('H100-SXM5-80GB', 18, 'dgx-h100')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from clustersim import document, presets
from clustersim.document import nearest, shown
from clustersim.errors import InputError

FILL_IN = "fill-in"
"""Instead of a GPU's name: write a section with placeholders."""
_PLACEHOLDER = """gpu:
  # TO FILL IN: the input names no GPU. All figures here are placeholders, those of an A100-SXM4-80GB.
  name: fill-in
  memory: 80 GiB
  memory_bandwidth: 2039 GB/s
  peak: {fp32: 19.5 TFLOP/s, tf32: 156 TFLOP/s, fp16: 312 TFLOP/s, bf16: 312 TFLOP/s}
  efficiency: 0.48                # of the peak, for everything that it computes"""


@dataclass(frozen=True)
class Generation:
    """Links of the GPUs of one compute capability; bandwidths per direction, nominal."""

    label: str
    nvlinks: int
    """NVLinks of one GPU; 0 where they are not known."""
    nvlink_gb_s: int
    """Of one link."""
    nvlink_efficiency: float
    pcie: str
    pcie_source: str
    network: str
    """Of a NIC in the DGX of this generation."""

    @property
    def has_nvswitch(self) -> bool:
        return self.nvlinks >= GENERATIONS[70].nvlinks


_PCIE_3 = ("15.75 GB/s", "PCIe 3.0 x16: 8 GT/s x 16 x 128/130 / 8")
_PCIE_4 = ("31.5 GB/s", "PCIe 4.0 x16: 16 GT/s x 16 x 128/130 / 8")
_PCIE_5 = ("63 GB/s", "PCIe 5.0 x16: 32 GT/s x 16 x 128/130 / 8")

# By compute capability. NVLinks and their bandwidth: data sheets. Efficiency: NCCL src/graph/topo.h, 18 of 20 GB/s a link
# (sm 60), 20 of 25 (70; for 80 the fit of dgx-a100.yaml), 20.6 of 25 (90), 40.1 of 50 (100).
GENERATIONS = {
    60: Generation("P100", 4, 20, 0.9, *_PCIE_3, "100 Gb/s"),
    70: Generation("V100", 6, 25, 0.8, *_PCIE_3, "100 Gb/s"),
    80: Generation("A100", 12, 25, 0.784, *_PCIE_4, "200 Gb/s"),
    90: Generation("H100", 18, 25, 0.824, *_PCIE_5, "400 Gb/s"),
    100: Generation("B200", 18, 50, 0.802, *_PCIE_5, "400 Gb/s"),
}
UNKNOWN = Generation("unknown", 0, 25, 0.8, *_PCIE_4, "200 Gb/s")
# The number must end there: A100 is not A10.
_OF_NAME = ((r"P100", 60), (r"V100", 70), (r"A100", 80), (r"G?H[12]00", 90), (r"G?B[23]00", 100))


@dataclass(frozen=True)
class GpuSection:
    """The ``gpu:`` section of a topology file as text, its ``collectives:`` section as data, and where they are from."""

    name: str
    text: str
    topology: str
    generation: Generation
    collectives: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=1)
def shipped_gpus() -> dict[str, GpuSection]:
    """By name; the first shipped machine that has a GPU describes it, the ideal cluster none."""
    sections: dict[str, GpuSection] = {}
    for topology in presets.names("topologies"):
        text = document.read_text(presets.folder("topologies") / f"{topology}.yaml")
        data = document.loads(text, topology).data
        name = data.get("gpu", {}).get("name")
        if name and not data.get("ideal") and name not in sections:
            collectives = data.get("collectives") or {}
            sections[name] = GpuSection(name, _section_text(text, "gpu"), topology, generation_of(name), collectives)
    return sections


def generation_of(name: str) -> Generation:
    """By the beginning of a GPU's name.

    >>> generation_of("V100-SXM2-32GB").label, generation_of("A10-24GB").label
    ('V100', 'unknown')
    """
    for pattern, capability in _OF_NAME:
        if re.match(pattern + r"(?![0-9])", name, re.IGNORECASE):
            return GENERATIONS[capability]
    return UNKNOWN


def find_gpu(name: object) -> GpuSection:
    """The shipped GPU of this name, or the first (by machine) whose name begins so; ``fill-in`` gives placeholders."""
    known = shipped_gpus()
    if name == FILL_IN:
        return GpuSection(FILL_IN, _PLACEHOLDER, "", UNKNOWN)
    if isinstance(name, str) and name:
        wanted = name.lower()
        for candidate in sorted(known, key=lambda known_name: known_name.lower() != wanted):
            if re.match(re.escape(wanted) + r"(?![0-9a-z])", candidate.lower()):
                return known[candidate]
    raise InputError(f"--gpu: unknown GPU {shown(name)}{nearest(str(name), list(known))}; allowed: {allowed_gpus()}")


def allowed_gpus() -> str:
    return f"{', '.join(shipped_gpus())}, or {FILL_IN} for a section to complete"


def _section_text(text: str, key: str) -> str:
    """The lines of a top-level section, comments included."""
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = begin + 1
    while end < len(lines) and (lines[end].startswith(" ") or not lines[end].strip()):
        end += 1
    return "\n".join(lines[begin:end]).rstrip()
