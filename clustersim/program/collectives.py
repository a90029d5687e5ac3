"""What a collective moves. Rings only, in the order of the group.

Times for n members, payload S, latency a of one hop, b bytes/s per link: all-reduce 2(n-1)(a + S/(n b)); reduce-scatter and
all-gather (S the large side) half of that; send a + S/b.
"""

from __future__ import annotations

from fractions import Fraction

_ROUNDS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}


def steps(collective: str, members: int) -> int:
    """Messages that follow one another: round the ring, or one for a send.

    >>> steps("all_reduce", 8), steps("send", 2)
    (14, 1)
    """
    return 1 if collective == "send" else _ROUNDS[collective] * (members - 1)


def sent_bytes(collective: str, members: int, payload_bytes: int) -> Fraction:
    """Bytes that each member sends to the next.

    >>> sent_bytes("all_reduce", 8, 1000), sent_bytes("all_gather", 8, 1000)
    (Fraction(1750, 1), Fraction(875, 1))
    """
    return Fraction(payload_bytes) if collective == "send" else Fraction(steps(collective, members) * payload_bytes, members)
