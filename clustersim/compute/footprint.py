"""What a generation of software keeps in memory: bytes of a parameter, copies of the logits, what is in use beside tensors.

>>> from clustersim import document
>>> section = document.loads('''
... state: {bf16: {weights: 2 B, gradients: 4 B, optimizer: 12 B, reduced: 4 B}}
... gathers_master: false
... logits: {kept: 4 B, most: 10 B}
... keeps_sent: false
... keeps_outputs: false
... keeps_gathered: false
... context: 550 MiB
... communicator: 688 MB
... unused: 0.04
... ''', "example.yaml").section("", KEYS)
>>> footprint = read_footprint(section)
>>> footprint.of("bf16"), footprint.communicator_bytes
((StateBytes(weights=2, gradients=4, optimizer=12), 4), 688000000)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.document import Section
from clustersim.model.memory import PRECISIONS, StateBytes, state_bytes

_STATE = ("weights", "gradients", "optimizer", "reduced")
KEYS = ("state", "gathers_master", "logits", "keeps_sent", "keeps_outputs", "keeps_gathered", "context", "communicator", "unused")


@dataclass(frozen=True)
class Footprint:
    """``state`` has the bytes of a parameter by precision, and those in which its gradient travels; with ``gathers_master`` partitioned
    parameters are cast from the 32-bit master as they are gathered, and no 16-bit part is kept.

    Of a logit ``logits_kept_bytes`` stay until its gradient has reached the weights, ``logits_most_bytes`` are alive at once in the loss,
    ``logits_parallel_bytes`` where tensor ranks divide the vocabulary. With ``keeps_sent`` a stage keeps its output from when it is sent
    to the backward, with ``keeps_outputs`` selective recompute keeps the output of the MLP's last product, which no backward needs, with
    ``keeps_gathered`` what sequence parallelism gathers stays whole. ``context_bytes`` are those of CUDA and its libraries,
    ``communicator_bytes`` those of one communicator of NCCL, and ``unused`` is the part by which the allocator holds more than tensors.
    """

    state: Mapping[str, tuple[StateBytes, int]]
    gathers_master: bool
    logits_kept_bytes: int
    logits_most_bytes: int
    logits_parallel_bytes: int
    keeps_sent: bool
    keeps_outputs: bool
    keeps_gathered: bool
    context_bytes: int
    communicator_bytes: int
    unused: float

    def of(self, precision: str) -> tuple[StateBytes, int]:
        """Bytes of a parameter, and of its gradient on the way; as :func:`state_bytes` has them where the file does not say."""
        state = state_bytes(precision)
        return self.state.get(precision, (state, state.gradients))


def read_footprint(section: Section) -> Footprint:
    """From the ``memory:`` section of a software file. InputError where it is wrong."""
    state, logits = section.section("state", PRECISIONS), section.section("logits", ("kept", "most", "parallel"))
    kept, most = (int(logits.quantity(key, "size")) for key in ("kept", "most"))
    if most < kept:
        logits.error("most", "less than what is kept; allowed: at least as much")
    return Footprint(
        state={precision: _read_state(state.section(precision, _STATE)) for precision in state.data},
        gathers_master=section.boolean("gathers_master"),
        logits_kept_bytes=kept,
        logits_most_bytes=most,
        logits_parallel_bytes=int(logits.quantity("parallel", "size", most)),
        keeps_sent=section.boolean("keeps_sent"),
        keeps_outputs=section.boolean("keeps_outputs"),
        keeps_gathered=section.boolean("keeps_gathered"),
        context_bytes=int(section.quantity("context", "size")),
        communicator_bytes=int(section.quantity("communicator", "size")),
        unused=section.number("unused", closed=True),
    )


def _read_state(section: Section) -> tuple[StateBytes, int]:
    *state, reduced = (int(section.quantity(key, "size")) for key in _STATE)
    return StateBytes(*state), reduced
