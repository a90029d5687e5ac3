"""A program: what the engine runs. Plain columns; no models, no strategies.

An *op* occupies its stream: a compute op for its duration, a communication op from the arrival of the last member of its
*activity* (a collective, or a send with its receive) until the bytes are there. An activity moves as its *transfer* says.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Load(NamedTuple):
    """Bytes over one link, and the number of equal connections there that the simulated one stands for.

    ``occupancy``: the link is held as long as for so many times the bytes, 1 when they use all of its capacity. ``part``: what of
    a connection crosses the link, less than 1 where its route is spread over several.
    """

    link: int
    volume_bytes: Fraction
    connections: int = 1
    occupancy: Fraction = Fraction(1)
    part: Fraction = Fraction(1)

    @property
    def held_bytes(self) -> Fraction:
        """The bytes for which the link would be held as long at its whole capacity."""
        return self.volume_bytes * self.occupancy


class Phase(NamedTuple):
    """Bytes that move together: first ``latency_ps``, then all loads at one pace, that of the scarcest link."""

    latency_ps: int
    loads: tuple[Load, ...] = ()


class Transfer(NamedTuple):
    """How an activity moves: phases of the program, by number, one after another.

    ``delay_ps`` comes last and blocks nobody: what waits for the data waits for it, the streams do not.
    """

    group: str
    phases: tuple[int, ...]
    delay_ps: int = 0


class Stream(NamedTuple):
    """One queue of a rank: in-order streams run ``ops`` as listed, the others in the order in which they become possible."""

    rank: int
    name: str
    in_order: bool
    ops: np.ndarray


@dataclass(frozen=True)
class Links:
    """The links in use, by the positions that loads name; each stands for ``multiplicity`` links of the cluster."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    capacities_bytes_s: tuple[int, ...]
    multiplicity: tuple[int, ...]


@dataclass(frozen=True)
class Memory:
    """Columns: ``rank`` holds so many ``bytes`` of a kind (``what``, a code of :mod:`clustersim.program.kinds`) from the start of
    op ``begin`` to the end of op ``end``; -1 is the beginning, and for good. One change of an op's memory at each end.
    """

    rank: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    what: np.ndarray
    bytes: np.ndarray


NO_MEMORY = Memory(*(np.zeros(0, dtype=np.int64) for _ in range(5)))


@dataclass(frozen=True)
class Program:
    """Columns by op, dependencies, transfers by activity, streams.

    ``rank`` holds global rank numbers, ``stream`` positions in ``streams``, ``kind`` and ``part`` codes of
    :mod:`clustersim.program.kinds`; ``bytes`` is what the rank itself sends, ``activity`` is -1 for compute.
    ``dependency_op[i]`` waits for ``dependency_on[i]``. ``simulated_as``: for each rank of the job
    the one in here that stands for it; ``apart`` says why ranks that might be alike are not, one reason a line. Beside a
    collective of its rank compute takes 1 + ``slowdown_ppm``/10^6 times as long.
    """

    rank: np.ndarray
    stream: np.ndarray
    kind: np.ndarray
    part: np.ndarray
    stage: np.ndarray
    layer: np.ndarray
    micro_batch: np.ndarray
    duration_ps: np.ndarray
    bytes: np.ndarray
    flops: np.ndarray
    peer: np.ndarray
    activity: np.ndarray
    dependency_op: np.ndarray
    dependency_on: np.ndarray
    activity_transfer: np.ndarray
    transfers: tuple[Transfer, ...]
    phases: tuple[Phase, ...]
    streams: tuple[Stream, ...]
    links: Links
    simulated_as: np.ndarray
    memory: Memory = NO_MEMORY
    apart: tuple[str, ...] = ()
    slowdown_ppm: int = 0

    def link_bytes(self) -> list[int]:
        """By link, the payload that crosses it in the step, to the nearest byte."""
        times = np.bincount(self.activity_transfer, minlength=len(self.transfers)).tolist()
        of_phase = [0] * len(self.phases)
        for transfer, count in zip(self.transfers, times, strict=True):
            for phase in transfer.phases:
                of_phase[phase] += count
        moved = [Fraction(0)] * len(self.links.names)
        for moves, count in zip(self.phases, of_phase, strict=True):
            for load in moves.loads:
                moved[load.link] += count * load.connections * load.volume_bytes
        return [round(size) for size in moved]

    @property
    def multiplicity(self) -> dict[int, int]:
        """For how many ranks of the job each simulated rank stands."""
        ranks, counts = np.unique(self.simulated_as, return_counts=True)
        return dict(zip(ranks.tolist(), counts.tolist(), strict=True))

    @property
    def ops(self) -> int:
        return len(self.rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The simulated ranks, ascending."""
        return tuple(np.unique(self.rank).tolist())
