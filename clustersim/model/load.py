"""The model that an experiment names: a preset, a Hugging Face ``config.json``, or a mapping in the file itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.document import Document, Section, shown
from clustersim.model import huggingface
from clustersim.model.presets import preset
from clustersim.model.shape import MAX_SIZE, read_shape
from clustersim.model.spec import LLAMA, Model

KEYS = ("name", "layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "gated", "vocab", "experts", "top_k")
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
        document.error(path, f"expected the name of a model, a path to a config.json, or a mapping, got {shown(value)}")
    if "/" in value or value.endswith(".json"):
        for candidate in (near / value, Path(value)):
            if os.path.isfile(candidate):
                return huggingface.load_config(candidate)
        document.error(path, f"no such model file: {shown(value)}")
    try:
        return preset(value)
    except ValueError as error:
        document.error(path, str(error))


def _inline(document: Document, path: str, sequence: int | None) -> Model:
    """A plain GPT where nothing else is said; with ``gated`` the rest is Llama's too: RMS norm, no biases, rotary, untied."""
    section = document.section(path, KEYS)
    _refuse_experts(section)
    shape = read_shape(section, {name: (name,) for name in KEYS})
    gated = section.boolean("gated", False)
    return Model(
        name=section.text("name", "inline"),
        **shape,
        ffn=section.integer("ffn", 4 * shape["hidden"], maximum=MAX_SIZE),
        vocab=section.integer("vocab", DEFAULT_VOCAB, minimum=0, maximum=MAX_SIZE),
        sequence=sequence,
        **(LLAMA if gated else {"learned_positions": sequence or 0}),
    )


def _refuse_experts(section: Section) -> None:
    for key in ("experts", "top_k"):
        if section.integer(key, 1) > 1:
            section.error(key, f"mixture-of-experts is not supported yet; allowed: 1, got {section.raw(key)}")
