"""One node as the importers of topologies find it.

>>> numbered(["b", None, "a", "b"])
(0, None, 1, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.importers.gpus import GpuSection


@dataclass(frozen=True)
class Nvlinks:
    """NVLinks of a node: of each GPU to an NVSwitch (``uplinks``), and of ``pairs`` of (GPU, GPU, bonded links)."""

    origin: str
    uplinks: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class PcieDevice:
    """A GPU or a NIC: its PCIe switch by number (None: it hangs on the host), and the bandwidth of its link."""

    switch: int | None
    bandwidth: str


@dataclass(frozen=True)
class Nic:
    """A NIC that GPUs use; ``bandwidth`` is that of its port, from ``origin``."""

    name: str
    bandwidth: str
    pcie: PcieDevice
    origin: str


@dataclass(frozen=True)
class Node:
    """What a topology file needs, figures with their ``..._origin``; GPUs, NICs and PCIe switches count from 0.

    ``uplinks`` are the bandwidths from each PCIe switch to the host.
    """

    name: str
    source: str
    gpu: GpuSection
    gpu_origin: str
    nvlinks: Nvlinks | None
    gpus: tuple[PcieDevice, ...]
    uplinks: tuple[str, ...]
    pcie_origin: str
    nics: tuple[Nic, ...]
    nic_of_gpu: tuple[int, ...]
    affinity_origin: str
    network_latency: tuple[str, str] | None = None


def numbered(groups: Sequence[object]) -> tuple[int | None, ...]:
    """Any labels of groups as numbers in order of appearance; None stays."""
    order: dict[object, int] = {}
    return tuple(None if group is None else order.setdefault(group, len(order)) for group in groups)


def why_idle(nic: int, distances: Sequence[Sequence[Any]]) -> str:
    """Why no GPU uses this NIC; ``distances[gpu][nic]``, to each NIC alike.

    >>> why_idle(1, [[1, 2]]), why_idle(1, [[1, 1]])
    ('no GPU has it as its nearest NIC', 'the GPUs nearest to it have others as near')
    """
    nearest = any(row[nic] == min(row) for row in distances)
    return "the GPUs nearest to it have others as near" if nearest else "no GPU has it as its nearest NIC"


def nearest_nics(distances: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each GPU one of its nearest NICs, such that they share the GPUs evenly; ``distances[gpu][nic]``.

    GPUs with the fewest choices choose first, each the NIC with the fewest GPUs.

    >>> nearest_nics([[1, 1], [1, 2], [2, 1], [1, 1]])
    (0, 0, 1, 1)
    """
    least = [min(row) for row in distances]
    choices = [[nic for nic, distance in enumerate(row) if distance == lowest] for row, lowest in zip(distances, least, strict=False)]
    load = [0] * len(distances[0])
    chosen = [0] * len(distances)
    for gpu in sorted(range(len(choices)), key=lambda gpu: len(choices[gpu])):
        chosen[gpu] = min(choices[gpu], key=lambda nic: load[nic])
        load[chosen[gpu]] += 1
    return tuple(chosen)
