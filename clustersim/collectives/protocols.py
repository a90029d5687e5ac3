"""Protocols: how a library moves a message over a link, as data of the cluster.

A collective costs ``base`` once, each of its steps the latency of its route and ``hop`` more, and each byte of payload ``wire`` bytes on
the links. The library picks the protocol that is fastest for the size; so does :func:`fastest`. A cluster without protocols
has bare links: no base, no extra, every byte once.

>>> PLAIN.step_ps("nvlink")
0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from clustersim.document import Section, shown
from clustersim.units import to_ps


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


IN_SWITCH = "in_switch"
"""The hop to a switch that reduces, and back."""
_HOPS = ("nvlink", "pcie", "network", IN_SWITCH)
_MOST_WIRE = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


def read_protocols(collectives: Section) -> tuple[Protocol, ...]:
    """``protocols`` by name: ``base`` and, by link kind, what a step costs, as times; ``wire`` as a number of at least 1."""
    given = collectives.raw("protocols", {})
    if not isinstance(given, Mapping):
        expected = "a mapping of names to what they cost, for example {simple: {base: 8.4 us, nvlink: 2.8 us}}"
        collectives.error("protocols", f"expected {expected}, got {shown(given)}")
    for name in given:
        if not _NAME.fullmatch(name):
            collectives.error("protocols", f"{shown(name)} is no name for a protocol; allowed: letters, digits, _ -, at most 40")
    section = collectives.section("protocols", tuple(given))
    return tuple(_read(section, name) for name in given)


def _read(section: Section, name: str) -> Protocol:
    one = section.section(name, ("base", *_HOPS, "wire"))
    if not one.data:
        section.error(name, f"a protocol that costs nothing would always be taken; expected some of base, {', '.join(_HOPS)}, wire")
    wire = one.number("wire", 1.0, low=0.0, high=_MOST_WIRE)
    if wire < 1:
        one.error("wire", f"a byte of payload takes at least one on the wire, got {wire:g}; allowed: 1 to {_MOST_WIRE:g}")
    hops = tuple((kind, to_ps(one.quantity(kind, "time", 0.0))) for kind in _HOPS)
    return Protocol(name, to_ps(one.quantity("base", "time", 0.0)), hops, Fraction(wire).limit_denominator(10**6))
