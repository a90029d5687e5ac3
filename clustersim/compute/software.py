"""A generation of training software: which kernels it runs, how often they pass over their data, what it keeps in memory.

>>> software = load_software("megatron-2022")
>>> software.attention, software.norm
('unfused', Passes(forward=2.0, backward=5.0))
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from clustersim import document
from clustersim.compute.footprint import KEYS as MEMORY_KEYS
from clustersim.compute.footprint import Footprint, read_footprint
from clustersim.document import Document, Section
from clustersim.errors import InputError

ATTENTION = ("unfused", "flash")
SELECTIVE = ("core", "products")
_FOLDER = Path(__file__).resolve().parent.parent / "software"


@dataclass(frozen=True)
class Passes:
    """How often an operation reads or writes its data, forward and backward; one pass is one read or one write of an element."""

    forward: float
    backward: float


@dataclass(frozen=True)
class Software:
    """``attention`` writes the scores (``unfused``) or not (``flash``); ``causal`` kernels leave out what lies above the diagonal.

    Passes are over the data that each operation's name says: ``norm``, ``residual`` (without dropout) and ``dropout`` (with it and with
    the residual) over the hidden state, ``activation`` and ``gated_activation`` over the inner size of the MLP, ``scores`` over every
    score, ``rotary`` over queries and keys, ``bias`` over the output of a matrix, ``permute`` over the copies of the tokens that
    experts get, ``loss`` over the logits in 32 bits, ``embedding`` over the hidden state. ``optimizer_bytes`` are moved per
    parameter and step, ``gradient_bytes`` more where there are replicas, whose gradients are packed, divided and unpacked. For ``fork_s``
    the GPU waits for its host at every dropout of attention, for ``checkpoint_s`` at every layer that is computed again, for
    ``update_s`` at every layer that the optimizer updates. With ``beside_weights`` the tensor-parallel collectives of the backward that
    give the gradient of a block's input run beside the gradients of its weights. ``selective`` recompute repeats the ``core`` of the
    attention (arXiv 2205.05198), or every second of the matrix ``products`` and what lies between them, and keeps the attention
    (torchtitan).
    """

    name: str
    description: str
    attention: str
    causal: bool
    norm: Passes
    residual: Passes
    dropout: Passes
    activation: Passes
    gated_activation: Passes
    scores: Passes
    rotary: Passes
    bias: Passes
    permute: Passes
    loss: Passes
    embedding: Passes
    optimizer_bytes: int
    gradient_bytes: int
    fork_s: float
    checkpoint_s: float
    update_s: float
    beside_weights: bool
    selective: str
    memory: Footprint


_PASSES = tuple(field.name for field in fields(Software) if field.type == "Passes")
_TIMES = ("fork", "checkpoint", "update")
_KEYS = ("description", "attention", "causal", *_PASSES, *_TIMES, "optimizer", "gradients", "beside_weights", "selective", "memory")


def software_names() -> list[str]:
    """The generations that come with the product, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


@lru_cache(maxsize=32)
def load_software(name: str) -> Software:
    """A shipped generation by its name. InputError, with what is allowed, for an unknown one."""
    known = software_names()
    if name not in known:
        raise InputError(f"unknown software {document.shown(name)}{document.nearest(name, known)}; allowed: {', '.join(known)}")
    top = _read(name).section("", _KEYS)
    times: dict[str, Any] = {f"{key}_s": top.quantity(key, "time", 0.0) for key in _TIMES}
    passes: dict[str, Any] = {key: _read_passes(top, key) for key in _PASSES}
    return Software(
        name=name,
        description=top.text("description"),
        attention=top.choice("attention", ATTENTION),
        causal=top.boolean("causal"),
        selective=top.choice("selective", SELECTIVE),
        beside_weights=top.boolean("beside_weights"),
        optimizer_bytes=int(top.quantity("optimizer", "size")),
        gradient_bytes=int(top.quantity("gradients", "size", 0)),
        **times,
        memory=read_footprint(top.section("memory", MEMORY_KEYS)),
        **passes,
    )


def _read(name: str) -> Document:
    """The file of a generation; what it leaves out is that of the one that it is ``like``, key by key in ``memory``."""
    read = document.load(_FOLDER / f"{name}.yaml")
    if "like" not in read.data:
        return read
    own, base = read.data, _read(read.section("", ("like", *_KEYS)).choice("like", software_names())).data
    merged = {**base, **own, "memory": {**base["memory"], **own.get("memory", {})}}
    return replace(read, data={key: value for key, value in merged.items() if key != "like"})


def _read_passes(top: Section, key: str) -> Passes:
    section = top.section(key, ("forward", "backward"))
    return Passes(*(section.number(way, high=1000, closed=True) for way in ("forward", "backward")))
