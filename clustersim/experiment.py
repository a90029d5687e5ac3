"""The experiment file: read, checked, overridden. What comes out is complete and consistent.

>>> text = '''
... model: {layers: 16, hidden: 64, heads: 4}
... cluster: ideal
... parallel: {pipeline: 4}
... strategy: {name: mpp}
... batch: {global: 8, micro: 1, sequence: 128}
... cost: {forward: 1 s, backward: 3 s}
... '''
>>> experiment = parse(document.loads(text, "example.yaml"), Path("."))
>>> experiment.schedule.placement[:5], experiment.micro_batches
((0, 1, 2, 3, 0), 8)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from clustersim import document, presets
from clustersim.cluster.faults import link_number, without_links
from clustersim.cluster.load import BASE, inline_topology, load_cluster
from clustersim.cluster.rates import OVERRIDE_KEYS
from clustersim.cluster.spec import LINK_KINDS, Cluster
from clustersim.collectives.algorithms import ALGORITHMS, able
from clustersim.collectives.layout import lay_out
from clustersim.compute.calibration import Calibration
from clustersim.compute.durations import Durations
from clustersim.document import Document, Section
from clustersim.model.flops import RECOMPUTE
from clustersim.model.load import load_model
from clustersim.model.memory import PRECISIONS
from clustersim.model.spec import Model
from clustersim.program.grid import Grid
from clustersim.read_cost import FixedCost, read_cost
from clustersim.read_grid import MAX_GPUS, PARALLEL_KEYS, check_experts, degrees_text, read_grid, with_shards
from clustersim.read_strategy import OF_ONE_STRATEGY, read_strategy, schedule_of
from clustersim.schedule.actions import Schedule
from clustersim.schedule.strategy import Strategy, slices_of, stage_layers
from clustersim.trace.granularity import GRANULARITIES
from clustersim.units import to_ps
from clustersim.variability import Variability, read_variability

KEYS = (
    "model", "cluster", "nodes", "parallel", "strategy", "batch", "precision", "recompute", "steps", "software", "cost", "collectives",
    "link_delay", "variability", "granularity", *LINK_KINDS, "sweep",
)  # fmt: skip
SHORT_FORMS = MappingProxyType({"strategy": "name", "cluster": BASE})
SWEEP_KEYS = ("vary", "zip", "tolerance_percent", "metric")
_MODEL = "the name of a model, a path to a config.json, or a mapping with layers, hidden, heads"
_CLUSTER = "the name of a cluster or a path to a topology file"

MAX_LAYER_PASSES = 200_000
MAX_UNFOLDED_PASSES = 5_000_000
"""One layer and micro-batch each; a pass is 4 to 16 ops, and a million ops take some 20 s and 1 GB."""


@dataclass(frozen=True)
class Experiment:
    """One optimizer step to simulate. ``cost`` is fixed times, ``"peak"``, or None: then kernels take what ``durations`` says under a
    ``calibration`` of GPU and software, or every FLOP as long as the GPU's efficiency says where these are None too.

    ``slow_links`` has the part of its capacity that a link of the cluster has left. ``warnings`` are sentences for the user;
    ``document`` is what was read, with overrides.
    """

    model: Model
    cluster: Cluster
    grid: Grid
    strategy: Strategy
    schedule: Schedule
    stage_layers: tuple[range, ...]
    sequence_parallel: bool
    micro_batch: int
    sequence: int
    global_batch: int
    micro_batches: int
    precision: str
    recompute: str
    cost: str | FixedCost | None
    calibration: Calibration | None
    durations: Durations | None
    collectives: str
    granularity: str
    variability: Variability
    slow_links: Mapping[int, float]
    warnings: tuple[str, ...]
    document: Document


def load(reference: str | Path, overrides: Sequence[str] = (), strategy: str | None = None) -> Experiment:
    """The experiment in a file (or a shipped one, by name), with ``path.to.key=value`` overrides.

    ``strategy`` replaces the name, and drops what the file says of placement, order, timing and chunks for another one.
    InputError, one line with the place, for whatever is wrong.
    """
    path = presets.find(str(reference), "schedules", Path(), "experiment", "EXPERIMENT")
    read = document.load(path).override(overrides, SHORT_FORMS)
    if strategy is not None:
        read = with_strategy(read, strategy)
    return parse(read, path.parent)


def with_strategy(read: Document, name: str) -> Document:
    """The document with another strategy, without what it says for the one it names; see :func:`load`."""
    given = read.data.get("strategy")
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, dict):
        given = {}
    if given.get("name") != name:
        given = {key: value for key, value in given.items() if key not in OF_ONE_STRATEGY}
    lines = {**read.lines, "strategy.name": f"{read.source}, strategy {document.clipped(name)}"}
    return replace(read, data={**read.data, "strategy": {**given, "name": name}}, lines=lines)


def parse(read: Document, near: Path) -> Experiment:
    """Check a document; file names in it are relative to ``near``."""
    top = read.section("", KEYS)
    top.section("sweep", SWEEP_KEYS)
    steps = top.integer("steps", 1, maximum=1000)
    batch = top.section("batch", ("global", "micro", "sequence"))
    given_sequence = batch.integer("sequence", None, maximum=10**9)
    reference = top.raw("model", expected=_MODEL)
    if isinstance(reference, str):
        top.text("model", expected=_MODEL)
    model = load_model(reference, read, "model", near, given_sequence)
    sequence = given_sequence or model.sequence
    if sequence is None:
        batch.error("sequence", f"missing, and model {model.name} names no sequence length; expected a number of tokens")
    grid = read_grid(top)
    check_experts(top, grid, model)
    if sequence % grid.context:
        top.document.error("parallel.context", f"{grid.context} does not divide a sequence of {sequence} tokens; allowed: a divisor")
    variability = read_variability(top, grid.ranks)
    cluster, slow_links = _disturbed(top, _read_cluster(top, grid, near), variability)
    precision = top.choice("precision", PRECISIONS, "bf16" if "bf16" in cluster.gpu.peak_flop_s else "fp16")
    _check_tensor(top, grid, cluster, model)
    cost, calibration, durations = read_cost(top, cluster.gpu, precision, near)
    if not isinstance(cost, FixedCost) and precision not in cluster.gpu.peak_flop_s:
        known = ", ".join(name for name in PRECISIONS if name in cluster.gpu.peak_flop_s)
        top.error("precision", f"{cluster.gpu.name} has no peak for {precision}; allowed: {known}")
    micro_batch, global_batch = batch.integer("micro", 1, maximum=10**6), batch.integer("global", maximum=10**9)
    if global_batch % (micro_batch * grid.data):
        batch.error(
            "global", f"{global_batch} sequences do not divide into micro-batches of {micro_batch} on {grid.data} replicas;"
            f" allowed: multiples of {micro_batch * grid.data}",
        )  # fmt: skip
    micro_batches = global_batch // (micro_batch * grid.data)
    strategy, given = read_strategy(top, near)
    _check_passes(read, model.layers, micro_batches * steps * slices_of(strategy), copies=1)
    grid = with_shards(top, grid, cluster, strategy)
    collectives = top.choice("collectives", ("auto", *ALGORITHMS), "auto")
    schedule = schedule_of(read, strategy, given, model.layers, grid.pipeline, micro_batches, steps)
    return Experiment(
        model=model,
        cluster=cluster,
        grid=grid,
        strategy=strategy,
        schedule=schedule,
        stage_layers=stage_layers(strategy, schedule, model.layers),
        sequence_parallel=_sequence_parallel(top, grid),
        micro_batch=micro_batch,
        sequence=sequence,
        global_batch=global_batch,
        micro_batches=micro_batches,
        precision=precision,
        recompute=top.choice("recompute", RECOMPUTE, "none"),
        cost=cost,
        calibration=calibration,
        durations=durations,
        collectives=collectives,
        granularity=top.choice("granularity", GRANULARITIES, "kernel"),
        variability=variability,
        slow_links=slow_links,
        warnings=(*_warnings(strategy, schedule, grid), *_collective_warnings(collectives, strategy, cluster, grid)),
        document=read,
    )


def check_unfolded(experiment: Experiment) -> None:
    """InputError when the experiment is too large to simulate every rank of it."""
    grid = experiment.grid
    _check_passes(experiment.document, experiment.model.layers, experiment.schedule.passes * experiment.schedule.steps,
                  grid.copies * grid.tensor)


def _check_passes(read: Document, layers: int, micro_batches: int, copies: int) -> None:
    passes, most = layers * micro_batches * copies, MAX_LAYER_PASSES if copies == 1 else MAX_UNFOLDED_PASSES
    if passes > most:
        factors = f"{layers:,} layers x {micro_batches:,} micro-batches" + (f" x {copies:,} unfolded copies" if copies > 1 else "")
        cure = "fold the copies, or " if copies > 1 else ""
        read.error(
            "batch.global", f"{factors} = {passes:,} passes to simulate; allowed: at most {most:,};"
            f" {cure}use a larger batch.micro, a smaller batch.global or more parallel.data",
        )  # fmt: skip


def _read_cluster(top: Section, grid: Grid, near: Path) -> Cluster:
    read = top.document
    nodes = top.integer("nodes", None, maximum=10**6)
    inline = isinstance(top.raw("cluster", expected=_CLUSTER), Mapping)
    cluster = load_cluster(
        inline_topology(read, "cluster", near) if inline else top.text("cluster", expected=_CLUSTER),
        gpus=grid.ranks if nodes is None else 1,
        nodes=nodes,
        overrides={kind: top.section(kind, OVERRIDE_KEYS[kind]) for kind in LINK_KINDS if kind in top},
        near=near,
        place=read.place("cluster") + ": cluster",
        link_delay_ps=to_ps(top.quantity("link_delay", "time", 0.0)),
    )
    if cluster.ideal:
        if nodes is not None:
            top.error("nodes", "an ideal cluster is as large as the job and has no nodes; leave this out")
        return replace(cluster, nodes=1, gpus_per_node=grid.ranks)
    if nodes is not None and cluster.gpus != grid.ranks:
        read.error(
            "parallel", f"{degrees_text(grid)} = {grid.ranks} GPUs, but nodes {nodes} x {cluster.gpus_per_node} GPUs ="
            f" {cluster.gpus}; allowed: degrees whose product is the number of GPUs, or no `nodes:`",
        )  # fmt: skip
    return cluster


def _disturbed(top: Section, cluster: Cluster, variability: Variability) -> tuple[Cluster, dict[int, float]]:
    """The cluster without the links that failed, and the capacity that slow ones have left, by their ids."""

    def number(key: str, name: str) -> int:
        found = link_number(cluster, name)
        if found is None:
            example = f"; for example {cluster.link(0).name}" if cluster.link_count else ", which has none"
            top.document.error(f"variability.{key}", f"{document.shown(name)} is no link of {cluster.name}{example}")
        return found

    slow = {number("slow_links", name): left for name, left in variability.slow_links if left != 1}
    failed = {number("failed_links", name) for name in variability.failed_links}
    if not failed:
        return cluster, slow
    try:
        return without_links(cluster, failed), slow
    except ValueError as error:
        top.document.error("variability.failed_links", str(error))


def _sequence_parallel(top: Section, grid: Grid) -> bool:
    parallel = top.section("parallel", PARALLEL_KEYS)
    wanted = parallel.boolean("sequence_parallel", False)
    if wanted and grid.tensor == 1:
        parallel.error("sequence_parallel", "it divides the sequence over the tensor ranks; allowed: with tensor of 2 or more")
    return wanted


def _check_tensor(top: Section, grid: Grid, cluster: Cluster, model: Model) -> None:
    if grid.tensor > cluster.gpus_per_node:
        top.document.error(
            "parallel.tensor", f"{grid.tensor} ranks do not fit in a node of {cluster.name};"
            f" allowed: at most its {cluster.gpus_per_node} GPUs",
        )  # fmt: skip
    if model.heads % grid.tensor:
        most = min(model.heads, cluster.gpus_per_node, MAX_GPUS)
        allowed = ", ".join(str(t) for t in range(1, most + 1) if model.heads % t == 0)
        top.document.error(
            "parallel.tensor", f"{grid.tensor} does not divide the {model.heads} heads of {model.name}; allowed: {allowed}"
        )


def _collective_warnings(algorithm: str, strategy: Strategy, cluster: Cluster, grid: Grid) -> list[str]:
    """What a named algorithm does not do in this job, and so runs as multi-ring."""
    if algorithm in ("auto", "multi-ring"):
        return []
    data = ("all_reduce",) if strategy.partition == "none" else ("reduce_scatter", "all_gather")
    tensor = ("all_reduce", "all_gather") if strategy.scatter_gather and grid.pipeline > 1 else ("all_reduce",)
    wanted = (("tensor", tensor, grid.group("tensor", 0)), ("data", data, grid.group("shard", 0)))
    return [
        f"collectives: {algorithm} has no {op.replace('_', '-')} for the {dimension}-parallel groups of this job, which runs as multi-ring"
        for dimension, ops, group in wanted
        if len(group) > 1
        for op in ops
        if able(op, algorithm, lay_out(cluster, group)) != algorithm
    ]


def _warnings(strategy: Strategy, schedule: Schedule, grid: Grid) -> list[str]:
    p, m = grid.pipeline, schedule.micro_batches
    warnings = []
    if m < p:
        warnings.append(
            f"{m} micro-batch{'es' if m > 1 else ''} on {p} pipeline stages: with fewer micro-batches than stages every rank idles while"
            " the others work; use a larger batch, a smaller micro-batch or fewer stages"
        )
    if p > 1 and strategy.order == "layered" and strategy.placement == "contiguous" and schedule.chunks > 1:
        warnings.append(
            f"{strategy.name} runs all micro-batches through each layer in turn on contiguous stages, so the stages work one"
            " after another; mpp has the same order without that loss"
        )
    return warnings
