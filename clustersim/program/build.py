"""From an experiment to its program: costs, payloads, lowering, placement on the cluster."""

from __future__ import annotations

from dataclasses import replace

from clustersim.compute.durations import Measured
from clustersim.compute.kernels import Matmul
from clustersim.experiment import Experiment
from clustersim.model.memory import dispatch_bytes, state_bytes
from clustersim.program.blocks import embedding_of, head_of, layer_blocks, layer_kernels
from clustersim.program.costs import Costs, Segments, embedding_segments, fixed_layer, head_segments, layer_segments, overlapped
from clustersim.program.instantiate import instantiate
from clustersim.program.lower import lower
from clustersim.program.memory import memory_sizes, rank_layer_parameters, rank_layers, rank_parameters, state_of
from clustersim.program.program import Program
from clustersim.program.traffic import Inner, Traffic
from clustersim.read_cost import FixedCost
from clustersim.schedule.strategy import OPTIMIZER_AWAY
from clustersim.units import to_ps

_TENSOR = ("all_reduce", "all_gather", "reduce_scatter")


def build_program(experiment: Experiment, fold: bool = True) -> Program:
    """What the engine runs; with ``fold`` plainly identical replicas are simulated once.

    InputError when the job is too large.
    """
    _check_table(experiment)
    template = lower(
        experiment.schedule, experiment.strategy, experiment.stage_layers, build_costs(experiment), build_traffic(experiment),
        experiment.grid, memory_sizes(experiment),
    )  # fmt: skip
    program = instantiate(
        template, experiment.grid, experiment.cluster, experiment.collectives, fold, experiment.variability, experiment.slow_links
    )
    calibration = experiment.calibration
    return replace(program, slowdown_ppm=round(calibration.slowdown * 1e6) if calibration else 0)


def _check_table(experiment: Experiment) -> None:
    """InputError when measured kernels are given and none of them is one of the job."""
    measured = experiment.durations
    if not isinstance(measured, Measured):
        return
    kernels = layer_kernels(experiment)
    if all(measured.known(kernel) is None for kernel in kernels):
        product = next(kernel for kernel in kernels if isinstance(kernel, Matmul))
        experiment.document.error(
            "cost", f"none of the {len(measured.table):,} measured kernels is one of this job, whose products are of {product.rows:,} x"
            f" {product.inner:,} by {product.inner:,} x {product.columns:,} and others; allowed: a table with at least one of them",
        )  # fmt: skip


def build_costs(experiment: Experiment) -> Costs:
    """Times of one layer and pass (a micro-batch, or a slice of one) on one rank, and of the optimizer."""
    cost, slices, layers = experiment.cost, experiment.schedule.slices, experiment.model.layers
    if isinstance(cost, FixedCost):
        times = (time_s / slices for time_s in (cost.forward_s, cost.backward_s, cost.input_s, cost.weight_s))
        fixed = _with_async(fixed_layer(*times, halves=experiment.grid.tensor > 1), experiment)
        return Costs(
            layers=(fixed,) * layers,
            head=dict.fromkeys(fixed, ()),
            embedding=dict.fromkeys(fixed, ()),
            reduce_ps=None if cost.reduce_s is None else to_ps(cost.reduce_s),
            gather_ps=None if cost.gather_s is None else to_ps(cost.gather_s),
            optimizer_ps=(to_ps(cost.optimizer_s),) * experiment.schedule.ranks,
        )
    gpu, calibration = experiment.cluster.gpu, experiment.calibration
    durations = experiment.durations
    flop_s = gpu.peak_flop_s[experiment.precision] * (1.0 if cost == "peak" else gpu.efficiency or 1.0)
    beside_weights = calibration is not None and calibration.software.beside_weights
    of_kind = {
        moe: _with_async(
            layer_segments(layer_blocks(experiment, durations, flop_s, moe), experiment.recompute, experiment.strategy.keep_recomputed,
                           beside_weights),
            experiment,
        )
        for moe in {experiment.model.is_moe(number) for number in range(layers)}
    }
    no_optimizer = cost == "peak" or experiment.strategy.offload in OPTIMIZER_AWAY
    return Costs(
        layers=tuple(of_kind[experiment.model.is_moe(number)] for number in range(layers)),
        head=head_segments(head_of(experiment, durations, flop_s)),
        embedding=embedding_segments(embedding_of(experiment, durations)),
        optimizer_ps=() if no_optimizer else tuple(_optimizer_ps(experiment, rank) for rank in range(experiment.schedule.ranks)),
    )


def _with_async(layer: dict[str, Segments], experiment: Experiment) -> dict[str, Segments]:
    if not experiment.strategy.async_tensor:
        return layer
    return {letter: overlapped(segments, experiment.grid.tensor, _TENSOR) for letter, segments in layer.items()}


def _optimizer_ps(experiment: Experiment, rank: int) -> int:
    """Adam's bytes at the bandwidth of the memory.

    It reads the gradient and its state, and writes the state and the weights; software moves more, for the norm of the gradients
    and in kernels of their own. Some waits for its host at the tensors of every layer.
    """
    state, (dense, experts) = state_bytes(experiment.precision), rank_parameters(experiment, rank)
    if experiment.strategy.partition != "none":
        dense, experts = -(-dense // experiment.grid.shards), -(-experts // experiment.grid.size("expert_data"))
    bandwidth_bytes_s, calibration = experiment.cluster.gpu.memory_bandwidth_bytes_s, experiment.calibration
    if calibration is None:
        return to_ps((dense + experts) * (state.gradients + 2 * state.optimizer + state.weights) / bandwidth_bytes_s)
    software = calibration.software
    moved_bytes = software.optimizer_bytes + (software.gradient_bytes if experiment.grid.copies > 1 else 0)
    waited_s = software.update_s * len(rank_layers(experiment, rank))
    return to_ps((dense + experts) * moved_bytes / (bandwidth_bytes_s * calibration.memory_efficiency) + waited_s)


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
        gradient_ratio=state_of(experiment)[1] / element,
        gathered="all_gather" if part and grid.tensor > 1 and not experiment.sequence_parallel else None,
    )
