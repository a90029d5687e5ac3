"""The degrees of parallelism of an experiment file."""

from __future__ import annotations

from dataclasses import replace

from clustersim.cluster.spec import Cluster
from clustersim.document import Section
from clustersim.model.spec import Model
from clustersim.program.grid import DEFAULT_ORDER, Grid
from clustersim.schedule.strategy import Strategy

MAX_GPUS = 200_000
PARALLEL_KEYS = ("data", "pipeline", "tensor", "context", "expert", "sequence_parallel", "order")
_DEGREES = "[tensor, data, pipeline], with context where it is more than 1"


def read_grid(top: Section) -> Grid:
    """The section ``parallel``; InputError with the place for degrees that make no grid."""
    parallel = top.section("parallel", PARALLEL_KEYS)
    degrees = {name: parallel.integer(name, 1, maximum=10**6) for name in DEFAULT_ORDER}
    given = parallel.raw("order", list(DEFAULT_ORDER))
    order = list(given) if isinstance(given, list) else []
    if degrees["context"] == 1 and "context" not in order:
        order.insert(0, "context")  # anywhere: it moves nothing
    if sorted(map(str, order)) != sorted(DEFAULT_ORDER):
        parallel.error("order", f"expected each of {', '.join(DEFAULT_ORDER)} once, fastest first, as {_DEGREES}")
    expert = parallel.integer("expert", 1, maximum=10**6)
    if degrees["data"] % expert:
        parallel.error("expert", f"{expert} does not divide the {degrees['data']} data ranks that expert groups are cut out of")
    grid = Grid(**degrees, expert=expert, order=tuple(order))
    if grid.ranks > MAX_GPUS:
        top.error("parallel", f"{degrees_text(grid)} = {grid.ranks:,} GPUs; allowed: at most {MAX_GPUS:,}")
    return grid


def check_experts(top: Section, grid: Grid, model: Model) -> None:
    """InputError when the experts do not divide over the ranks."""
    if grid.expert > 1 and not model.experts:
        top.document.error("parallel.expert", f"{grid.expert}, but {model.name} has no experts; allowed: 1")
    if model.experts and model.experts % grid.expert:
        top.document.error("parallel.expert",
                           f"{grid.expert} does not divide the {model.experts} experts of {model.name}; allowed: a divisor")


def degrees_text(grid: Grid) -> str:
    """``data 2 x pipeline 4 x tensor 8``; the context where it is more than 1."""
    names = [name for name in reversed(DEFAULT_ORDER) if name != "context" or grid.context > 1]
    return " x ".join(f"{name} {getattr(grid, name)}" for name in names)


def with_shards(top: Section, grid: Grid, cluster: Cluster, strategy: Strategy) -> Grid:
    """The grid with the groups that partitioned state is divided over: all copies, or ``strategy.partition_group`` of them."""
    wanted = strategy.partition_group
    if wanted is None:
        return grid
    key, read = "strategy.partition_group", top.document
    if strategy.partition == "none":
        read.error(key, "nothing is partitioned; allowed: with partition: optimizer, gradients or parameters")
    if grid.expert > 1:
        read.error(key, "not with expert parallelism; leave it out")
    shard = wanted if isinstance(wanted, int) else max(1, min(grid.copies, cluster.gpus_per_node // _apart(grid)))
    if grid.copies % shard:
        read.error(key, f"{shard} does not divide the {grid.copies} copies of the model; allowed: a divisor")
    return replace(grid, shard=shard)


def _apart(grid: Grid) -> int:
    """The distance in rank numbers of neighbouring copies."""
    return grid.stride("context" if grid.context > 1 else "data")
