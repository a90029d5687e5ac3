"""What a transformer is: its shape, and the exact number of its parameters.

FLOPs are in :mod:`clustersim.model.flops`, bytes in :mod:`clustersim.model.memory`. The defaults of :class:`Model` are
those of the plain GPT; ``LLAMA`` holds what the Llama family does otherwise.

>>> gpt3 = Model("gpt3", layers=96, hidden=12288, heads=96, kv_heads=96, head_size=128, ffn=49152, vocab=51200,
...              sequence=2048, learned_positions=2048)
>>> gpt3.parameters, layer_parameters(gpt3)
(174615846912, LayerParameters(attention=604028928, mlp=1208020992, norms=49152))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer; sizes are counts of elements, ``sequence`` and ``learned_positions`` of tokens.

    ``vocab`` 0 is a bare stack of layers, without embedding and logits. The model takes whatever it is given; values from
    users are checked where they are read (:mod:`clustersim.model.load`).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    """Inner size of the MLP."""
    gated: bool = False
    """The MLP has three matrices (gate, up, down) and not two."""
    vocab: int = 0
    sequence: int | None = None
    """The sequence length it is trained at where the experiment gives none."""
    tied: bool = True
    """The output matrix is the token embedding."""
    learned_positions: int = 0
    """Rows of the position embedding; 0 for rotary and other computed positions."""
    norm_bias: bool = True
    """Layer norm with weight and bias; RMS norm has the weight alone."""
    qkv_bias: bool = True
    projection_bias: bool = True
    mlp_bias: bool = True
    layer_norms: int = 2
    """Norms over the hidden size in one layer."""
    qk_norm: bool = False
    """RMS norms over the head size on queries and on keys."""
    embedding_norm: bool = False
    """A norm between the embedding and the first layer."""
    dropout: bool = True
    """Trained with dropout, whose masks are kept for the backward; no part of the parameter count."""

    @property
    def query_size(self) -> int:
        """Elements per token of all queries; equal to ``hidden`` in most models."""
        return self.heads * self.head_size

    @property
    def kv_size(self) -> int:
        """Elements per token of all keys (and of all values)."""
        return self.kv_heads * self.head_size

    @property
    def mlp_matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def parameters(self) -> int:
        """All parameters, exactly; a tied output matrix counts once.

        For the plain GPT this is P = 12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)) of arXiv 2104.04473, section 5.1, which
        leaves out the final norm, plus that norm's 2h.

        >>> gpt2 = Model("gpt2", 12, 768, 12, 12, 64, 3072, vocab=50257, learned_positions=1024)
        >>> gpt2.parameters, 12 * 12 * 768**2 + 13 * 12 * 768 + (50257 + 1024) * 768 + 2 * 768
        (124439808, 124439808)
        """
        layers = self.layers * layer_parameters(self).total
        return layers + embedding_parameters(self) + final_norm_parameters(self) + head_parameters(self)


LLAMA: Mapping[str, Any] = MappingProxyType(
    {
        "gated": True,
        "tied": False,
        "norm_bias": False,
        "qkv_bias": False,
        "projection_bias": False,
        "mlp_bias": False,
        "dropout": False,
    }
)
"""Fields of :class:`Model` for Llama and its kin (arXiv 2302.13971): RMS norm, no biases, gated MLP, no dropout, untied."""


@dataclass(frozen=True)
class LayerParameters:
    """Parameters of one layer: attention and MLP with their biases, and the norms."""

    attention: int
    mlp: int
    norms: int

    @property
    def total(self) -> int:
        return self.attention + self.mlp + self.norms


@dataclass(frozen=True)
class RankParameters:
    """Parameters that one tensor rank holds: of each layer, and of the two ends of the model.

    ``head`` is 0 where the output matrix is tied. The last stage of a pipeline then holds a copy of ``tokens``, since the
    token embedding is on the first.
    """

    layer: int
    tokens: int
    positions: int
    embedding_norm: int
    final_norm: int
    head: int

    @property
    def embedding(self) -> int:
        """Everything before the first layer."""
        return self.tokens + self.positions + self.embedding_norm


def share(count: int, ranks: int) -> int:
    """The largest share of ``count`` heads, columns or rows over ``ranks``.

    >>> share(8, 4), share(8, 16), share(50257, 8)
    (2, 1, 6283)
    """
    return -(-count // ranks)


def layer_parameters(model: Model, tensor: int = 1) -> LayerParameters:
    """Parameters of one layer that one of ``tensor`` ranks holds (arXiv 1909.08053, section 3).

    QKV and the first MLP matrices are split by columns with their biases, the projection and the second MLP matrix by rows:
    their biases, and the norms, are on every rank. Key and value heads fewer than the ranks are repeated.

    >>> gpt = Model("gpt", 2, 64, 4, 4, 16, 256)
    >>> layer_parameters(gpt).total == 12 * 64**2 + 13 * 64
    True
    >>> layer_parameters(gpt, tensor=4)
    LayerParameters(attention=4208, mlp=8320, norms=256)
    """
    queries = share(model.heads, tensor) * model.head_size
    keys = share(model.kv_heads, tensor) * model.head_size
    qkv = queries + 2 * keys
    attention = model.hidden * (qkv + queries)
    attention += qkv if model.qkv_bias else 0
    attention += model.hidden if model.projection_bias else 0
    ffn = share(model.ffn, tensor)
    mlp = model.mlp_matrices * model.hidden * ffn
    mlp += (model.mlp_matrices - 1) * ffn + model.hidden if model.mlp_bias else 0
    norms = model.layer_norms * _norm(model)
    norms += 2 * model.head_size if model.qk_norm else 0
    return LayerParameters(attention, mlp, norms)


def embedding_parameters(model: Model, tensor: int = 1) -> int:
    """Token and position embedding (and its norm) on one tensor rank: tokens split by vocabulary, the rest on every rank."""
    return parameters_per_rank(model, tensor).embedding


def head_parameters(model: Model, tensor: int = 1) -> int:
    """The output matrix on one tensor rank, split by vocabulary; 0 when it is tied to the embedding."""
    return 0 if model.tied else share(model.vocab, tensor) * model.hidden


def final_norm_parameters(model: Model) -> int:
    """The norm after the last layer, on every tensor rank: 2h with bias, h without."""
    return _norm(model)


def parameters_per_rank(model: Model, tensor: int) -> RankParameters:
    """What one of ``tensor`` ranks holds, piece by piece; at ``tensor`` 1 the pieces add up to ``model.parameters``.

    >>> gpt = Model("gpt", 2, 64, 4, 4, 16, 256, vocab=1000, learned_positions=128)
    >>> parameters_per_rank(gpt, 4)
    RankParameters(layer=12784, tokens=16000, positions=8192, embedding_norm=0, final_norm=128, head=0)
    """
    return RankParameters(
        layer=layer_parameters(model, tensor).total,
        tokens=share(model.vocab, tensor) * model.hidden,
        positions=model.learned_positions * model.hidden,
        embedding_norm=_norm(model) if model.embedding_norm else 0,
        final_norm=final_norm_parameters(model),
        head=head_parameters(model, tensor),
    )


def _norm(model: Model) -> int:
    return 2 * model.hidden if model.norm_bias else model.hidden
