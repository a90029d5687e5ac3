"""The shortest step by closed forms: which configurations are worth a simulation.

X_x has x layers of hidden size x^2 and sequences of 16 x tokens; p stages, m micro-batches of one sequence, t tensor ranks. All times are
nominal: FLOP at peak, bytes at full bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from configurations import NETWORKS, Configuration

from clustersim.model.flops import layer_forward_flops
from clustersim.model.memory import layer_activation_bytes
from clustersim.planner.space import divisors
from clustersim.read_grid import MAX_GPUS
from clustersim.units import parse

PEAK_FLOP_S, MEMORY_BYTES, NVLINK_BYTES_S = 312e12, 80 * 2**30, 300e9
MEMORY_USED = 0.99
"""The form is that near to the simulated memory."""
MOST_MICRO_BATCHES = 400
MOST_SIMULATED, NEAR = 3, 0.02
PARTITIONS = {"baseline": ("none", "optimizer"), "improved": ("none", "parameters")}
"""With more than the optimizer's state partitioned the baseline gathers each layer for each micro-batch."""


@dataclass(frozen=True)
class Layer:
    """Seconds of one layer on one GPU: ``forward_s`` and ``backward_s`` of a micro-batch (recomputation and the tensor-parallel all-reduces

    in it); ``move_s``, to gather its parameters once or to scatter its gradients; of a pipeline message ``send_s``, in parts by all tensor
    ranks, and ``join_s``, for which the receivers gather the parts.
    """

    forward_s: float
    backward_s: float
    move_s: float
    send_s: float
    join_s: float


def layer_of(one: Configuration) -> Layer:
    """2 all-reduces forward, 4 backward with the recomputation; a node's adapters share the parameters of a layer.

    >>> from configurations import PAPER
    >>> layer = layer_of(PAPER[1])     # attention adds 1.7 % to 24 s h^2 / (16 x 312 TFLOP/s) = 8.07 ms
    >>> [round(1e3 * time, 2) for time in (layer.forward_s, layer.move_s, layer.send_s, layer.join_s)]
    [9.84, 39.24, 0.33, 0.41]
    """
    model, t, network = one.model, one.tensor, parse(NETWORKS[one.network], "bandwidth")
    message_bytes = 2 * model.sequence * model.hidden
    compute_s = layer_forward_flops(model, 1, model.sequence).total / t / PEAK_FLOP_S
    join_s = (t - 1) / t * message_bytes / NVLINK_BYTES_S
    moved_bytes = 2 * 12 * model.hidden**2 / one.node * (1 - 1 / one.data)
    piped = one.pipeline > 1
    return Layer(
        compute_s + 4 * join_s, 3 * compute_s + 8 * join_s, moved_bytes / network, piped * message_bytes / t / network, piped * join_s
    )


def step_s(one: Configuration) -> float:
    """Standard: (m+p-1) passes of a whole stage with a message each way, and the reductions under the last backward. Layered: in each of

    K = x/p loops a layer's compute for m micro-batches, the way of one around all ranks, or the traffic of the layer and its messages,
    whichever is longest; the fill of the first loop, the first gather, the last reduction.
    """
    layer, p, m = layer_of(one), one.pipeline, one.micro_batches
    deep, both_s = one.x // p, layer.forward_s + layer.backward_s
    if one.method == "baseline":
        last_s = max(deep * layer.backward_s + 2 * layer.move_s, layer.backward_s + 2 * deep * layer.move_s) - deep * layer.backward_s
        return (m + p - 1) * (deep * both_s + 2 * (layer.send_s + layer.join_s)) + last_s
    gathers = one.partition == "parameters"
    loops_s = deep * sum(
        max(m * (each_s + layer.join_s), p * (each_s + layer.join_s + layer.send_s), moves * layer.move_s + m * layer.send_s)
        for each_s, moves in ((layer.forward_s, gathers), (layer.backward_s, 2))
    )
    return loops_s + (min(m, p) - 1) * both_s + (1 + gathers) * layer.move_s


def memory_bytes(one: Configuration) -> float:
    """State of 16 bytes a parameter, divided as ``partition`` says; the inputs of the layers in flight; one layer whose backward runs;

    four layers of gathered parameters and gradients. With offload the inputs lie on the host, but for two.
    """
    model, deep = one.model, one.x // one.pipeline
    of_layer = 12 * model.hidden**2 / one.tensor
    each = {"none": 16, "optimizer": 4 + 12 / one.data, "parameters": 16 / one.data}[one.partition]
    buffers = 4 * 2 * of_layer if one.partition == "parameters" else 0
    in_flight = min(one.micro_batches, one.pipeline) if one.method == "baseline" else one.micro_batches
    kept = (in_flight * deep if one.offload == "none" else 2) * 2 * model.sequence * model.hidden
    return deep * of_layer * each + buffers + kept + layer_activation_bytes(model, 1, model.sequence, tensor=one.tensor)


def candidates(method: str, x: int, network: str = "InfiniBand", node: int = 16) -> Iterator[Configuration]:
    """All that fit: at least as many micro-batches as stages, stages that fill nodes, as many replicas as the critical batch allows.

    Activations go to the host where there is no room for them.
    """
    first = Configuration(method, 1, 1, 1, 1, x=x, network=network, node=node)
    batch = round(first.training.critical_batch)
    tensors = [t for t in divisors(first.model.heads) if t <= node and node % t == 0]
    for t in tensors:
        for p in divisors(x):
            before = 0
            for m in range(p, min(batch, MOST_MICRO_BATCHES) + 1):
                whole = node // t
                data = min(batch // m, MAX_GPUS // (p * t)) // whole * whole
                if not data or data == before:
                    continue
                before = data
                for partition in PARTITIONS[method]:
                    one = replace(first, data=data, pipeline=p, tensor=t, micro_batches=m, partition=partition)
                    ways = (one, replace(one, offload="activations"))
                    yield from [way for way in ways if memory_bytes(way) < MEMORY_USED * MEMORY_BYTES][:1]


def shortest(method: str, x: int, network: str = "InfiniBand", node: int = 16) -> list[Configuration]:
    """The best of each number of stages that is near the best of all, shortest training first; at most three.

    Of what takes the same time that comes first which needs no offload.
    """
    found: dict[int, tuple[float, bool, Configuration]] = {}
    for one in candidates(method, x, network, node):
        ranked = one.days(step_s(one)), one.offload != "none"
        if one.pipeline not in found or ranked < found[one.pipeline][:2]:
            found[one.pipeline] = *ranked, one
    best = sorted(found.values(), key=lambda each: each[:2])[:MOST_SIMULATED]
    return [one for days, _, one in best if days <= (1 + NEAR) * best[0][0]]
