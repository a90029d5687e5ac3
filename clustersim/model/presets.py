"""The models that are known by name.

>>> preset("llama2-7b").parameters, preset("x-160").parameters
(6738415616, 1258344499200)
"""

from __future__ import annotations

import re

from clustersim.document import nearest
from clustersim.model.spec import LLAMA, Latent, Model

# Plain GPT: name, layers, hidden, heads, vocabulary, sequence.
_GPT = (
    # Brown et al., arXiv 2005.14165, table 2.1; vocabulary padded as in arXiv 2104.04473.
    ("gpt3-175b", 96, 12288, 96, 51200, 2048),
    # Shoeybi et al., arXiv 1909.08053, table 1 (scaling study); heads of 96.
    ("megatron-1.2b", 40, 1536, 16, 51200, 1024),
    ("megatron-2.5b", 54, 1920, 20, 51200, 1024),
    ("megatron-4.2b", 64, 2304, 24, 51200, 1024),
    ("megatron-8.3b", 72, 3072, 32, 51200, 1024),
    # Narayanan et al., arXiv 2104.04473, table 1 (weak scaling).
    ("megatron-1.7b", 24, 2304, 24, 51200, 2048),
    ("megatron-3.6b", 30, 3072, 32, 51200, 2048),
    ("megatron-7.5b", 36, 4096, 32, 51200, 2048),
    ("megatron-18.4b", 40, 6144, 48, 51200, 2048),
    ("megatron-39.1b", 48, 8192, 64, 51200, 2048),
    ("megatron-76.1b", 60, 10240, 80, 51200, 2048),
    ("megatron-145.6b", 80, 12288, 96, 51200, 2048),
    ("megatron-310.1b", 96, 16384, 128, 51200, 2048),
    ("megatron-529.6b", 105, 20480, 128, 51200, 2048),
    ("megatron-1008b", 128, 25600, 160, 51200, 2048),
)
# Llama: name, layers, hidden, heads, key-value heads, inner size of the MLP, vocabulary, sequence.
_LLAMA = (
    # Touvron et al., arXiv 2307.09288, and the config.json published with the weights.
    ("llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096),
    ("llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096),
    ("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096),
    # Grattafiori et al., arXiv 2407.21783, table 3, and the config.json published with the weights.
    ("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192),
    ("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192),
    ("llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192),
)
# Mixtures of experts in the manner of Llama: name, layers, hidden, heads, key-value heads, head size, inner size of a dense MLP.
_MIXTURES = (
    # Jiang et al., arXiv 2401.04088, table 1; no layer is dense.
    Model(
        "mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, vocab=32000, sequence=32768,
        experts=8, top_k=2, expert_ffn=14336, **LLAMA,
    ),
    # The config.json published with Mixtral-8x22B-v0.1.
    Model(
        "mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, vocab=32000, sequence=65536,
        experts=8, top_k=2, expert_ffn=16384, **LLAMA,
    ),
    # Yang et al., arXiv 2505.09388, table 2, and the config.json published with the weights; no layer is dense. Trained at 4096
    # tokens in the first two of its three stages (section 3.2).
    Model(
        "qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, vocab=151936, sequence=4096,
        experts=128, top_k=8, expert_ffn=768, qk_norm=True, **LLAMA,
    ),
    Model(
        "qwen3-235b-a22b", 94, 4096, 64, 4, 128, 12288, vocab=151936, sequence=4096,
        experts=128, top_k=8, expert_ffn=1536, qk_norm=True, **LLAMA,
    ),
    # DeepSeek-AI, arXiv 2412.19437, section 4.2, and the config.json published with the weights; the layer that predicts a
    # second token in training is left out.
    Model(
        "deepseek-v3", 61, 7168, 128, 128, 192, 18432, vocab=129280, sequence=4096,
        experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048, dense_layers=3, router_bias=True,
        latent=Latent(query_rank=1536, kv_rank=512, rope_size=64, value_size=128), **LLAMA,
    ),
)  # fmt: skip
NAMES = (*(row[0] for row in _GPT + _LLAMA), *(model.name for model in _MIXTURES))
MAX_X = 10_000
_X_FAMILY = f"x-N (N even, from 2 to {MAX_X})"


def preset(name: str) -> Model:
    """The model called ``name``; ValueError, with the nearest name and the list, when there is none.

    >>> preset("megatron-8.3b").layers, preset("llama3-70b").kv_heads
    (72, 8)
    """
    for known, layers, hidden, heads, vocab, sequence in _GPT:
        if known == name:
            return Model(
                name, layers, hidden, heads, heads, hidden // heads, 4 * hidden,
                vocab=vocab, sequence=sequence, learned_positions=sequence,
            )  # fmt: skip
    for known, layers, hidden, heads, kv_heads, ffn, vocab, sequence in _LLAMA:
        if known == name:
            return Model(
                name, layers, hidden, heads, kv_heads, hidden // heads, ffn, vocab=vocab, sequence=sequence, **LLAMA
            )
    for model in _MIXTURES:
        if model.name == name:
            return model
    family = re.fullmatch(r"x-([0-9]{1,9})", name)
    if family:
        return _x_family(name, int(family[1]))
    raise ValueError(
        f"unknown model {name!r}{nearest(name, (*NAMES, 'x-160'))}; allowed: {', '.join(NAMES)}, {_X_FAMILY}, "
        "a path to a config.json, or a mapping"
    )


def _x_family(name: str, x: int) -> Model:
    """X_x of Lamy-Poirier, arXiv 2106.02679: x layers, x/2 heads of size 2x, hidden x^2, sequence 16x.

    The paper counts 12 x^5 parameters and neither embedding nor logits, so there is no vocabulary here and there are no
    learned positions; biases and norms add 13 x^3 and the final norm 2 x^2, 0.004 % for X_160.
    """
    if x % 2 or not 2 <= x <= MAX_X:
        raise ValueError(f"no model {name!r}: the family is {_X_FAMILY}")
    return Model(name, x, x * x, x // 2, x // 2, 2 * x, 4 * x * x, vocab=0, sequence=16 * x)
