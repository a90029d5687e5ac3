"""From an experiment to its program: costs, payloads, lowering, placement on the cluster."""

from __future__ import annotations

from clustersim.experiment import Experiment, FixedCost
from clustersim.model.flops import head_forward_flops, layer_forward_flops
from clustersim.model.memory import dispatch_bytes, state_bytes
from clustersim.program.costs import Block, Costs, Names, Segments, fixed_layer, head_segments, layer_segments, overlapped
from clustersim.program.instantiate import instantiate
from clustersim.program.lower import lower
from clustersim.program.memory import memory_sizes, rank_layer_parameters, rank_parameters
from clustersim.program.program import Program
from clustersim.program.traffic import Inner, Traffic
from clustersim.schedule.strategy import OPTIMIZER_AWAY
from clustersim.units import to_ps

_TENSOR = ("all_reduce", "all_gather", "reduce_scatter")


def build_program(experiment: Experiment, fold: bool = True) -> Program:
    """What the engine runs; with ``fold`` plainly identical replicas are simulated once.

    InputError when the job is too large.
    """
    template = lower(
        experiment.schedule, experiment.strategy, experiment.stage_layers, build_costs(experiment), build_traffic(experiment),
        experiment.grid, memory_sizes(experiment),
    )  # fmt: skip
    return instantiate(
        template, experiment.grid, experiment.cluster, experiment.collectives, fold, experiment.variability, experiment.slow_links
    )


def build_costs(experiment: Experiment) -> Costs:
    """Times of one layer and pass (a micro-batch, or a slice of one) on one rank, and of the optimizer."""
    cost, slices, layers = experiment.cost, experiment.schedule.slices, experiment.model.layers
    if isinstance(cost, FixedCost):
        times = (time_s / slices for time_s in (cost.forward_s, cost.backward_s, cost.input_s, cost.weight_s))
        fixed = _with_async({letter: own for letter, own in fixed_layer(*times, halves=experiment.grid.tensor > 1).items()}, experiment)
        return Costs(
            layers=(fixed,) * layers,
            head=dict.fromkeys(fixed, ()),
            reduce_ps=None if cost.reduce_s is None else to_ps(cost.reduce_s),
            gather_ps=None if cost.gather_s is None else to_ps(cost.gather_s),
            optimizer_ps=(to_ps(cost.optimizer_s),) * experiment.schedule.ranks,
        )
    gpu = experiment.cluster.gpu
    flop_s = gpu.peak_flop_s[experiment.precision] * (1.0 if cost == "peak" else gpu.efficiency)
    of_kind = {
        moe: _with_async(layer_segments(_blocks(experiment, moe), experiment.recompute, flop_s, experiment.strategy.keep_recomputed), experiment)
        for moe in (False, True)
    }
    head = head_forward_flops(experiment.model, experiment.micro_batch, experiment.sequence) / _parts(experiment)
    return Costs(
        layers=tuple(of_kind[experiment.model.is_moe(number)] for number in range(layers)),
        head=head_segments(head, flop_s),
        optimizer_ps=() if cost == "peak" or experiment.strategy.offload in OPTIMIZER_AWAY else tuple(_optimizer_ps(experiment, rank) for rank in range(experiment.schedule.ranks)),
    )


def _parts(experiment: Experiment) -> int:
    """Ranks and slices that the work on one micro-batch is divided over."""
    return experiment.grid.tensor * experiment.grid.context * experiment.schedule.slices


def _blocks(experiment: Experiment, moe: bool) -> list[Block]:
    """The attention and the MLP (of a mixture: router and shared experts, then the routed ones) of a rank, with their collectives.

    Tensor parallelism reduces behind each block and, in the backward, at its entry (arXiv 1909.08053); with sequence parallelism the
    reduction leaves each rank its part, which the next block gathers (arXiv 2205.05198). Context ranks pass keys and values
    around beside the attention, in the backward their gradients too (ring attention, arXiv 2310.01889). Expert parallelism sends
    each token to the ranks of its experts and back (GShard, arXiv 2006.16668).
    """
    layer = layer_forward_flops(experiment.model, experiment.micro_batch, experiment.sequence, moe=moe)
    parts, grid = _parts(experiment), experiment.grid
    enter: tuple[Names, Names] = ((), ())
    leave: tuple[Names, Names] = ((), ())
    if grid.tensor > 1:
        enter, leave = ((), ("all_reduce",)), (("all_reduce",), ())
        if experiment.sequence_parallel:
            enter, leave = (("all_gather",), ("reduce_scatter",)), (("reduce_scatter",), ("all_gather",))
    beside: tuple[Names, Names] = (("pass_keys",), ("pass_keys", "return_gradients")) if grid.context > 1 else ((), ())
    attention = Block("attention", layer.attention / parts, layer.attention_core / parts, enter, leave, beside)
    if not moe:
        return [attention, Block("mlp", layer.mlp / parts, 0.0, enter, leave)]
    sent: Names = ("dispatch",) if grid.expert > 1 else ()
    back = ((*sent, *leave[0]), (*leave[1], *sent))
    return [
        attention,
        Block("mlp", layer.mlp / parts, 0.0, enter),
        Block("experts", layer.experts / parts, 0.0, (sent, sent), back),
    ]


def _with_async(layer: dict[str, Segments], experiment: Experiment) -> dict[str, Segments]:
    if not experiment.strategy.async_tensor:
        return layer
    return {letter: overlapped(segments, experiment.grid.tensor, _TENSOR) for letter, segments in layer.items()}


def _optimizer_ps(experiment: Experiment, rank: int) -> int:
    """Adam reads the gradient and its state, and writes the state and the weights: their bytes at the bandwidth of the memory."""
    state, (dense, experts) = state_bytes(experiment.precision), rank_parameters(experiment, rank)
    if experiment.strategy.partition != "none":
        dense, experts = -(-dense // experiment.grid.shards), -(-experts // experiment.grid.size("expert_data"))
    moved = (dense + experts) * (state.gradients + 2 * state.optimizer + state.weights)
    return to_ps(moved / experiment.cluster.gpu.memory_bandwidth_bytes_s)


def build_traffic(experiment: Experiment) -> Traffic:
    """Payloads of one rank: b s h elements between layers, the embedding with the first layer, the head with the last.

    With sequence parallelism, and with scatter-gather (arXiv 2104.04473, section 4.1), 1/t of the elements go to the next stage.
    """
    model, grid, element = experiment.model, experiment.grid, state_bytes(experiment.precision).weights
    tokens_bytes = experiment.micro_batch * experiment.sequence * element
    divided = experiment.schedule.slices * grid.context
    activation = -(-tokens_bytes * model.hidden // divided)
    keys = -(-2 * tokens_bytes * model.kv_size // (experiment.schedule.slices * grid.tensor))
    inner = {name: Inner("tensor", "tensor", name, activation) for name in _TENSOR}
    inner["pass_keys"] = Inner("context", "context", "all_gather", keys)
    inner["return_gradients"] = Inner("context", "context", "reduce_scatter", keys)
    if grid.expert > 1:
        tokens = dispatch_bytes(model, experiment.micro_batch, experiment.sequence, experiment.precision)
        own = divided * (grid.tensor if experiment.sequence_parallel else 1)
        inner["dispatch"] = Inner("expert", "expert", "all_to_all", -(-tokens // own))
    dense, experts = zip(*rank_layer_parameters(experiment), strict=True)
    part = experiment.sequence_parallel or experiment.strategy.scatter_gather
    return Traffic(
        message_bytes=-(-activation // grid.tensor) if part else activation,
        layer_bytes=tuple(element * count for count in dense),
        expert_bytes=tuple(element * count for count in experts),
        inner=inner,
        gathered="all_gather" if part and grid.tensor > 1 and not experiment.sequence_parallel else None,
    )
