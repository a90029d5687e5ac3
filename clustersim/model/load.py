"""The model that an experiment names: a preset, a Hugging Face ``config.json``, or a mapping in the file itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.document import Document, Section, shown
from clustersim.errors import InvalidValueError
from clustersim.model import huggingface
from clustersim.model.presets import preset
from clustersim.model.shape import MAX_EXPERTS, MAX_SIZE, read_shape, read_top_k
from clustersim.model.spec import LLAMA, Model

_EXPERT_KEYS = ("top_k", "expert_ffn", "shared_experts", "shared_ffn", "dense_layers", "moe_every")
KEYS = ("name", "layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "gated", "vocab", "experts", *_EXPERT_KEYS)
DEFAULT_VOCAB = 51200
"""GPT-2's vocabulary padded for tensor parallelism, as in the Megatron-LM papers."""


def load_model(value: Any, document: Document, path: str, near: Path, sequence: int | None = None) -> Model:
    """The model that ``value``, found at the key ``path`` of ``document``, stands for.

    ``value`` is a preset's name, a path to a config.json (with a ``/`` or ending in ``.json``; relative to ``near``, then
    to the working folder) or a mapping (read from ``document``). ``sequence`` is the length, in tokens, that the
    experiment trains at, if it says so: an inline GPT learns as many positions. InputError, with file and line, for
    everything else.

    >>> document = Document({"model": {"layers": 2, "hidden": 64, "heads": 4, "vocab": 1000}}, "experiment.yaml")
    >>> load_model(document.data["model"], document, "model", Path(".")).parameters
    164096
    >>> load_model("llama2-7b", document, "model", Path(".")).name
    'llama2-7b'
    """
    if isinstance(value, Mapping):
        return _inline(document, path, sequence)
    if not isinstance(value, str):
        document.error(path, f"expected the name of a model, a path to a config.json, or a mapping, got {shown(value)}", InvalidValueError)
    if "/" in value or value.endswith(".json"):
        for candidate in (near / value, Path(value)):
            if os.path.isfile(candidate):
                return huggingface.load_config(candidate)
        document.error(path, f"no such model file: {shown(value)}", InvalidValueError)
    try:
        return preset(value)
    except ValueError as error:
        document.error(path, str(error), InvalidValueError)


def _inline(document: Document, path: str, sequence: int | None) -> Model:
    """A plain GPT where nothing else is said; with ``gated`` the rest is Llama's too: RMS norm, no biases, rotary, untied."""
    section = document.section(path, KEYS)
    shape = read_shape(section, {name: (name,) for name in KEYS})
    gated = section.boolean("gated", False)
    ffn = section.integer("ffn", 4 * shape["hidden"], maximum=MAX_SIZE)
    return Model(
        name=section.text("name", "inline"),
        **shape,
        ffn=ffn,
        vocab=section.integer("vocab", DEFAULT_VOCAB, minimum=0, maximum=MAX_SIZE),
        sequence=sequence,
        **(LLAMA if gated else {"learned_positions": sequence or 0}),
        **_experts(section, shape["layers"], ffn),
    )


def _experts(section: Section, layers: int, ffn: int) -> dict[str, Any]:
    """The fields of a mixture of experts; none where ``experts`` is 0, 1 or left out, for that is a dense model."""
    experts = section.integer("experts", 0, minimum=0, maximum=MAX_EXPERTS)
    if experts < 2:
        for key in _EXPERT_KEYS:
            if key in section and section.raw(key) != 1:
                section.error(key, f"belongs to a mixture of experts; expected experts of 2 or more beside it, got {experts}")
        return {}
    expert_ffn = section.integer("expert_ffn", ffn, maximum=MAX_SIZE)
    return {
        "experts": experts,
        "top_k": read_top_k(section, "top_k", "experts", experts),
        "expert_ffn": expert_ffn,
        "shared_ffn": _shared_ffn(section, expert_ffn),
        "dense_layers": section.integer("dense_layers", 0, minimum=0, maximum=layers - 1),
        "moe_every": section.integer("moe_every", 1, maximum=layers),
    }


def _shared_ffn(section: Section, expert_ffn: int) -> int:
    """Shared experts are given by their number, each as large as a routed one, or by their inner size taken together."""
    shared = section.integer("shared_experts", 0, minimum=0, maximum=MAX_EXPERTS)
    if "shared_ffn" not in section:
        return shared * expert_ffn
    if "shared_experts" in section:
        section.error("shared_ffn", "expected shared_ffn or shared_experts, not both")
    return section.integer("shared_ffn", minimum=0, maximum=MAX_SIZE)
