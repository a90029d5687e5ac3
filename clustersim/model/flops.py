"""Floating-point operations of a transformer: a multiply and an add are two.

Matrices only, as arXiv 2104.04473 (appendix) counts them: norms, activations, softmax and embedding look-ups are left out.
Two conventions exist for the core of the attention (scores and context): *full* counts the whole square of the sequence,
*causal* the half below the diagonal. ``causal`` chooses; a figure should say which it is. A MoE layer computes ``top_k`` experts for
each token, however the tokens spread over them; none is dropped, none is padded.

>>> from clustersim.model.presets import preset
>>> gpt3 = preset("gpt3-175b")
>>> model_flops(gpt3, 1536, 2048), model_flops(gpt3, 1536, 2048, causal=True)
(3386196746387324928, 3340597800160198656)
"""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.model.spec import Model, attention_matrices

BACKWARD = 2
"""The backward in units of the forward: one product for the input's gradient, one for the weight's."""

RECOMPUTE = ("none", "selective", "full")
"""What is computed again in the backward: nothing, the core of the attention, the whole layer (arXiv 2205.05198)."""


@dataclass(frozen=True)
class LayerFlops:
    """FLOP of one layer's forward by segment; ``attention`` includes its core.

    In a MoE layer ``mlp`` is the router and the shared experts, ``experts`` the routed ones; in a dense one ``experts`` is 0.
    """

    attention: int
    attention_core: int
    mlp: int
    experts: int = 0

    @property
    def total(self) -> int:
        return self.attention + self.mlp + self.experts


def layer_forward_flops(
    model: Model, micro_batch: int, sequence: int, causal: bool = False, moe: bool = False
) -> LayerFlops:
    """FLOP of the forward of one layer for ``micro_batch`` sequences of ``sequence`` tokens, on all tensor ranks together.

    Plain GPT: QKV and projection 8 b s h^2, core 4 b s^2 h (half of it when ``causal``), MLP 16 b s h^2; in all
    24 b s h^2 + 4 b s^2 h. Grouped keys and values make QKV smaller, a gate adds a third matrix to the MLP. Latent attention
    is computed as in training: keys and values of every head are written out.

    A MoE layer has for its MLP the router, 2 b s h E, the shared experts, and ``top_k`` experts for each token.

    >>> from clustersim.model.presets import preset
    >>> layer_forward_flops(preset("gpt3-175b"), 1, 2048)
    LayerFlops(attention=2680059592704, attention_core=206158430208, mlp=4947802324992, experts=0)
    >>> layer_forward_flops(preset("mixtral-8x7b"), 1, 4096, moe=True)
    LayerFlops(attention=618475290624, attention_core=274877906944, mlp=268435456, experts=2886218022912)
    """
    tokens = micro_batch * sequence
    core = (1 if causal else 2) * tokens * sequence * model.heads * (model.head_size + model.value_size)
    attention = 2 * tokens * attention_matrices(model) + core
    column = 2 * tokens * model.hidden * model.mlp_matrices
    if not moe:
        return LayerFlops(attention, core, column * model.ffn)
    router = 2 * tokens * model.hidden * model.experts
    return LayerFlops(attention, core, router + column * model.shared_ffn, column * model.top_k * model.expert_ffn)


def layer_recompute_flops(
    model: Model, micro_batch: int, sequence: int, recompute: str, causal: bool = False, moe: bool = False
) -> LayerFlops:
    """FLOP of one layer's forward that its backward repeats; ``recompute`` is one of ``RECOMPUTE``.

    >>> from clustersim.model.presets import preset
    >>> layer_recompute_flops(preset("gpt3-175b"), 1, 2048, "selective")
    LayerFlops(attention=206158430208, attention_core=206158430208, mlp=0, experts=0)
    """
    forward = layer_forward_flops(model, micro_batch, sequence, causal, moe)
    if recompute == "none":
        return LayerFlops(0, 0, 0)
    if recompute == "selective":
        return LayerFlops(forward.attention_core, forward.attention_core, 0)
    if recompute == "full":
        return forward
    raise ValueError(f"unknown recompute {recompute!r}; allowed: {', '.join(RECOMPUTE)}")


def head_forward_flops(model: Model, micro_batch: int, sequence: int) -> int:
    """FLOP of the logits' forward, 2 b s h V, on all tensor ranks together, tied or not; the backward is ``BACKWARD`` times it.

    >>> from clustersim.model.presets import preset
    >>> head_forward_flops(preset("gpt3-175b"), 1, 2048)
    2576980377600
    """
    return 2 * micro_batch * sequence * model.hidden * model.vocab


def model_flops(model: Model, batch: int, sequence: int, causal: bool = False) -> int:
    """FLOP that one step of ``batch`` sequences needs, forward and backward of layers and logits: the numerator of the MFU.

    For the plain GPT 72 B s l h^2 (1 + s/(6h) + V/(12 l h)) (arXiv 2205.05198, appendix A). Of the experts those count that a
    token is sent to.

    >>> from clustersim.model.presets import preset
    >>> model_flops(preset("x-32"), 1, 512) == 72 * 512 * 32 * 1024**2 * (6 * 1024 + 512) // (6 * 1024)
    True
    """
    return hardware_flops(model, batch, sequence, "none", causal)


def hardware_flops(model: Model, batch: int, sequence: int, recompute: str, causal: bool = False) -> int:
    """FLOP that one step executes, recomputation included: the numerator of the HFU.

    With full recompute of a plain GPT 96 B s l h^2 (1 + s/(6h) + V/(16 l h)) (arXiv 2104.04473, equation 3); the logits are
    not computed again.

    >>> from clustersim.model.presets import preset
    >>> x32 = preset("x-32")
    >>> 3 * hardware_flops(x32, 1, 512, "full") == 4 * hardware_flops(x32, 1, 512, "none")
    True
    """
    total = (1 + BACKWARD) * head_forward_flops(model, batch, sequence)
    for moe, layers in ((False, model.layers - model.moe_layers), (True, model.moe_layers)):
        forward = layer_forward_flops(model, batch, sequence, causal, moe).total
        again = layer_recompute_flops(model, batch, sequence, recompute, causal, moe).total
        total += layers * ((1 + BACKWARD) * forward + again)
    return total
