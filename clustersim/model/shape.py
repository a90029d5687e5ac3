"""The shape of a model as a file gives it, under whatever names, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clustersim.document import Section

MAX_LAYERS = 100_000
MAX_SIZE = 10**8
MAX_EXPERTS = 100_000

Names = Mapping[str, Sequence[str]]
"""For each field of a model the keys that may hold it, in order of preference."""


def key_of(section: Section, names: Sequence[str]) -> str:
    """The first of ``names`` that has a value, or the first one, so that an error names it."""
    return next((name for name in names if name in section), names[0])


def read_shape(section: Section, names: Names) -> dict[str, Any]:
    """``layers, hidden, heads, kv_heads, head_size`` as arguments of a Model; InputError at the key that is wrong.

    ``kv_heads`` defaults to the heads, ``head_size`` to hidden/heads, which must then be whole.

    >>> from clustersim.document import Document
    >>> section = Document({"layers": 2, "hidden": 64, "heads": 4}, "model.yaml").section("", ("layers", "hidden", "heads"))
    >>> read_shape(section, {name: (name,) for name in ("layers", "hidden", "heads", "kv_heads", "head_size")})
    {'layers': 2, 'hidden': 64, 'heads': 4, 'kv_heads': 4, 'head_size': 16}
    """
    layers = section.integer(key_of(section, names["layers"]), maximum=MAX_LAYERS)
    hidden = section.integer(key_of(section, names["hidden"]), maximum=MAX_SIZE)
    heads_key = key_of(section, names["heads"])
    heads = section.integer(heads_key, maximum=MAX_SIZE)
    kv_key = key_of(section, names["kv_heads"])
    kv_heads = section.integer(kv_key, heads, maximum=MAX_SIZE)
    if heads % kv_heads:
        section.error(kv_key, f"expected a divisor of {heads_key} ({heads}), got {kv_heads}")
    size_key = key_of(section, names["head_size"])
    head_size = section.integer(size_key, None, maximum=MAX_SIZE)
    if head_size is None:
        if hidden % heads:
            section.error(
                heads_key, f"expected a divisor of the hidden size ({hidden}) where {size_key} is not given, got {heads}"
            )
        head_size = hidden // heads
    return {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_size": head_size}


def read_top_k(section: Section, key: str, experts_key: str, experts: int) -> int:
    """How many of the ``experts`` each token is sent to; InputError when they are fewer.

    >>> from clustersim.document import Document
    >>> read_top_k(Document({"top_k": 2}, "model.yaml").section("", ("top_k",)), "top_k", "experts", 8)
    2
    """
    top_k = section.integer(key, maximum=MAX_EXPERTS)
    if top_k > experts:
        section.error(key, f"expected at most {experts_key} ({experts}), got {top_k}")
    return top_k
