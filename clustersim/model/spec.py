"""What a transformer is: its shape, and the exact number of its parameters.

FLOPs are in :mod:`clustersim.model.flops`, bytes in :mod:`clustersim.model.memory`. The defaults of :class:`Model` are
those of the plain GPT; ``LLAMA`` holds what the Llama family does otherwise. With ``experts`` some layers are a mixture of
experts: a router sends each token to ``top_k`` of them, which stand where a dense layer has its MLP.

>>> gpt3 = Model("gpt3", layers=96, hidden=12288, heads=96, kv_heads=96, head_size=128, ffn=49152, vocab=51200,
...              sequence=2048, learned_positions=2048)
>>> gpt3.parameters, layer_parameters(gpt3)
(174615846912, LayerParameters(attention=604028928, mlp=1208020992, norms=49152, experts=0))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1); sizes in elements.

    Keys and values of all heads come from one vector of ``kv_rank`` elements, the rotary part of every key from another of
    ``rope_size``; queries from one of ``query_rank``, or straight from the hidden state where that is 0.
    """

    query_rank: int
    kv_rank: int
    rope_size: int
    """Of the ``head_size`` of queries and keys so many are rotary."""
    value_size: int
    """Elements of one head's value."""


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
    """Inner size of the MLP of a dense layer."""
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
    latent: Latent | None = None
    """Latent attention, which has no biases; ``head_size`` is then that of queries and keys, ``kv_heads`` the heads."""
    experts: int = 0
    """Routed experts of a mixture-of-experts (MoE) layer; 0 for a dense model."""
    top_k: int = 0
    """Experts that each token is sent to."""
    expert_ffn: int = 0
    """Inner size of one expert."""
    shared_ffn: int = 0
    """Inner size of the shared experts, which every token passes, taken together."""
    dense_layers: int = 0
    """The first so many layers are dense."""
    moe_every: int = 1
    """From there on one layer in so many is MoE, beginning with the first."""
    router_bias: bool = False
    """The router has a bias for each expert that balances the load, as DeepSeek-V3's (arXiv 2408.15664)."""

    @property
    def kv_size(self) -> int:
        """Elements per token of all keys (and of all values)."""
        return self.kv_heads * self.head_size

    @property
    def value_size(self) -> int:
        """Elements of one head's value; equal to ``head_size`` but for latent attention."""
        return self.latent.value_size if self.latent else self.head_size

    @property
    def mlp_matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def _moe_range(self) -> range:
        return range(self.dense_layers, self.layers if self.experts else 0, self.moe_every)

    @property
    def moe_layers(self) -> int:
        """How many layers are MoE."""
        return len(self._moe_range)

    def is_moe(self, layer: int) -> bool:
        """Whether the layer, counted from 0, is MoE.

        >>> every_other = Model("m", 6, 64, 4, 4, 16, 256, experts=8, top_k=2, expert_ffn=256, dense_layers=1, moe_every=2)
        >>> [layer for layer in range(6) if every_other.is_moe(layer)], every_other.moe_layers
        ([1, 3, 5], 3)
        """
        return layer in self._moe_range

    @property
    def parameters(self) -> int:
        """All parameters, exactly; a tied output matrix counts once.

        For the plain GPT this is P = 12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)) of arXiv 2104.04473, section 5.1, which
        leaves out the final norm, plus that norm's 2h.

        >>> gpt2 = Model("gpt2", 12, 768, 12, 12, 64, 3072, vocab=50257, learned_positions=1024)
        >>> gpt2.parameters, 12 * 12 * 768**2 + 13 * 12 * 768 + (50257 + 1024) * 768 + 2 * 768
        (124439808, 124439808)
        """
        dense = (self.layers - self.moe_layers) * layer_parameters(self).total
        moe = self.moe_layers * layer_parameters(self, moe=True).total
        return dense + moe + embedding_parameters(self) + final_norm_parameters(self) + head_parameters(self)

    @property
    def active_parameters(self) -> int:
        """Parameters that work on one token: all but the routed experts that it is not sent to. Embeddings count.

        >>> from clustersim.model.presets import preset
        >>> preset("mixtral-8x7b").parameters, preset("mixtral-8x7b").active_parameters
        (46702792704, 12879925248)
        """
        idle = layer_parameters(self, moe=True).experts // self.experts * (self.experts - self.top_k) if self.experts else 0
        return self.parameters - self.moe_layers * idle


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
    """Parameters of one layer: attention and MLP with their biases, and the norms.

    In a MoE layer ``mlp`` is the router and the shared experts, ``experts`` the routed ones; in a dense one ``experts`` is 0.
    """

    attention: int
    mlp: int
    norms: int
    experts: int = 0

    @property
    def total(self) -> int:
        return self.attention + self.mlp + self.norms + self.experts


@dataclass(frozen=True)
class RankParameters:
    """Parameters that one tensor rank holds: of each layer, and of the two ends of the model.

    ``layer`` is a dense layer, ``moe_layer`` a MoE layer without its routed experts, and ``experts`` those; the last two are 0
    in a dense model. Gradients of ``experts`` are summed over fewer ranks than the rest, those that hold the same experts.
    ``head`` is 0 where the output matrix is tied. The last stage of a pipeline then holds a copy of ``tokens``, since the
    token embedding is on the first.
    """

    layer: int
    tokens: int
    positions: int
    embedding_norm: int
    final_norm: int
    head: int
    moe_layer: int = 0
    experts: int = 0

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


def layer_parameters(model: Model, tensor: int = 1, expert: int = 1, moe: bool = False) -> LayerParameters:
    """Parameters of one layer, MoE or dense, that a rank holds where ``tensor`` ranks share matrices and ``expert`` the experts.

    QKV and the first MLP matrices are split by columns with their biases, the projection and the second MLP matrix by rows:
    their biases, and the norms, are on every rank (arXiv 1909.08053, section 3). Key and value heads fewer than the ranks are
    repeated. Of latent attention the matrices down to the ranks, and their norms, are on every tensor rank, the matrices up
    are split by heads.

    A rank holds ``experts / expert`` (rounded up) of the routed experts, each split by ``tensor`` like a dense MLP, which is what
    Megatron-LM does where ``--expert-tensor-parallel-size`` is not given. Shared experts are split by ``tensor`` alone, the
    router is on every rank.

    >>> gpt = Model("gpt", 2, 64, 4, 4, 16, 256)
    >>> layer_parameters(gpt).total == 12 * 64**2 + 13 * 64
    True
    >>> layer_parameters(gpt, tensor=4)
    LayerParameters(attention=4208, mlp=8320, norms=256, experts=0)
    >>> from clustersim.model.presets import preset
    >>> layer_parameters(preset("mixtral-8x7b"), tensor=2, expert=4, moe=True)
    LayerParameters(attention=20971520, mlp=32768, norms=8192, experts=176160768)
    """
    attention = attention_matrices(model, tensor)
    if model.qkv_bias:
        attention += (share(model.heads, tensor) + 2 * share(model.kv_heads, tensor)) * model.head_size
    attention += model.hidden if model.projection_bias else 0
    norms = model.layer_norms * _norm(model)
    norms += 2 * model.head_size if model.qk_norm else 0
    norms += model.latent.query_rank + model.latent.kv_rank if model.latent else 0
    if not moe:
        return LayerParameters(attention, _mlp(model, share(model.ffn, tensor)), norms)
    router = model.experts * (model.hidden + model.router_bias)
    shared = _mlp(model, share(model.shared_ffn, tensor)) if model.shared_ffn else 0
    experts = share(model.experts, expert) * _mlp(model, share(model.expert_ffn, tensor))
    return LayerParameters(attention, router + shared, norms, experts)


def attention_matrices(model: Model, tensor: int = 1) -> int:
    """Elements of one layer's attention matrices on one tensor rank: (2 + 2 kv_heads/heads) h^2 where the heads fill h.

    Latent attention: down to the ranks and up again (arXiv 2405.04434, appendix C).

    >>> from clustersim.model.presets import preset
    >>> attention_matrices(preset("mixtral-8x7b")), attention_matrices(preset("deepseek-v3"))
    (41943040, 187105280)
    """
    hidden, latent, heads = model.hidden, model.latent, share(model.heads, tensor)
    queries, output = heads * model.head_size, heads * model.value_size
    if latent is None:
        return hidden * (queries + 2 * share(model.kv_heads, tensor) * model.head_size + output)
    query = latent.query_rank * (hidden + queries) if latent.query_rank else hidden * queries
    down = hidden * (latent.kv_rank + latent.rope_size)
    up = latent.kv_rank * (queries - heads * latent.rope_size + output)
    return query + down + up + hidden * output


def embedding_parameters(model: Model, tensor: int = 1) -> int:
    """Token and position embedding (and its norm) on one tensor rank: tokens split by vocabulary, the rest on every rank."""
    return parameters_per_rank(model, tensor).embedding


def head_parameters(model: Model, tensor: int = 1) -> int:
    """The output matrix on one tensor rank, split by vocabulary; 0 when it is tied to the embedding."""
    return 0 if model.tied else share(model.vocab, tensor) * model.hidden


def final_norm_parameters(model: Model) -> int:
    """The norm after the last layer, on every tensor rank: 2h with bias, h without."""
    return _norm(model)


def parameters_per_rank(model: Model, tensor: int, expert: int = 1) -> RankParameters:
    """What one rank of ``tensor`` by ``expert`` holds, piece by piece, split as :func:`layer_parameters` says.

    At ``tensor`` and ``expert`` 1 the pieces, each as often as there are such layers, add up to ``model.parameters``.

    >>> gpt = Model("gpt", 2, 64, 4, 4, 16, 256, vocab=1000, learned_positions=128)
    >>> rank = parameters_per_rank(gpt, 4)
    >>> rank.layer, rank.tokens, rank.positions, rank.final_norm, rank.head
    (12784, 16000, 8192, 128, 0)
    >>> from clustersim.model.presets import preset
    >>> rank = parameters_per_rank(preset("mixtral-8x7b"), 2, expert=4)
    >>> rank.moe_layer, rank.experts
    (21012480, 176160768)
    """
    moe = layer_parameters(model, tensor, expert, moe=True) if model.experts else LayerParameters(0, 0, 0)
    return RankParameters(
        layer=layer_parameters(model, tensor).total,
        tokens=share(model.vocab, tensor) * model.hidden,
        positions=model.learned_positions * model.hidden,
        embedding_norm=_norm(model) if model.embedding_norm else 0,
        final_norm=final_norm_parameters(model),
        head=head_parameters(model, tensor),
        moe_layer=moe.total - moe.experts,
        experts=moe.experts,
    )


def _mlp(model: Model, inner: int) -> int:
    biases = (model.mlp_matrices - 1) * inner + model.hidden if model.mlp_bias else 0
    return model.mlp_matrices * model.hidden * inner + biases


def _norm(model: Model) -> int:
    return 2 * model.hidden if model.norm_bias else model.hidden
