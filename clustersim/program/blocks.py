"""The parts of a layer, of the head and of the embedding on one rank: their work and their collectives, from an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clustersim.compute.durations import Durations, total_s
from clustersim.compute.kernels import (
    BlockKernels,
    Kernel,
    Matmul,
    Shape,
    attention_block,
    embedding_block,
    experts_block,
    head_block,
    mlp_block,
)
from clustersim.compute.software import Software
from clustersim.experiment import Experiment
from clustersim.model.flops import BACKWARD, head_forward_flops, layer_forward_flops
from clustersim.model.memory import state_bytes
from clustersim.program.costs import NOTHING, Block, Names, Work

_NONE: tuple[Names, Names] = ((), ())


def layer_blocks(experiment: Experiment, durations: Durations | None, flop_s: float, moe: bool) -> list[Block]:
    """The attention and the MLP (of a mixture: router and shared experts, then the routed ones) of a rank, with their collectives.

    Kernels take what ``durations`` says; None computes every FLOP at ``flop_s``. Tensor parallelism reduces behind each block and, in
    the backward, at its entry (arXiv 1909.08053); with sequence parallelism the reduction leaves each rank its part, which the next
    block gathers (arXiv 2205.05198). Context ranks pass keys and values around beside the attention, in the backward their
    gradients too (ring attention, arXiv 2310.01889). Expert parallelism sends each token to the ranks of its experts and back
    (GShard, arXiv 2006.16668).
    """
    model, grid = experiment.model, experiment.grid
    layer, parts = layer_forward_flops(model, experiment.micro_batch, experiment.sequence, moe=moe), _parts(experiment)
    enter, leave = _tensor_collectives(experiment)
    beside: tuple[Names, Names] = (("pass_keys",), ("pass_keys", "return_gradients")) if grid.context > 1 else _NONE
    shape = shape_of(experiment)

    def block(
        part: str, flops: int, core: int, kernels: Callable[[Software], BlockKernels], enter: tuple[Names, Names],
        leave: tuple[Names, Names] = _NONE, beside: tuple[Names, Names] = _NONE,
    ) -> Block:  # fmt: skip
        if durations is None:
            works = _of_flops(flops / parts, core / parts, flop_s)
        else:
            software = _software(experiment)
            works = _of_kernels(flops / parts, core / parts, kernels(software), durations, software.selective)
        return Block(part, *works, enter, leave, beside)

    checkpointed = experiment.recompute == "full"
    attention = block(
        "attention", layer.attention, layer.attention_core,
        lambda software: attention_block(model, shape, software, checkpointed), enter, leave, beside,
    )  # fmt: skip
    if not moe:
        return [attention, block("mlp", layer.mlp, 0, lambda software: mlp_block(model, shape, software, model.ffn), enter, leave)]
    sent: Names = ("dispatch",) if grid.expert > 1 else ()
    back = ((*sent, *leave[0]), (*leave[1], *sent))
    return [
        attention,
        block("mlp", layer.mlp, 0, lambda software: mlp_block(model, shape, software, model.shared_ffn, router=True), enter),
        block("experts", layer.experts, 0, lambda software: experts_block(model, shape, software), (sent, sent), back),
    ]


def head_of(experiment: Experiment, durations: Durations | None, flop_s: float) -> Block:
    """Final norm, logits and loss, without the one reduction over the tensor ranks in their backward.

    Software leaves the logits out of 8 bits (torchtitan, float8.py; Megatron-Core, output_layer).
    """
    flops = head_forward_flops(experiment.model, experiment.micro_batch, experiment.sequence) / _parts(experiment)
    if durations is None:
        works = _of_flops(flops, 0.0, flop_s)
    else:
        kernels = head_block(experiment.model, shape_of(experiment), _software(experiment))
        works = _of_kernels(flops, 0.0, kernels, durations.in_16_bits())
    return Block("head", *works)


def embedding_of(experiment: Experiment, durations: Durations | None) -> Block:
    """The look-up of rows, which takes no FLOPs, without the one reduction over the tensor ranks behind it."""
    if durations is None:
        return Block("embedding", NOTHING, NOTHING, NOTHING)
    kernels = embedding_block(experiment.model, shape_of(experiment), _software(experiment))
    return Block("embedding", *_of_kernels(0.0, 0.0, kernels, durations))


def layer_kernels(experiment: Experiment) -> list[Kernel]:
    """All kernels of one pass: of each kind of layer, of the head and of the embedding."""
    noted = _Noting([])
    for moe in {experiment.model.is_moe(layer) for layer in range(experiment.model.layers)}:
        layer_blocks(experiment, noted, 1.0, moe)
    head_of(experiment, noted, 1.0)
    embedding_of(experiment, noted)
    return noted.kernels


@dataclass(frozen=True)
class _Noting:
    """Durations of nothing, for the list of what they are asked for."""

    kernels: list[Kernel]

    def duration(self, kernel: Kernel) -> float:
        self.kernels.append(kernel)
        return 0.0

    def in_16_bits(self) -> _Noting:
        return self


def shape_of(experiment: Experiment) -> Shape:
    """Of one pass on one rank."""
    grid = experiment.grid
    return Shape(
        experiment.micro_batch, experiment.sequence, grid.tensor, grid.context * experiment.schedule.slices, experiment.sequence_parallel,
        state_bytes(experiment.precision).weights, grid.expert,
    )  # fmt: skip


def _software(experiment: Experiment) -> Software:
    assert experiment.calibration is not None  # where kernels have durations
    return experiment.calibration.software


def _parts(experiment: Experiment) -> int:
    """Ranks and slices that the work on one micro-batch is divided over."""
    return experiment.grid.tensor * experiment.grid.context * experiment.schedule.slices


def _tensor_collectives(experiment: Experiment) -> tuple[tuple[Names, Names], tuple[Names, Names]]:
    """At the entry of a block and behind it, each in the forward and in the backward."""
    if experiment.grid.tensor == 1:
        return _NONE, _NONE
    if experiment.sequence_parallel:
        return (("all_gather",), ("reduce_scatter",)), (("reduce_scatter",), ("all_gather",))
    return ((), ("all_reduce",)), (("all_reduce",), ())


Works = tuple[Work, Work, Work, Work, Work]
"""Forward, input, weight, core, and of the weight's half the part at the entry."""


def _of_flops(flops: float, core: float, flop_s: float) -> Works:
    """Without a part at the entry, where every FLOP takes as long; the core has no weights, and twice its work in the backward."""
    forward, into, weight, again = (Work(count, count / flop_s) for count in _halves(flops, core))
    return forward, into, weight, again, NOTHING


def _of_kernels(flops: float, core: float, kernels: BlockKernels, durations: Durations, selective: str = "core") -> Works:
    """As the kernels take; in place of the core what ``selective`` recompute repeats."""
    forward, into, weight, again = _halves(flops, core)
    if selective == "products":
        again = _product_flops(kernels.core)
    return (
        Work(forward, total_s(durations, kernels.forward)),
        Work(into, total_s(durations, kernels.input)),
        Work(weight, total_s(durations, kernels.weight)),
        Work(again, total_s(durations, kernels.core)),
        Work(_product_flops(kernels.entry), total_s(durations, kernels.entry)),
    )


def _product_flops(kernels: Iterable[Kernel]) -> float:
    return float(sum(kernel.flops for kernel in kernels if isinstance(kernel, Matmul)))


def _halves(flops: float, core: float) -> tuple[float, float, float, float]:
    products = flops - core
    return flops, products + BACKWARD * core, products, core
