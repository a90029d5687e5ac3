"""What travels: payloads in bytes on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Inner(NamedTuple):
    """A collective inside a layer: the kind of its op, the dimension of the grid, what it does, its payload."""

    kind: str
    dimension: str
    collective: str
    payload_bytes: int


@dataclass(frozen=True)
class Traffic:
    """Messages between stages, state by layer, and the collectives inside layers by the names that segments of compute use.

    ``message_bytes`` of one pass (a micro-batch, or a slice of one) go to the next stage; where ``gathered`` is a name, that
    collective makes them whole on arrival. ``layer_bytes`` are the weights of each layer, ``expert_bytes`` those of its experts on
    this rank, which only some of the copies share; gradients travel in ``gradient_ratio`` times as many bytes.
    """

    message_bytes: int
    layer_bytes: tuple[int, ...]
    expert_bytes: tuple[int, ...] = ()
    inner: Mapping[str, Inner] = field(default_factory=dict)
    gathered: str | None = None
    gradient_ratio: float = 1.0
