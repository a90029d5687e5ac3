"""Directed links and what they can carry."""

from __future__ import annotations

from dataclasses import dataclass, replace

LINK_KINDS = ("nvlink", "pcie", "network")


@dataclass(frozen=True)
class Rate:
    """What links of one sort have in common: nominal payload bytes/s in one direction, of which ``efficiency`` is reached.

    >>> Rate("network", 25_000_000_000, 350_000, 0.96).capacity_bytes_s
    24000000000
    """

    kind: str
    bandwidth_bytes_s: int
    latency_ps: int
    efficiency: float = 1.0

    @property
    def capacity_bytes_s(self) -> int:
        return max(1, round(self.bandwidth_bytes_s * self.efficiency))

    def times(self, factor: float) -> Rate:
        """``factor`` such links side by side, or a part of one."""
        return replace(self, bandwidth_bytes_s=max(1, round(self.bandwidth_bytes_s * factor)))

    def link(self, source: str, target: str) -> Link:
        return Link(f"{source}>{target}", source, target, self.kind, self.bandwidth_bytes_s, self.latency_ps, self.efficiency)

    def both_ways(self, a: str, b: str) -> list[Link]:
        return [self.link(a, b), self.link(b, a)]


@dataclass(frozen=True)
class Link:
    """One direction of a link: payload bytes/s, nominal; ``capacity_bytes_s`` is what large messages reach.

    >>> Link("nic0>network", "nic0", "network", "network", 25_000_000_000, 350_000, 0.96).capacity_bytes_s
    24000000000
    """

    name: str
    source: str
    target: str
    kind: str
    bandwidth_bytes_s: int
    latency_ps: int
    efficiency: float = 1.0

    @property
    def rate(self) -> Rate:
        return Rate(self.kind, self.bandwidth_bytes_s, self.latency_ps, self.efficiency)

    @property
    def capacity_bytes_s(self) -> int:
        return self.rate.capacity_bytes_s
