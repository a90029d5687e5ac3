"""What one GPU runs for a part of a transformer layer: matrix products, attention kernels, passes over memory.

Sizes are those of one rank: tensor parallelism divides the heads, the columns of the first and the rows of the second matrix of
a pair; sequence parallelism divides the tokens of what lies between the pairs; context parallelism and slices divide the tokens of a
pass. How many passes over its data an operation makes is a matter of the software (:mod:`clustersim.compute.software`).

>>> from clustersim.compute.software import load_software
>>> from clustersim.model.presets import preset
>>> shape = Shape(micro_batch=1, sequence=2048, tensor=8)
>>> block = attention_block(preset("gpt3-175b"), shape, load_software("megatron-2021"))
>>> block.entry, block.core[0]
((Matmul(rows=12288, columns=4608, inner=2048, batch=1),), Matmul(rows=2048, columns=2048, inner=128, batch=12))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from clustersim.compute.software import Software
from clustersim.model.spec import Model, share

_MASK_BYTES = 1
_LOSS_BYTES = 4


class Matmul(NamedTuple):
    """``batch`` products of (rows x inner) by (inner x columns)."""

    rows: int
    columns: int
    inner: int
    batch: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.inner * self.batch


class Attention(NamedTuple):
    """A kernel that never writes the scores: ``heads`` (times sequences) of ``queries`` by ``keys`` tokens.

    ``part`` is what of the square it computes, 0.5 below the diagonal. Forward two products, backward five (FlashAttention,
    arXiv 2205.14135, appendix B: the scores once more and four gradients).
    """

    queries: int
    keys: int
    heads: int
    head_size: int
    value_size: int
    part: float
    backward: bool

    @property
    def flops(self) -> float:
        scores, context = (3, 2) if self.backward else (1, 1)
        return 2 * self.part * self.heads * self.queries * self.keys * (scores * self.head_size + context * self.value_size)


class Pass(NamedTuple):
    """Kernels limited by memory: ``moved_bytes`` read and written by all of them together."""

    moved_bytes: float
    kernels: int = 1


class Stall(NamedTuple):
    """The GPU waits for its host, which copies or looks at something in between."""

    seconds: float


Kernel = Matmul | Attention | Pass | Stall
Passing = tuple[Pass, ...]


@dataclass(frozen=True)
class Shape:
    """One pass on one rank. ``sequence`` tokens of each of ``micro_batch`` sequences, of which it has 1/``parts``."""

    micro_batch: int
    sequence: int
    tensor: int = 1
    parts: int = 1
    """Context ranks times slices."""
    sequence_parallel: bool = False
    element_bytes: int = 2
    expert: int = 1

    @property
    def queries(self) -> int:
        """Tokens of one sequence in this pass."""
        return share(self.sequence, self.parts)

    @property
    def tokens(self) -> int:
        return self.micro_batch * self.queries

    @property
    def between_tokens(self) -> int:
        """Tokens of this rank outside the tensor-parallel pairs of matrices."""
        return share(self.tokens, self.tensor) if self.sequence_parallel else self.tokens


@dataclass(frozen=True)
class BlockKernels:
    """A part of a layer. ``core`` is the part of ``forward`` that selective recompute repeats.

    ``entry`` is the part of ``weight`` for the matrices at the entry of the block, which in the backward comes last.
    """

    forward: tuple[Kernel, ...]
    input: tuple[Kernel, ...]
    weight: tuple[Kernel, ...]
    core: tuple[Kernel, ...] = ()
    entry: tuple[Kernel, ...] = ()


def attention_block(model: Model, shape: Shape, software: Software, checkpointed: bool = False) -> BlockKernels:
    """Norm, queries, keys and values, the core, the projection, and dropout and residual.

    Where all of the layer is computed again (``checkpointed``) what the software waits for then stands in the backward.
    """
    heads, kv_heads = share(model.heads, shape.tensor), share(model.kv_heads, shape.tensor)
    qk, value = model.head_size, model.value_size
    into: list[tuple[int, int]] = []  # (inner, columns) of the matrices before the core
    latent = model.latent
    if latent is None:
        into = [(model.hidden, heads * qk + kv_heads * (qk + value))]
    else:
        first = latent.query_rank or heads * qk
        into = [(model.hidden, first + latent.kv_rank + latent.rope_size)]
        into += [(latent.query_rank, heads * qk)] if latent.query_rank else []
        into += [(latent.kv_rank, heads * (qk - latent.rope_size + value))]
    products = [Matmul(shape.tokens, columns, inner) for inner, columns in into]
    projection = Matmul(shape.tokens, model.hidden, heads * value)
    forward_core, backward_core = _core(model, shape, software, heads)
    rotated = shape.tokens * (heads + kv_heads) * qk * shape.element_bytes * (0 if model.learned_positions else 1)
    biased = shape.tokens * sum(columns for _, columns in into) * shape.element_bytes if model.qkv_bias else 0
    rotary, (norm, residual, bias) = software.rotary, _between(model, shape, software)
    fork = _stall(software.fork_s if model.dropout else 0.0)
    block = BlockKernels(
        forward=(*norm[0], *products, *_passes(rotated, rotary.forward), *fork, *forward_core, projection, *residual[0]),
        core=forward_core,
        input=(
            *residual[1], _by_input(projection), *backward_core, *_passes(rotated, rotary.backward),
            *(_by_input(product) for product in reversed(products)), *norm[1], *_stall(software.checkpoint_s if checkpointed else 0.0),
        ),
        weight=(_by_weight(projection), *map(_by_weight, reversed(products)), *bias, *_passes(biased, software.bias.backward)),
        entry=(_by_weight(products[0]),),
    )  # fmt: skip
    return _with_core(block, software)


def mlp_block(model: Model, shape: Shape, software: Software, inner: int, router: bool = False) -> BlockKernels:
    """Norm, the matrices with the activation between them, and dropout and residual; of inner size ``inner`` over all ranks.

    With ``router`` its product as well, and no residual, which comes behind the experts. ``inner`` 0 leaves the matrices out.
    """
    norm, residual, bias = _between(model, shape, software)
    routing = (Matmul(shape.between_tokens, model.experts, model.hidden),) if router else ()
    inside = _matrices(model, shape, software, shape.tokens, share(inner, shape.tensor), 1) if inner else BlockKernels((), (), ())
    after = ((), ()) if router else residual
    block = BlockKernels(
        forward=(*norm[0], *routing, *inside.forward, *after[0]),
        input=(*after[1], *inside.input, *map(_by_input, routing), *norm[1]),
        weight=(*inside.weight, *map(_by_weight, routing), *(() if router else bias)),
        entry=inside.entry,
    )
    return _with_core(block, software)


def experts_block(model: Model, shape: Shape, software: Software) -> BlockKernels:
    """The routed experts of one rank, with the tokens that an even spread sends to them, put in order and back; the residual."""
    copies = shape.tokens * model.top_k
    local = share(model.experts, shape.expert)
    inside = _matrices(model, shape, software, -(-copies // local), share(model.expert_ffn, shape.tensor), local)
    ordered = copies * model.hidden * shape.element_bytes
    _, residual, bias = _between(model, shape, software)
    return BlockKernels(
        forward=(*_passes(ordered, software.permute.forward), *inside.forward, *residual[0]),
        input=(*residual[1], *inside.input, *_passes(ordered, software.permute.backward)),
        weight=(*inside.weight, *bias),
    )


def head_block(model: Model, shape: Shape, software: Software) -> BlockKernels:
    """The final norm, the logits and the loss over the rank's part of the vocabulary."""
    if not model.vocab:
        return BlockKernels((), (), ())
    columns = share(model.vocab, shape.tensor)
    product = Matmul(shape.tokens, columns, model.hidden)
    norm, _, _ = _between(model, shape, software)
    logits = shape.tokens * columns * _LOSS_BYTES
    return BlockKernels(
        forward=(*norm[0], product, *_passes(logits, software.loss.forward)),
        input=(*_passes(logits, software.loss.backward), _by_input(product), *norm[1]),
        weight=(_by_weight(product),),
    )


def embedding_block(model: Model, shape: Shape, software: Software) -> BlockKernels:
    """The rows looked up (and dropped out), and in the backward their gradients added up."""
    if not model.vocab:
        return BlockKernels((), (), ())
    rows = shape.tokens * model.hidden * shape.element_bytes
    return BlockKernels(_passes(rows, software.embedding.forward), (), _passes(rows, software.embedding.backward))


def _with_core(block: BlockKernels, software: Software) -> BlockKernels:
    """The block with what selective recompute repeats under the software."""
    if software.selective == "core":
        return block
    products = [kernel for kernel in block.forward if isinstance(kernel, Matmul)]
    return replace(block, core=(*products[1::2], *(kernel for kernel in block.forward if isinstance(kernel, Pass))))


def _core(model: Model, shape: Shape, software: Software, heads: int) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Scores, softmax, dropout and context: one kernel each way, or products and passes over every score."""
    qk, value, queries, keys, batch = model.head_size, model.value_size, shape.queries, shape.sequence, shape.micro_batch * heads
    if software.attention == "flash":
        kernels = [Attention(queries, keys, batch, qk, value, 0.5 if software.causal else 1.0, back) for back in (False, True)]
        return (kernels[0],), (kernels[1],)
    pairs = batch * queries * keys
    element = pairs * shape.element_bytes
    drop = pairs * _MASK_BYTES if model.dropout else 0
    scores, context = Matmul(queries, keys, qk, batch), Matmul(queries, value, keys, batch)
    forward = [*_passes(element, software.scores.forward)]
    backward = [*_passes(element, software.scores.backward)]
    if model.dropout:
        forward += [Pass(2 * element + drop)]
        backward += [Pass(2 * element + drop)]
    of_context = Matmul(queries, keys, value, batch), Matmul(keys, value, queries, batch)
    of_scores = Matmul(queries, qk, keys, batch), Matmul(keys, qk, queries, batch)
    return (scores, *forward, context), (*of_context, *backward, *of_scores)


def _matrices(model: Model, shape: Shape, software: Software, tokens: int, inner: int, batch: int) -> BlockKernels:
    """The matrices of ``batch`` MLPs on one rank, ``tokens`` each, and the activation between them."""
    up = Matmul(tokens, inner * (model.mlp_matrices - 1), model.hidden, batch)
    down = Matmul(tokens, model.hidden, inner, batch)
    activated = batch * tokens * inner * shape.element_bytes
    activation = software.gated_activation if model.gated else software.activation
    biased = activated if model.mlp_bias else 0
    return BlockKernels(
        forward=(up, *_passes(activated, activation.forward), down),
        input=(_by_input(down), *_passes(activated, activation.backward), _by_input(up)),
        weight=(_by_weight(down), _by_weight(up), *_passes(biased, software.bias.backward)),
        entry=(_by_weight(up),),
    )


def _between(model: Model, shape: Shape, software: Software) -> tuple[tuple[Passing, Passing], tuple[Passing, Passing], Passing]:
    """Forward and backward of a norm, and of bias, dropout and residual; the gradient of the bias: on the tokens between the pairs."""
    size = shape.between_tokens * model.hidden
    hidden = size * shape.element_bytes
    drop = (Pass(size * _MASK_BYTES, 0),) if model.dropout else ()
    dropped = software.dropout if model.dropout else software.residual
    norm = _passes(hidden, software.norm.forward), _passes(hidden, software.norm.backward)
    residual = (*_passes(hidden, dropped.forward), *drop), (*_passes(hidden, dropped.backward), *drop)
    return norm, residual, _passes(hidden if model.projection_bias else 0, software.bias.backward)


def _passes(data_bytes: float, passes: float) -> Passing:
    """A kernel reads and writes its data about twice: so many kernels."""
    return (Pass(data_bytes * passes, max(1, round(passes / 3))),) if data_bytes and passes else ()


def _stall(seconds: float) -> tuple[Stall, ...]:
    return (Stall(seconds),) if seconds else ()


def _by_input(product: Matmul) -> Matmul:
    """The product that gives the gradient of the left factor."""
    return Matmul(product.rows, product.inner, product.columns, product.batch)


def _by_weight(product: Matmul) -> Matmul:
    """The product that gives the gradient of the right factor."""
    return Matmul(product.inner, product.columns, product.rows, product.batch)
