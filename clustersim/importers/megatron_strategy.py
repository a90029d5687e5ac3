"""Megatron-LM's options on the schedule, on data-parallel traffic and on what lies on the host, as the section ``strategy``."""

from __future__ import annotations

from clustersim.importers.arguments import Arguments
from clustersim.importers.experiment_text import Entry, exact_size
from clustersim.importers.megatron_stages import Stages
from clustersim.program.grid import Grid

_SHARDING = {"no_shard": "none", "optim": "optimizer", "optim_grads": "gradients", "optim_grads_params": "parameters"}
_GROUP, _BUCKET, _INSTANCES = (
    "--microbatch-group-size-per-virtual-pipeline-stage", "--ddp-bucket-size", "--num-distributed-optimizer-instances",
)  # fmt: skip
_BLOCKING = (
    "after each pipeline message computing waits until it is across, as in Megatron-LM where it does not overlap them; receives are posted"
    " ahead here, in the job only after the computing before them, so there it may wait longer"
)
_ONE_BUCKET = "gradients are reduced in buckets on all pipeline stages; Megatron-LM reduces those of all but the first in one piece"


def strategy(arguments: Arguments, grid: Grid, stages: Stages, element_bytes: int, notes: list[str]) -> dict[str, Entry]:
    """The section, each value with its option. ``element_bytes`` are those of a gradient in the precision of the job."""
    partition = _partition(arguments)
    found = {**_schedule(arguments, grid, stages, partition[0]), "partition": partition}
    if partition[0] != "none" and grid.expert == 1:
        found |= _partition_group(arguments, grid)
    overlap = arguments.flag("--overlap-grad-reduce")
    found["overlap"] = (str(overlap).lower(), f"{'' if overlap else 'no '}--overlap-grad-reduce")
    if overlap and grid.copies > 1 and not arguments.flag("--use-torch-fsdp2"):
        found["bucket"] = _bucket(arguments, grid.copies, element_bytes)
        if grid.pipeline > 1 and partition[0] in ("none", "optimizer"):
            notes.append(_ONE_BUCKET)
    if grid.tensor > 1 and arguments.flag("--sequence-parallel") and arguments.flag("--tp-comm-overlap"):
        found["async_tensor"] = ("true", "--tp-comm-overlap")
    found |= _offload(arguments)
    if grid.pipeline > 1:
        found |= _sends(arguments, stages, notes)
    return found


def _schedule(arguments: Arguments, grid: Grid, stages: Stages, partition: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {"name": ("standard", "1F1B, Megatron-LM's schedule")}
    if stages.chunks > 1:
        group = arguments.whole(_GROUP, grid.pipeline)
        found = {
            "name": ("interleaved-1f1b", stages.chunks_origin),
            "chunks": (str(stages.chunks), stages.chunks_origin),
            "group": (str(group), _GROUP if _GROUP in arguments else "Megatron-LM's default: the pipeline stages"),
        }
        if partition in ("gradients", "parameters"):
            found["timing"] = ("micro_batch", "Megatron-LM's")
    if stages.layers:
        found["stages"] = (str(list(stages.layers)), stages.layers_origin)
    return found


def _partition(arguments: Arguments) -> Entry:
    sharded = [name for name in ("--use-megatron-fsdp", "--use-custom-fsdp") if arguments.flag(name)]
    sharding = arguments.choice("--data-parallel-sharding-strategy", tuple(_SHARDING))
    distributed = arguments.flag("--use-distributed-optimizer")
    if arguments.flag("--use-torch-fsdp2"):
        return "parameters", "--use-torch-fsdp2"
    if sharded and sharding:
        return _SHARDING[sharding], "--data-parallel-sharding-strategy"
    return ("optimizer", "--use-distributed-optimizer") if distributed else ("none", "no --use-distributed-optimizer")


def _partition_group(arguments: Arguments, grid: Grid) -> dict[str, Entry]:
    """So many neighbouring copies divide the state, as often as there are instances."""
    instances = arguments.whole(_INSTANCES, 1, 10**6)
    if grid.copies % instances:
        arguments.fail(_INSTANCES, f"expected a divisor of the {grid.copies} copies of the model (data x context), got {instances}")
    if instances == 1:
        return {}
    return {"partition_group": (str(grid.copies // instances), f"{grid.copies} copies over {_INSTANCES} {instances}")}


def _bucket(arguments: Arguments, copies: int, element_bytes: int) -> Entry:
    elements = arguments.whole(_BUCKET, None, 10**12)
    origin = _BUCKET
    if elements is None:
        elements, origin = max(40_000_000, 1_000_000 * copies), "Megatron-LM's default"
    return exact_size(elements * element_bytes), f"{origin}, {elements:,} elements"


def _offload(arguments: Arguments) -> dict[str, Entry]:
    given = {name: arguments.flag(name) for name in ("--cpu-offloading", "--optimizer-cpu-offload")}
    names = [name for name, is_given in given.items() if is_given]
    if not names:
        return {}
    what = "all" if len(names) == 2 else "activations" if given["--cpu-offloading"] else "optimizer"
    return {"offload": (what, ", ".join(names))}


def _sends(arguments: Arguments, stages: Stages, notes: list[str]) -> dict[str, Entry]:
    if stages.chunks > 1 and not arguments.flag("--no-overlap-p2p-communication"):
        return {}
    notes.append(_BLOCKING)
    origin = "--no-overlap-p2p-communication" if stages.chunks > 1 else "Megatron-LM overlaps messages only of interleaved stages"
    return {"sends": ("blocking", origin)}
