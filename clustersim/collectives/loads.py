"""A collective laid over the links of a cluster: what it loads, and how long it takes when nobody else is there."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from clustersim.cluster.routes import ONE
from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import Phase, flat, plan
from clustersim.collectives.layout import lay_out
from clustersim.units import transfer_ps

Carried = dict[int, Fraction]
"""By link, the share of the payload that crosses it."""


class LaidPhase(NamedTuple):
    """One phase of a group: its latency, what each member's messages load, and the sum."""

    latency_ps: int
    by_member: tuple[Carried, ...]
    total: Carried


def lay_phases(cluster: Cluster, group: Sequence[int], op: str, algorithm: str) -> list[LaidPhase]:
    """The phases of a collective of ``group`` (GPU numbers). ValueError when the algorithm cannot do it."""
    layout = flat(len(group)) if op == "send" else lay_out(cluster, group)
    return [_lay(cluster, group, phase) for phase in plan(op, algorithm, layout)]


def _lay(cluster: Cluster, group: Sequence[int], phase: Phase) -> LaidPhase:
    by_member = []
    total: Carried = {}
    latencies = []
    for member, sends in enumerate(phase.sends):
        own: Carried = {}
        for to, share in sends:
            route = cluster.route(group[member], group[to])
            latencies.append(route.latency_ps)
            for link, part in route.links:
                _add(own, link, share if part is ONE else share * part)
        for link, share in own.items():
            _add(total, link, share)
        by_member.append(own)
    hop_ps = max(*latencies, cluster.link_delay_ps) if latencies else cluster.link_delay_ps
    return LaidPhase(phase.steps * hop_ps, tuple(by_member), total)


def _add(carried: Carried, link: int, share: Fraction) -> None:
    # Most links are crossed once, and sums of fractions are slow.
    carried[link] = carried[link] + share if link in carried else share


def alone_ps(cluster: Cluster, group: Sequence[int], op: str, algorithm: str, payload_bytes: int) -> int:
    """The time of a collective that meets no other traffic, in ps: for each phase its latency, then the bytes on its slowest link.

    >>> from clustersim.cluster.load import check_cluster
    >>> alone_ps(check_cluster("paper-a100"), range(16), "all_reduce", "ring", 16 * 10**9)
    100000000000
    """
    return sum(phase_ps(cluster, phase, payload_bytes) for phase in lay_phases(cluster, group, op, algorithm))


def phase_ps(cluster: Cluster, phase: LaidPhase, payload_bytes: int) -> int:
    """The time of one phase, alone."""
    slowest = max((Fraction(share, cluster.link_figures(link)[1]) for link, share in phase.total.items()), default=Fraction(0))
    bytes_ps = transfer_ps(payload_bytes * slowest.numerator, slowest.denominator) if slowest else 0
    return phase.latency_ps + bytes_ps
