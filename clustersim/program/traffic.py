"""What travels: payloads in bytes on one rank."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """What one pass (a micro-batch, or a slice of one) hands from layer to layer, what of it a rank sends to the next stage, and
    by layer its weights, which are as many bytes as its gradients.

    When ``message_bytes`` is less than ``activation_bytes``, the tensor ranks gather the whole on arrival.
    """

    activation_bytes: int
    message_bytes: int
    layer_bytes: tuple[int, ...]
