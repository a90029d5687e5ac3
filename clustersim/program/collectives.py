"""What a collective costs on the links of a cluster: its latency, its slowest link, its bytes on each link.

Rings only, in the order of the group. Times for n members, payload S, latency a of one hop, b bytes/s per link:
all-reduce 2(n-1)(a + S/(n b)); reduce-scatter and all-gather (S the large side) half of that; send a + S/b.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from clustersim.cluster.spec import Cluster
from clustersim.units import transfer_ps

_ROUNDS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}


def steps(collective: str, members: int) -> int:
    """Rounds of messages of a ring, or 1 for a send."""
    return 1 if collective == "send" else _ROUNDS[collective] * (members - 1)


def sent_bytes(collective: str, members: int, payload_bytes: int) -> Fraction:
    """Bytes that each member sends.

    >>> sent_bytes("all_reduce", 8, 1000)
    Fraction(1750, 1)
    """
    return Fraction(payload_bytes) if collective == "send" else Fraction(steps(collective, members) * payload_bytes, members)


@dataclass(frozen=True)
class Path:
    """The hops of a group: per hop its links, the latency of the slowest hop, and how many hops use the busiest links.

    ``slowest`` is the greatest (uses / capacity) of any link, in seconds per byte, 0 without links.
    """

    hops: tuple[tuple[int, ...], ...]
    hop_latency_ps: int
    slowest: Fraction

    @property
    def figures(self) -> tuple[int, Fraction]:
        """What decides the time: groups with equal figures take equally long."""
        return self.hop_latency_ps, self.slowest


def path(cluster: Cluster, group: tuple[int, ...], ring: bool) -> Path:
    """Hops from each member to the next: around for a ring, from the first to the second for a send."""
    ends = group[1:] + group[:1] if ring else group[1:]
    hops = tuple(cluster.route(a, b) for a, b in zip(group, ends, strict=False))
    uses = Counter(link for hop in hops for link in hop)
    latency = max(sum(cluster.link(link).latency_ps for link in hop) for hop in hops)
    slowest = max((Fraction(count, cluster.link(link).capacity_bytes_s) for link, count in uses.items()), default=Fraction(0))
    return Path(hops, max(latency, cluster.link_delay_ps), slowest)


def bytes_time_ps(volume_bytes: Fraction, slowest: Fraction) -> int:
    """Time of the bytes of one hop over the slowest link, rounded to the nearest ps."""
    if not slowest:
        return 0
    return transfer_ps(volume_bytes * slowest.numerator, slowest.denominator)
