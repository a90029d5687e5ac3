"""Protocols: how a library moves a message over a link, as data of the cluster.

A collective costs ``base`` once, each of its steps the latency of its route and ``hop`` more, and each byte of payload ``wire`` bytes on
the links. The library picks the protocol that is fastest for the size; so does :func:`fastest`. A cluster without protocols
has bare links: no base, no extra, every byte once.

>>> PLAIN.step_ps("nvlink")
0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Protocol:
    """``base_ps`` per collective, ``hop_ps`` by link kind per step, ``wire`` bytes on a link for each of the payload."""

    name: str
    base_ps: int
    hop_ps: tuple[tuple[str, int], ...]
    wire: Fraction

    def step_ps(self, kind: str) -> int:
        """What a step over a hop of this kind takes beyond the route's latency."""
        return dict(self.hop_ps).get(kind, 0)


PLAIN = Protocol("plain", 0, (), Fraction(1))


def fastest(protocols: Sequence[Protocol], time_ps: Callable[[Protocol], int]) -> Protocol:
    """The protocol with the least time, the first of equal ones; ``PLAIN`` where there are none."""
    return min(protocols, key=time_ps, default=PLAIN)
