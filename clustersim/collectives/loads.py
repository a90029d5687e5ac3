"""A collective laid over the links of a cluster: what it loads, and how long it takes when nobody else is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from clustersim.cluster.routes import ONE
from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import ALGORITHMS, Phase, able, algorithms_for, flat, plan
from clustersim.collectives.layout import lay_out
from clustersim.collectives.protocols import IN_SWITCH, Protocol, fastest
from clustersim.units import transfer_ps

Carried = dict[int, Fraction]
"""By link, the share of the payload that crosses it."""


HOST_OPS = ("offload", "fetch")
_MOST_DIRECT = 256


class Hop(NamedTuple):
    """Messages of one kind in a phase: the latency of their route, the kind of its slowest part, how many members send one."""

    latency_ps: int
    kind: str
    count: int  # type: ignore[assignment]  # a tuple's method of the same name is not used

class Pace(NamedTuple):
    """The latency of a phase: ``steps`` messages that follow one another over ``hops``.

    A ring's messages go over all hops in turn, so that a step costs their mean; otherwise all wait for the slowest.
    """

    steps: int
    turns: bool
    hops: tuple[Hop, ...]

    def latency_ps(self, protocol: Protocol) -> int:
        """Rounded to the nearest ps."""
        times = [(hop.latency_ps + protocol.step_ps(hop.kind), hop.count) for hop in self.hops]
        if not self.turns:
            return self.steps * max(time for time, _ in times)
        total, count = sum(time * count for time, count in times), sum(count for _, count in times)
        return (2 * self.steps * total + count) // (2 * count)


class LaidPhase(NamedTuple):
    """One phase of a group: its pace, what each member's messages load, the sum, and how much longer than their bytes they hold it.

    ``parts``: by link the part of a connection that crosses it, the greatest of any message; only where it is not the whole.
    """

    pace: Pace
    by_member: tuple[Carried, ...]
    total: Carried
    occupancy: Fraction
    parts: Carried


def lay_phases(
    cluster: Cluster, group: Sequence[int], op: str, algorithm: str, or_ring: bool = False, flow: int = 0
) -> list[LaidPhase]:
    """The phases of a collective of ``group`` (GPU numbers). ``flow`` numbers what one pair sends for different ends, for hashed routes.

    A group of one GPU can ``offload`` to its host's memory, and ``fetch`` back.

    When the algorithm cannot do it: ``multi-ring``, if ``or_ring``, else ValueError.
    """
    if op in HOST_OPS:
        return [_lay_host(cluster, group[0], op)]
    layout = flat(len(group)) if op == "send" else lay_out(cluster, group)
    if or_ring:
        algorithm = able(op, algorithm, layout)
    return [_lay(cluster, group, phase, flow) for phase in plan(op, algorithm, layout)]


def _lay(cluster: Cluster, group: Sequence[int], phase: Phase, flow: int) -> LaidPhase:
    by_member = []
    total: Carried = {}
    parts: Carried = {}
    whole: set[int] = set()
    hops: Counter[tuple[int, str]] = Counter()
    for member, sends in enumerate(phase.sends):
        own: Carried = {}
        for channel, (to, share) in enumerate(sends):
            route = cluster.route(group[member], group[to], flow + channel)
            kind = _kind(cluster, route.links)
            if phase.in_switch and kind == "nvlink":
                kind = IN_SWITCH
            hops[max(route.latency_ps, cluster.link_delay_ps), kind] += 1
            for link, part in route.links:
                _add(own, link, share if part is ONE else share * part)
                if part is ONE:
                    whole.add(link)
                else:
                    parts[link] = max(part, parts.get(link, part))
        for link, share in own.items():
            _add(total, link, share)
        by_member.append(own)
    pace = Pace(phase.steps, phase.turns, tuple(sorted(Hop(*hop, count) for hop, count in hops.items())))
    return LaidPhase(pace, tuple(by_member), total, phase.occupancy, {link: part for link, part in parts.items() if link not in whole})


def _lay_host(cluster: Cluster, gpu: int, op: str) -> LaidPhase:
    route = cluster.host_route(gpu, out=op == "offload")
    carried = dict(route.links)
    pace = Pace(1, False, (Hop(route.latency_ps, _kind(cluster, route.links), 1),))
    return LaidPhase(pace, (carried,), carried, ONE, {link: part for link, part in route.links if part != ONE})


def _kind(cluster: Cluster, links: tuple[tuple[int, Fraction], ...]) -> str:
    """The slowest kind on a route: between nodes the middle of it, inside one its first link; none on an ideal cluster."""
    kinds = {cluster.link_figures(link)[0] for link in (links[0][0], links[len(links) // 2][0])} if links else {""}
    return next(kind for kind in ("network", "pcie", "nvlink", "") if kind in kinds)


def _add(carried: Carried, link: int, share: Fraction) -> None:
    # Most links are crossed once, and sums of fractions are slow.
    carried[link] = carried[link] + share if link in carried else share


def bytes_ps(slowest: Fraction, payload_bytes: int, protocol: Protocol) -> int:
    """Time of the bytes of a phase; ``slowest`` as :func:`slowest_link` says."""
    held = slowest * protocol.wire
    return transfer_ps(payload_bytes * held.numerator, held.denominator) if held else 0


def slowest_link(loads: Iterable[tuple[Fraction, int]]) -> Fraction:
    """Seconds that a byte of payload takes on the slowest of links, given as (share of the payload, capacity in bytes/s).

    The shares are to live as long as the loads: those of plans are few, each for many links.
    """
    distinct = {(id(share), capacity): share for share, capacity in loads}
    return max((share / capacity for (_, capacity), share in distinct.items()), default=Fraction(0))


def time_ps(phases: Sequence[tuple[Pace, Fraction]], payload_bytes: int) -> Callable[[Protocol], int]:
    """The time of phases, one after another, under a protocol; of each its pace and its :func:`slowest_link`."""

    def under(protocol: Protocol) -> int:
        parts = [pace.latency_ps(protocol) + bytes_ps(slowest, payload_bytes, protocol) for pace, slowest in phases]
        return sum(parts) + (protocol.base_ps if parts else 0)

    return under


def alone_phases(cluster: Cluster, group: Sequence[int], op: str, algorithm: str) -> list[tuple[Pace, Fraction]]:
    """The phases of a collective that meets no other traffic, as :func:`time_ps` takes them."""
    return [
        (phase.pace, phase.occupancy * slowest_link((share, cluster.link_figures(link)[1]) for link, share in phase.total.items()))
        for phase in lay_phases(cluster, group, op, algorithm)
    ]


def alone_ps(cluster: Cluster, group: Sequence[int], op: str, algorithm: str, payload_bytes: int) -> int:
    """The time of a collective that meets no other traffic, in ps, under the protocol that is fastest for it.

    >>> from clustersim.cluster.load import check_cluster
    >>> alone_ps(check_cluster("paper-a100"), range(16), "all_reduce", "ring", 16 * 10**9)
    100000000000
    """
    under = time_ps(alone_phases(cluster, group, op, algorithm), payload_bytes)
    return under(fastest(cluster.protocols, under))


def fastest_algorithm(cluster: Cluster, group: Sequence[int], op: str, payload_bytes: int) -> str:
    """Of the algorithms that the cluster's library has, the one with the least time alone, the first of equal ones.

    Where it has none for this operation and group, of all; in large groups ``direct``, whose messages grow with the square of the
    members, only where there is no other.
    """
    if cluster.ideal:
        return able(op, "multi-ring", flat(len(group)))
    known = algorithms_for(op, lay_out(cluster, group))
    own = [name for name in cluster.algorithms if name in known]
    candidates = own or [name for name in ALGORITHMS if name in known]
    if len(group) > _MOST_DIRECT and len(candidates) > 1:
        candidates = [name for name in candidates if name != "direct"]
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda name: alone_ps(cluster, group, op, name, payload_bytes))
