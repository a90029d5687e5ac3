"""Lower bounds of a candidate's step time and memory, from one simulated micro-batch and the closed forms.

A pass (one micro-batch forward and back through a layer, with the collectives inside it) is simulated with nobody else on the links, so
that in no run it takes less; a rank does its passes one after another. A rank whose first stage is s waits for one forward of all stages
before it, does m passes of its own, and one backward of all stages before it follows: for equal stages these are the closed forms of 1F1B
and GPipe, (m+p-1)(F+B), of interleaved 1F1B and of breadth-first pipelines, m(F+B) + (p-1)(F+B)/v.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from clustersim.cluster.spec import NETWORK, Cluster
from clustersim.errors import InputError
from clustersim.experiment import Experiment, parse
from clustersim.planner.space import Candidate
from clustersim.program.memory import rank_layer_parameters
from clustersim.schedule.actions import most_in_flight, single
from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import PIPES, PLACEMENTS
from clustersim.schedule.strategy import OPTIMIZER_AWAY, PRESETS, build
from clustersim.simulation import simulate
from clustersim.sweeps.points import Base, resolved
from clustersim.units import PS_PER_S

_WHOLE_BACKWARDS = ("1f1b", "eager-1f1b", "interleaved-1f1b", "gpipe", "layered", "breadth-first", "hanayo")
"""Orders that end with backwards of the first stage; others can end with weight gradients, which nothing waits for."""
_ALL_IN_FLIGHT = ("gpipe", "layered", "breadth-first")
_ACTIVATIONS_AWAY = ("activations", "all")
_STATE = ("weights", "gradients", "optimizer")
_NOT_OF_A_PASS = ("reduce", "gather", "optimizer", "offload", "fetch")


@dataclass(frozen=True)
class Profile:
    """One micro-batch on one rank of a tensor, context and expert group that holds the whole model. Arrays are by layer.

    ``forward_s`` is the forward alone (of the last layer 0: nothing follows it), ``pass_s`` forward and backward with the collectives in
    them, ``compute_s`` without. ``kept_bytes`` stay from the forward to the backward, ``working_bytes`` come on top of them while a
    backward runs. ``dense`` and ``experts`` are parameters, ``state_bytes`` the bytes of each of them by kind.
    """

    forward_s: np.ndarray
    pass_s: np.ndarray
    compute_s: np.ndarray
    kept_bytes: np.ndarray
    working_bytes: int
    dense: np.ndarray
    experts: np.ndarray
    state_bytes: Mapping[str, float]

    @cached_property
    def pass_total_s(self) -> float:
        return float(self.pass_s.sum())

    @cached_property
    def compute_total_s(self) -> float:
        return float(self.compute_s.sum())


def profile_key(candidate: Candidate) -> tuple:
    """What the profile of a candidate depends on."""
    return candidate.tensor, candidate.context, candidate.expert, candidate.micro, candidate.recompute, candidate.sequence_parallel


def measure(base: Base, candidate: Candidate) -> Profile:
    """Simulate one micro-batch of the candidate on one stage, data-parallel traffic after everything else.

    InputError when the degrees do not suit the model or the cluster.
    """
    alone = Candidate(
        data=candidate.expert, pipeline=1, tensor=candidate.tensor, context=candidate.context, expert=candidate.expert,
        micro=candidate.micro, micro_batches=1, strategy="gpipe", chunks=1, sequence_parallel=candidate.sequence_parallel,
        recompute=candidate.recompute,
    )  # fmt: skip
    return profile_of(parse(resolved(base, {**alone.assignments(), "strategy.overlap": "false"}), base.near))


def profile_of(experiment: Experiment) -> Profile:
    """The profile that the simulation of an experiment with one stage and one micro-batch shows."""
    trace = simulate(experiment).trace
    ops = trace.ops[(trace.ops["rank"] == 0) & ~trace.ops["kind"].isin(_NOT_OF_A_PASS)]
    by_layer = ops.groupby("layer")
    begins, ends = by_layer["start_ps"].min().to_numpy(), by_layer["end_ps"].max().to_numpy()
    forward_ps = np.append(np.diff(begins), 0)
    backward_ps = np.append(ends[:-1] - ends[1:], ends[-1] - begins[-1])
    compute = ops[ops["stream"] == "compute"]
    compute_ps = (compute["end_ps"] - compute["start_ps"]).groupby(compute["layer"]).sum().to_numpy()
    dense, experts = (np.array(column, dtype=float) for column in zip(*rank_layer_parameters(experiment), strict=True))
    memory = trace.memory[trace.memory["rank"] == 0]
    resident = memory[memory["time_ps"] == 0].groupby("what", observed=True)["bytes"].sum()
    activations = memory[memory["what"] == "activations"].groupby("time_ps")["bytes"].sum()
    times, level = activations.index.to_numpy(), activations.cumsum().to_numpy()
    kept = _kept(times, activations.to_numpy(), begins)
    return Profile(
        forward_ps / PS_PER_S, (forward_ps + backward_ps) / PS_PER_S, compute_ps / PS_PER_S, kept,
        _working(times, level, ends, kept), dense, experts,
        {what: float(resident.get(what, 0)) / (dense.sum() + experts.sum()) for what in _STATE},
    )  # fmt: skip


def _kept(times: np.ndarray, changes: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """What the forward of each layer adds: the first change from its begin on."""
    first = np.searchsorted(times, begins)
    return np.array([changes[at] if at < len(changes) else 0 for at in first], dtype=float)


def _working(times: np.ndarray, level: np.ndarray, ends: np.ndarray, kept: np.ndarray) -> int:
    """The least that any layer but the last has on top of what the forwards kept, while its backward runs."""
    below = np.cumsum(kept)
    peaks = [level[(times >= ends[layer + 1]) & (times < ends[layer])].max(initial=0) - below[layer] for layer in range(len(ends) - 1)]
    return max(0, int(min(peaks, default=0)))


@dataclass(frozen=True)
class Stages:
    """A pipeline, by stage: the rank that has it, seconds before the rank can begin with it and after it ends, seconds of a pass of the

    stages that the rank holds from there on. By rank: parameters, and what a micro-batch keeps in all of its chunks, in the smallest
    of them, and in the largest layer.
    """

    rank: np.ndarray
    around_s: np.ndarray
    held_s: np.ndarray
    dense: np.ndarray
    experts: np.ndarray
    kept_bytes: np.ndarray
    least_chunk_bytes: np.ndarray
    largest_layer_bytes: np.ndarray


def stages_of(profile: Profile, strategy: str, pipeline: int, chunks: int) -> Stages | None:
    """None where micro-batches take two ways, the model being on the ranks twice, or travel in slices."""
    preset = PRESETS[strategy]
    if preset.placement in PIPES or ORDERS[preset.order].slices > 1:
        return None
    rank = np.array(PLACEMENTS[preset.placement](pipeline, chunks))

    def by_stage(layers: np.ndarray) -> np.ndarray:
        return layers.reshape(len(rank), -1).sum(axis=1)

    passes, kept = by_stage(profile.pass_s), by_stage(profile.kept_bytes)
    around = passes if preset.order in _WHOLE_BACKWARDS else by_stage(profile.forward_s)
    by_layer = profile.kept_bytes.reshape(len(rank), -1).max(axis=1)
    held, least, largest = np.zeros(len(rank)), np.zeros(pipeline), np.zeros(pipeline)
    for place in range(pipeline):
        own = np.flatnonzero(rank == place)
        held[own] = np.cumsum(passes[own][::-1])[::-1]
        least[place], largest[place] = kept[own].min(), by_layer[own].max()
    dense, experts, kept = (np.bincount(rank, by_stage(each)) for each in (profile.dense, profile.experts, profile.kept_bytes))
    return Stages(rank, np.cumsum(around) - around, held, dense, experts, kept, least, largest)


def work_bound_s(profile: Profile, candidate: Candidate) -> float:
    """The mean compute of a rank, with the collectives in it: a bound at next to no cost."""
    per_pass = profile.compute_total_s if PRESETS[candidate.strategy].placement in PIPES else profile.pass_total_s
    return candidate.micro_batches * per_pass / candidate.pipeline


def step_bound_s(profile: Profile, stages: Stages | None, candidate: Candidate) -> float:
    """No step is shorter: see the head of this file.

    In layered order a rank's next stage waits for all micro-batches of the one before; where the two are neighbours on one rank the ranks
    so work one after another, (p(v-1)m + m + p - 1)(F+B)/v.
    """
    m = candidate.micro_batches
    if stages is None:
        return work_bound_s(profile, candidate)
    bound = float((stages.around_s + m * stages.held_s).max())
    preset = PRESETS[candidate.strategy]
    if preset.order == "layered" and preset.placement == "contiguous":
        stays = stages.rank[1:] == stages.rank[:-1]
        bound = max(bound, float((np.diff(stages.around_s) * np.where(stays, m, 1)).sum() + m * stages.held_s[-1]))
    return bound


def memory_bound_bytes(profile: Profile, stages: Stages | None, candidate: Candidate, facts: Facts | None = None) -> float:
    """The fullest rank holds no less: its share of the state, what the forwards in flight keep, and the layer whose backward runs.

    Without ``facts`` in flight is what the order is known to have at least.
    """
    if stages is None:
        return _state_bytes(profile, candidate, profile.dense.sum(), profile.experts.sum()) / candidate.pipeline
    held = _state_bytes(profile, candidate, stages.dense, stages.experts)
    if candidate.offload not in _ACTIVATIONS_AWAY:
        order, m = PRESETS[candidate.strategy].order, candidate.micro_batches
        if order in _ALL_IN_FLIGHT:
            held = held + m * stages.kept_bytes
        elif facts is not None:
            held = held + np.maximum(np.array(facts.in_flight) * stages.least_chunk_bytes, stages.kept_bytes)
        elif order == "1f1b":
            held = held + np.minimum(m, candidate.pipeline - np.arange(candidate.pipeline)) * stages.kept_bytes
        else:
            held = held + stages.kept_bytes
        held = held + profile.working_bytes
    return float(held.max())


def _state_bytes(profile: Profile, candidate: Candidate, dense: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """Of so many parameters: ZeRO divides the optimizer's state, then gradients, then weights over the copies of the model."""
    copies = candidate.data * candidate.context
    divided = dense / copies + experts / (copies // candidate.expert)
    parted = {"none": (), "optimizer": ("optimizer",), "gradients": ("optimizer", "gradients"), "parameters": _STATE}[candidate.partition]
    kinds = [what for what in _STATE if what != "optimizer" or candidate.offload not in OPTIMIZER_AWAY]
    return sum(profile.state_bytes[what] * (divided if what in parted else dense + experts) for what in kinds)


@dataclass(frozen=True)
class Ways:
    """What a node can move: its GPUs, bytes/s into it from the network, bytes/s from each GPU to a host while all of them send.

    0 GPUs where nothing is known of the nodes, infinite where nothing limits.
    """

    gpus_per_node: int
    into_node_bytes_s: float
    to_host_bytes_s: float


def ways_of(cluster: Cluster) -> Ways:
    """At full capacity."""
    if cluster.ideal or cluster.whole or not cluster.has_network:
        return Ways(0, math.inf, math.inf)
    into = sum(link.capacity_bytes_s for link in cluster.node_links if link.source == NETWORK)
    load: dict[int, float] = {}
    try:
        for gpu in range(cluster.gpus_per_node):
            for link, share in cluster.host_route(gpu, out=True).links:
                load[link] = load.get(link, 0.0) + float(share)
    except InputError:  # no way there: the simulation will say so
        load = {}
    to_host = min((cluster.link_figures(link)[1] / share for link, share in load.items()), default=math.inf)
    return Ways(cluster.gpus_per_node, float(into), to_host)


def traffic_bound_s(profile: Profile, stages: Stages | None, candidate: Candidate, ways: Ways, facts: Facts | None = None) -> float:
    """The data-parallel bytes into a node of the first stage, and those from a GPU to its host, at full capacity."""
    return 0.0 if stages is None else max(_data_s(profile, stages, candidate, ways, facts), _host_s(stages, candidate, ways))


def _data_s(profile: Profile, stages: Stages, candidate: Candidate, ways: Ways, facts: Facts | None) -> float:
    """Each of n members of a group ends a gather with all of its bytes, so that a node with g of them takes in at least 1 - g/n.

    A reduction is a gather backwards. An all-reduce is both on average over the nodes; where the stage leaves a node half empty, one.
    The experts' share is left out.
    """
    stride, copies, node = candidate.tensor * candidate.context, candidate.data * candidate.context, ways.gpus_per_node
    ranks = candidate.tensor * copies
    if not node or copies == 1 or ranks <= node:
        return 0.0
    groups = min(candidate.tensor if candidate.context > 1 else stride, node)
    least = candidate.micro_batches if PRESETS[candidate.strategy].timing == "micro_batch" else 1
    there, back = (least, least) if facts is None else (facts.forward_runs, facts.backward_runs)
    times = {"none": 1 if ranks % node else 2, "optimizer": 2, "gradients": back + 1, "parameters": there + 2 * back}[candidate.partition]
    payload = stages.dense[0] * profile.state_bytes["weights"]
    return float(times * payload * max(0.0, groups - node / copies) / ways.into_node_bytes_s)


def _host_s(stages: Stages, candidate: Candidate, ways: Ways) -> float:
    """All GPUs of a node of the first stage; a rank may need what its last layer keeps again at once."""
    if candidate.offload not in _ACTIVATIONS_AWAY or candidate.gpus // candidate.pipeline < ways.gpus_per_node:
        return 0.0
    moved = stages.kept_bytes[0] - stages.largest_layer_bytes[0]
    return float(candidate.micro_batches * moved / ways.to_host_bytes_s)


@dataclass(frozen=True)
class Facts:
    """Of a schedule: by pipeline rank the most chunks of micro-batches in flight; for a layer of the first rank, at least so many stretches

    of forwards, and of backwards, each of which partitioned state moves for.
    """

    in_flight: tuple[int, ...]
    forward_runs: int
    backward_runs: int


def facts_of(candidate: Candidate, layers: int) -> Facts:
    """From the actions. ValueError when the schedule cannot have these numbers."""
    preset = replace(PRESETS[candidate.strategy], chunks=candidate.chunks)
    schedule = build(preset, layers, candidate.pipeline, candidate.micro_batches)
    runs = Counter(key for key, _ in groupby((one.kind, one.stage) for one in single(schedule.actions[0])))
    fewest = {kind: min((times for (own, _), times in runs.items() if own == kind), default=0) for kind in "FBW"}
    if preset.timing == "micro_batch":
        fewest = dict.fromkeys(fewest, candidate.micro_batches)
    return Facts(tuple(-(-most // schedule.slices) for most in most_in_flight(schedule)), fewest["F"], max(fewest["B"], fewest["W"]))
