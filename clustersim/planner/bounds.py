"""Lower bounds of a candidate's step time, from one simulated micro-batch and the closed forms.

A pass (one micro-batch forward and back through a layer, with the collectives inside it) is simulated with nobody else on the links, so
that in no run it takes less; a rank does its passes one after another. A rank whose first stage is s waits for one forward of all stages
before it, does m passes of its own, and one backward of all stages before it follows: for equal stages these are the closed forms of 1F1B
and GPipe, (m+p-1)(F+B), of interleaved 1F1B and of breadth-first pipelines, m(F+B) + (p-1)(F+B)/v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clustersim.cluster.spec import NETWORK, Cluster
from clustersim.engine.simulate import simulate as run_program
from clustersim.errors import InputError
from clustersim.experiment import Experiment, parse
from clustersim.planner.facts import Facts
from clustersim.planner.memory_bound import ACTIVATIONS_AWAY, WHOLE_BACKWARDS, Shares, Sizes, placed
from clustersim.planner.space import Candidate
from clustersim.program.build import build_costs, build_program
from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import PIPES, PLACEMENTS
from clustersim.schedule.strategy import PRESETS
from clustersim.sweeps.points import Base, resolved
from clustersim.trace.trace import from_outcome
from clustersim.units import PS_PER_S

_NOT_OF_A_PASS = ("reduce", "gather", "optimizer", "offload", "fetch")


@dataclass(frozen=True)
class Profile:
    """One micro-batch on one rank of a tensor, context and expert group that holds the whole model. Arrays are by layer.

    ``forward_s`` is the forward alone (of the last layer 0: nothing follows it), ``pass_s`` forward and backward with the collectives in
    them, ``compute_s`` without.
    """

    forward_s: np.ndarray
    pass_s: np.ndarray
    compute_s: np.ndarray

    @cached_property
    def pass_total_s(self) -> float:
        return float(self.pass_s.sum())

    @cached_property
    def compute_total_s(self) -> float:
        return float(self.compute_s.sum())


def compute_s_of(one: Experiment, candidate: Candidate) -> float:
    """Compute of a pass through all layers, without a simulation; ``one``: the same on one GPU."""
    costs = build_costs(placed(one, candidate, data=candidate.expert, pipeline=1))
    segments = (segment for layer in range(len(costs.layers)) for kind in "FB" for segment in costs.segments(kind, layer))
    return sum(segment.duration_ps for segment in segments) / PS_PER_S


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
    program = build_program(experiment)
    ops = from_outcome(program, run_program(program)).ops
    ops = ops[(ops["rank"] == 0) & ~ops["kind"].isin(_NOT_OF_A_PASS)]
    by_layer = ops.groupby("layer")
    begins, ends = by_layer["start_ps"].min().to_numpy(), by_layer["end_ps"].max().to_numpy()
    forward_ps = np.append(np.diff(begins), 0)
    backward_ps = np.append(ends[:-1] - ends[1:], ends[-1] - begins[-1])
    compute = ops[ops["stream"] == "compute"]
    compute_ps = (compute["end_ps"] - compute["start_ps"]).groupby(compute["layer"]).sum().to_numpy()
    return Profile(forward_ps / PS_PER_S, (forward_ps + backward_ps) / PS_PER_S, compute_ps / PS_PER_S)


@dataclass(frozen=True)
class Stages:
    """A pipeline, by stage: the rank that has it, seconds before the rank can begin with it and after it ends, seconds of a pass of the
    stages that the rank holds from there on.
    """

    rank: np.ndarray
    around_s: np.ndarray
    held_s: np.ndarray


def stages_of(profile: Profile, strategy: str, pipeline: int, chunks: int) -> Stages | None:
    """None where micro-batches take two ways, the model being on the ranks twice, or travel in slices."""
    preset = PRESETS[strategy]
    if preset.placement in PIPES or ORDERS[preset.order].slices > 1:
        return None
    rank = np.array(PLACEMENTS[preset.placement](pipeline, chunks))

    def by_stage(layers: np.ndarray) -> np.ndarray:
        return layers.reshape(len(rank), -1).sum(axis=1)

    passes = by_stage(profile.pass_s)
    around = passes if preset.order in WHOLE_BACKWARDS else by_stage(profile.forward_s)
    held = np.zeros(len(rank))
    for place in range(pipeline):
        own = np.flatnonzero(rank == place)
        held[own] = np.cumsum(passes[own][::-1])[::-1]
    return Stages(rank, np.cumsum(around) - around, held)


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


def traffic_bound_s(sizes: Sizes, shares: Shares | None, candidate: Candidate, ways: Ways, facts: Facts | None = None) -> float:
    """The data-parallel bytes into a node of the first stage, and those from a GPU to its host, at full capacity."""
    return 0.0 if shares is None else max(_data_s(sizes, shares, candidate, ways, facts), _host_s(shares, candidate, ways))


def _data_s(sizes: Sizes, shares: Shares, candidate: Candidate, ways: Ways, facts: Facts | None) -> float:
    """Each of n members of a group ends a gather with all of its bytes, so that a node with g of them takes in at least 1 - g/n.

    A reduction is a gather backwards. An all-reduce is both on average over the nodes; where the stage leaves a node half empty, one.
    The experts' share, which fewer copies have where they are divided, is left out there.
    """
    stride, copies, node = candidate.tensor * candidate.context, candidate.data * candidate.context, ways.gpus_per_node
    ranks = candidate.tensor * copies
    if not node or copies == 1 or ranks <= node:
        return 0.0
    groups = min(candidate.tensor if candidate.context > 1 else stride, node)
    least = candidate.micro_batches if PRESETS[candidate.strategy].timing == "micro_batch" else 1
    there, back = (least, least) if facts is None else (facts.forward_runs, facts.backward_runs)
    times = {"none": 1 if ranks % node else 2, "optimizer": 2, "gradients": back + 1, "parameters": there + 2 * back}[candidate.partition]
    payload = (shares.dense[0] + (shares.experts[0] if candidate.expert == 1 else 0)) * sizes.gathered
    return float(times * payload * max(0.0, groups - node / copies) / ways.into_node_bytes_s)


def _host_s(shares: Shares, candidate: Candidate, ways: Ways) -> float:
    """All GPUs of a node of the first stage; a rank may need what its last layer keeps again at once."""
    if candidate.offload not in ACTIVATIONS_AWAY or candidate.gpus // candidate.pipeline < ways.gpus_per_node:
        return 0.0
    moved = shares.kept[0] - shares.largest_layer[0]
    return float(candidate.micro_batches * moved / ways.to_host_bytes_s)
