"""Bytes of the training state and of the activations that the backward needs.

>>> from clustersim.model.presets import preset
>>> gpt3 = preset("gpt3-175b")
>>> sum(state_bytes("bf16")) * gpt3.parameters
2793853550592
>>> layer_activation_bytes(gpt3, 1, 2048, tensor=8), layer_activation_bytes(gpt3, 1, 2048, tensor=8, recompute="full")
(578813952, 50331648)
"""

from __future__ import annotations

from typing import NamedTuple

from clustersim.model.flops import RECOMPUTE
from clustersim.model.spec import Model, share

MASK_BYTES = 1
"""One element of a dropout mask."""
LOGIT_BYTES = 4
"""Logits are kept in 32 bits for the loss."""
STATISTIC_BYTES = 4
"""Of each row of scores a kernel that does not write them keeps the logarithm of the sum of the exponentials, in 32 bits."""
PROBABILITY_BYTES = 4
"""A router's probabilities are kept in 32 bits."""


class Kept(NamedTuple):
    """What a generation of software keeps: with ``flash`` no scores. With ``products`` selective recompute keeps every second product
    instead, with ``outputs`` that of the MLP's last matrix too, which no backward reads. With ``gathered`` what sequence parallelism
    gathers stays for the backward, which else gathers it again.
    """

    flash: bool = False
    products: bool = False
    outputs: bool = False
    gathered: bool = False

    def gathered_elements(self, model: Model, inputs: int, replicas: int) -> int:
        """Per token and rank, of so many inputs of matrices, what lies beyond the rank's own part."""
        return inputs * (model.hidden - share(model.hidden, replicas)) if self.gathered else 0


NEEDED = Kept()
"""What the backward needs, as arXiv 2205.05198 counts it."""


class StateBytes(NamedTuple):
    """Bytes per parameter."""

    weights: int
    gradients: int
    optimizer: int


_STATE = (
    # Adam beside 16-bit weights keeps a 32-bit copy of them, the momentum and the variance.
    ("bf16", StateBytes(2, 2, 12)),
    ("fp16", StateBytes(2, 2, 12)),
    # Products in 8 bits leave weights and activations in 16.
    ("fp8", StateBytes(2, 2, 12)),
    # Beside 32-bit weights it keeps the momentum and the variance alone.
    ("fp32", StateBytes(4, 4, 8)),
)
PRECISIONS = tuple(precision for precision, _ in _STATE)


def state_bytes(precision: str) -> StateBytes:
    """Bytes per parameter of the weights, the gradients and Adam's state, 16 in all (ZeRO, arXiv 1910.02054, section 3.1).

    ValueError for an unknown precision. The weights' size is also that of an activation's element.

    >>> state_bytes("bf16"), sum(state_bytes("fp32"))
    (StateBytes(weights=2, gradients=2, optimizer=12), 16)
    """
    for known, size in _STATE:
        if known == precision:
            return size
    raise ValueError(f"unknown precision {precision!r}; allowed: {', '.join(PRECISIONS)}")


def layer_activation_bytes(
    model: Model,
    micro_batch: int,
    sequence: int,
    tensor: int = 1,
    recompute: str = "none",
    precision: str = "bf16",
    sequence_parallel: bool = False,
    moe: bool = False,
    kept: Kept = NEEDED,
) -> int:
    """Bytes that one tensor rank keeps of one layer and micro-batch, from its forward to its backward.

    For the plain GPT in 16 bits (Korthikanti et al., arXiv 2205.05198, equations 1 to 4 and table 2), with a heads:

        none       s b h (10 + 24/t + 5 a s/(h t))
        selective  s b h (10 + 24/t)
        full       2 s b h                    (the layer's input alone)

    ``sequence_parallel`` splits what is otherwise on every tensor rank (the 10, and the 2 of ``full``) by t as well. Kernels that
    never write the scores (``kept.flash``, FlashAttention, arXiv 2205.14135) keep what ``selective`` keeps, and a number for each row.
    What sequence parallelism gathers for QKV and the MLP is gathered again in the backward (section 4.2.2), or stays whole
    (``kept.gathered``).

    Where ``selective`` keeps every second product (``kept.products``, torchtitan), it keeps the layer's input, queries, values and
    the MLP's first product, and the output of the attention with a number for each row.

    The same tensors are counted for other models: per token, on every rank the inputs of two norms, of QKV and of the MLP
    (4h elements) and two masks; split over the ranks queries, keys, values and the projection's input, and for the MLP the
    input of the activation and of the last matrix (2 ffn), or with a gate both its inputs and their product (3 ffn; a fused
    kernel computes the activated gate again). Per head and pair of tokens the softmax, and with dropout a mask and the
    softmax after it. Models without dropout keep no masks. Latent attention keeps on every rank the low-rank vectors before and
    after their norms as well.

    A MoE layer (``moe``) has in place of the MLP's inner sizes those of the shared experts (split over the ranks), the router's
    probabilities in 32 bits, and for ``top_k`` copies of each token the experts' input (h, whole on every tensor rank, since each
    multiplies it with its columns, ``sequence_parallel`` or not) and inner sizes (split). Tokens are taken to spread evenly: a
    rank receives as many copies as its own tokens make, whatever the number of expert-parallel ranks. The router's weights are
    applied before the experts' last matrix, so that its output is not kept.

    >>> from clustersim.model.presets import preset
    >>> layer_activation_bytes(preset("gpt3-175b"), 1, 2048, recompute="selective") == 34 * 2048 * 12288
    True
    >>> layer_activation_bytes(preset("mixtral-8x7b"), 1, 4096, recompute="selective", moe=True)
    989986816
    """
    if recompute not in RECOMPUTE:
        raise ValueError(f"unknown recompute {recompute!r}; allowed: {', '.join(RECOMPUTE)}")
    element = state_bytes(precision).weights
    tokens = micro_batch * sequence
    replicas = tensor if sequence_parallel else 1
    if recompute == "full":
        return element * share(tokens * model.hidden, replicas)
    if recompute == "selective" and kept.products:
        return _every_second_product(model, tokens, tensor, replicas, element, moe, kept.outputs)
    masks = 2 * MASK_BYTES if model.dropout else 0
    latent = 2 * (model.latent.query_rank + model.latent.kv_rank) if model.latent else 0
    router = PROBABILITY_BYTES * model.experts if moe else 0
    replicated = share(tokens * (element * (4 * model.hidden + latent) + model.hidden * masks + router), replicas)
    heads = share(model.heads, tensor)
    attention = (heads + share(model.kv_heads, tensor)) * (model.head_size + model.value_size)
    attention += kept.gathered_elements(model, 2, replicas)
    total = replicated + element * tokens * (attention + _mlp_elements(model, tensor, moe))
    if recompute == "none":
        total += STATISTIC_BYTES * heads * tokens if kept.flash else _score_bytes(model, element) * heads * tokens * sequence
    return total


def _score_bytes(model: Model, element: int) -> int:
    """Of one pair of tokens: the softmax, and with dropout a mask and the softmax after it."""
    return 2 * element + MASK_BYTES if model.dropout else element


def _every_second_product(model: Model, tokens: int, tensor: int, replicas: int, element: int, moe: bool, outputs: bool) -> int:
    """The layer's input, queries, values, the attention's output with its statistics, the MLP's first product and maybe its last."""
    whole = 2 if outputs else 1
    heads, kv_heads = share(model.heads, tensor), share(model.kv_heads, tensor)
    attention = heads * (model.head_size + model.value_size) + kv_heads * model.value_size
    if moe:
        inner = share(model.shared_ffn, tensor) + model.top_k * (model.hidden + share(model.expert_ffn, tensor))
    else:
        inner = share(model.ffn, tensor)
    return element * (share(whole * tokens * model.hidden, replicas) + tokens * (attention + inner)) + STATISTIC_BYTES * heads * tokens


def gradient_bytes(
    model: Model, micro_batch: int, sequence: int, tensor: int = 1, precision: str = "bf16", moe: bool = False, kept: Kept = NEEDED
) -> int:
    """Bytes of the gradients that the backward of one layer has at once on a tensor rank.

    Those of all that lies inside the MLP, or (where kernels write the scores) of the softmax and of what goes into it, whichever is more.

    >>> from clustersim.model.presets import preset
    >>> gpt3 = preset("gpt3-175b")
    >>> gradient_bytes(gpt3, 1, 2048, 8, kept=Kept(flash=True)) == 2 * 2048 * 2 * 4 * 12288 // 8
    True
    >>> gradient_bytes(gpt3, 1, 2048, 8) == 2 * 2 * 96 // 8 * 2048 * 2048
    True
    """
    tokens, element = micro_batch * sequence, state_bytes(precision).weights
    scores = 0 if kept.flash else 2 * share(model.heads, tensor) * sequence
    return element * tokens * max(_mlp_elements(model, tensor, moe), scores)


def _mlp_elements(model: Model, tensor: int, moe: bool) -> int:
    """Elements per token between the input of the MLP (or the copies that the experts get) and its output."""
    if not moe:
        return model.mlp_matrices * share(model.ffn, tensor)
    copies = model.top_k * (model.hidden + model.mlp_matrices * share(model.expert_ffn, tensor))
    return copies + model.mlp_matrices * share(model.shared_ffn, tensor)


def dispatch_bytes(model: Model, micro_batch: int, sequence: int, precision: str = "bf16") -> int:
    """Bytes that the tokens of one micro-batch make when each is sent to its experts: b s top_k h elements.

    One MoE layer does this four times: to the experts and back, in the forward and in the backward. It is the whole payload:
    of it the part for experts on the rank itself, 1/e over e ranks with an even spread, stays there. Where the tensor ranks
    share the sequence, each sends its part.

    >>> from clustersim.model.presets import preset
    >>> dispatch_bytes(preset("mixtral-8x7b"), 1, 4096) == 4096 * 2 * 4096 * 2
    True
    """
    return state_bytes(precision).weights * micro_batch * sequence * model.top_k * model.hidden


def head_activation_bytes(
    model: Model,
    micro_batch: int,
    sequence: int,
    tensor: int = 1,
    precision: str = "bf16",
    sequence_parallel: bool = False,
    logit_bytes: int = LOGIT_BYTES,
    kept: Kept = NEEDED,
) -> int:
    """Bytes that one tensor rank keeps of the final norm, the output matrix and the loss for one micro-batch.

    The inputs of the norm and of the matrix, and ``logit_bytes`` of each logit: 4 s b h + 4 s b V/t in 16 bits; the first term
    divided by t with ``sequence_parallel`` (arXiv 2205.05198, section 4.3). Without a vocabulary the norm's input alone.

    >>> from clustersim.model.presets import preset
    >>> head_activation_bytes(preset("gpt3-175b"), 1, 2048, tensor=8)
    153092096
    """
    tokens = micro_batch * sequence
    inputs, replicas, element = 2 if model.vocab else 1, tensor if sequence_parallel else 1, state_bytes(precision).weights
    replicated = element * (share(inputs * tokens * model.hidden, replicas) + tokens * kept.gathered_elements(model, inputs - 1, replicas))
    return replicated + logit_bytes * tokens * share(model.vocab, tensor)
