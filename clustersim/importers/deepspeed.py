"""A DeepSpeed configuration (JSON), made into an experiment file. The model and the number of GPUs are not in it.

>>> text = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
>>> imported = import_deepspeed(text, "ds.json", model="llama2-7b", gpus=16)
>>> [line.split("#")[0].strip() for line in imported.text.splitlines() if "partition" in line or "global" in line]
['partition: gradients', 'global: 64']
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clustersim import document
from clustersim.document import Document, Section, clipped, shown
from clustersim.errors import InputError
from clustersim.importers.common import Imported, option_count, option_text, readable, remark, scalar
from clustersim.importers.experiment_text import Entry, Job, experiment_text

WHAT = "a DeepSpeed configuration (JSON)"
DEFAULT_CLUSTER = "dgx-a100"
AUTO = "auto"
_PARTITIONS = ("none", "optimizer", "gradients", "parameters")
_RECOMPUTE = ("none", "selective", "full")
_TOTAL, _MICRO, _ACCUMULATION = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_USED = frozenset(
    (
        *(_TOTAL, _MICRO, _ACCUMULATION, "zero_optimization.stage", "zero_optimization.overlap_comm"),
        *("bf16.enabled", "bfloat16.enabled", "fp16.enabled"),
    )
)
_BUCKETS = "traffic goes layer by layer"
_OFFLOAD = "offloading is not simulated"
_QUANTIZED = "traffic has the size of the precision"
_REASONS = {
    "zero_optimization.reduce_bucket_size": _BUCKETS,
    "zero_optimization.allgather_bucket_size": _BUCKETS,
    "zero_optimization.stage3_prefetch_bucket_size": "strategy.prefetch counts layers",
    "zero_optimization.stage3_param_persistence_threshold": "all parameters are partitioned",
    "zero_optimization.stage3_max_live_parameters": "strategy.prefetch says how far ahead layers are gathered",
    "zero_optimization.stage3_max_reuse_distance": "every layer is gathered for the forward and again for the backward",
    "zero_optimization.sub_group_size": "the optimizer's time is not simulated",
    "zero_optimization.contiguous_gradients": "memory is not fragmented",
    "zero_optimization.reduce_scatter": "gradients are scattered where they are partitioned",
    "zero_optimization.allgather_partitions": "parameters are gathered by all-gather",
    "zero_optimization.offload_optimizer": _OFFLOAD,
    "zero_optimization.offload_param": _OFFLOAD,
    "zero_optimization.zero_hpz_partition_size": "hybrid partitioning is not imported; parameters are partitioned over all replicas",
    "zero_optimization.mics_shard_size": "hybrid partitioning is not imported; parameters are partitioned over all replicas",
    "zero_optimization.zero_quantized_weights": _QUANTIZED,
    "zero_optimization.zero_quantized_gradients": _QUANTIZED,
    "activation_checkpointing": "it says how, not whether; --recompute says whether",
    "communication_data_type": _QUANTIZED,
}
_SECTIONS = ("zero_optimization", "bf16", "bfloat16", "fp16")


def import_deepspeed(
    text: str,
    source: str,
    *,
    model: str,
    gpus: int,
    cluster: str | None = None,
    tensor: int = 1,
    pipeline: int = 1,
    sequence: int | None = None,
    recompute: str = "none",
    values: Mapping[str, Any] | None = None,
) -> Imported:
    """An experiment file from a DeepSpeed configuration; ``source`` is its name in messages.

    ``model`` is a preset or the path of a config.json, ``gpus`` the world size, of which ``tensor`` x ``pipeline`` hold one replica;
    ``values`` replace what the file says, by path (``{"bf16.enabled": True}``), as is needed where it says ``"auto"``.
    InputError, with line and key, for whatever is wrong.
    """
    read = _with_values(_read(readable(text, source, WHAT), source), values or {})
    option_text(model, "--model", "the name of a model or the path of a config.json")
    for name, degree in (("--gpus", gpus), ("--tensor", tensor), ("--pipeline", pipeline)):
        option_count(degree, name, "a number of GPUs")
    if gpus % (tensor * pipeline):
        raise InputError(
            f"--gpus: {gpus} GPUs do not divide by tensor {tensor} x pipeline {pipeline}; allowed: multiples of {tensor * pipeline}"
        )
    if recompute not in _RECOMPUTE:
        raise InputError(f"--recompute: unknown value {shown(recompute)}; allowed: {', '.join(_RECOMPUTE)}")
    data = gpus // (tensor * pipeline)
    notes: list[str] = []
    stage = _zero_stage(read, pipeline)
    batch = _batch(read, data, notes)
    if sequence is not None:
        batch["sequence"] = (str(option_count(sequence, "--sequence", "a number of tokens", 10**9)), "--sequence")
    if cluster is None:
        notes.append(f"the configuration names no machine; cluster {DEFAULT_CLUSTER} is assumed, --cluster gives another")
    if recompute == "none":
        notes.append("the configuration does not say whether activations are recomputed; none is assumed, --recompute says otherwise")
    job = Job(
        source=source,
        model=(scalar(model), "--model"),
        cluster=(scalar(option_text(cluster, "--cluster", "a preset or the path of a topology file")), "--cluster")
        if cluster is not None
        else (DEFAULT_CLUSTER, "assumed"),
        parallel={
            "data": (str(data), "--gpus / tensor / pipeline"),
            "pipeline": (str(pipeline), "--pipeline"),
            "tensor": (str(tensor), "--tensor"),
        },
        strategy={
            "name": ("standard", ""),
            "partition": (_PARTITIONS[stage], f"zero_optimization.stage {stage}"),
            "overlap": _overlap(read, stage),
        },
        batch=batch,
        precision=_precision(read),
        recompute=(recompute, "--recompute" if recompute != "none" else "assumed"),
    )
    return Imported(experiment_text(job), tuple(notes), tuple(_unused(read.data)))


def _read(text: str, source: str) -> Document:
    """JSON proper, with the line of every key."""
    try:
        data = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    except _Twin as error:
        _lines(text, source)  # knows the line, and refuses
        raise InputError(f"{source}: not valid JSON: {error}") from None
    except json.JSONDecodeError as error:
        comment = re.compile(r"\s*(//|/\*|#)").match(text, error.pos)
        if comment:
            line = text.count("\n", 0, comment.start(1)) + 1
            raise InputError(f"{source}:{line}: not valid JSON: it has no comments; remove this one ({comment[1]})") from None
        raise InputError(f"{source}:{error.lineno}: not valid JSON: {error.msg}; expected {WHAT}") from None
    except RecursionError:
        raise InputError(f"{source}: not valid JSON: nested too deep; expected {WHAT}") from None
    except ValueError as error:  # a number of thousands of digits, or what the hooks refuse
        raise InputError(f"{source}: not valid JSON: {clipped(str(error))}; expected {WHAT}") from None
    if not isinstance(data, dict):
        raise InputError(f"{source}: expected {WHAT}, an object with keys, got {shown(data)}")
    return Document(data, source, _lines(text, source) if data else {})


class _Twin(ValueError):
    """A key that an object has twice."""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twin(f"the key {shown(key)} is given twice")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _lines(text: str, source: str) -> Mapping[str, str]:
    """JSON is YAML, but for tabs between its words."""
    return document.loads(text.replace("\t", " "), source).lines


def _with_values(read: Document, values: Mapping[str, Any]) -> Document:
    data = dict(read.data)
    lines = dict(read.lines)
    for path, value in values.items():
        section, dot, key = path.rpartition(".")
        if path not in _USED:
            known = sorted(_USED)
            raise InputError(f"--value {clipped(path)}: no such key{document.nearest(path, known)}; allowed: {', '.join(known)}")
        if dot:
            inner = data.get(section)
            data[section] = {**(inner if isinstance(inner, dict) else {}), key: value}
        else:
            data[path] = value
        lines[path] = f"--value {path}"
    return replace(read, data=data, lines=lines)


def _section(read: Document, key: str) -> Section:
    """The mapping at a key, or all of the file for ``""``; other keys in it are none of our business here."""
    value = read.data.get(key, {}) if key else read.data
    if not isinstance(value, dict):
        read.error(key, f"expected an object with keys, got {shown(value)}")
    return Section(read, key, value)


def _known(section: Section, key: str) -> Section:
    """The section, once it is sure that the key is not left to a tool that fills it."""
    if section.data.get(key) == AUTO:
        path = document.join(section.path, key)
        section.error(key, f'"auto" is filled when the job runs; write the value, or give --value {path}=VALUE')
    return section


def _zero_stage(read: Document, pipeline: int) -> int:
    zero = _section(read, "zero_optimization")
    stage = _known(zero, "stage").integer("stage", 0, minimum=0, maximum=3)
    if stage > 1 and pipeline > 1:
        zero.error("stage", f"DeepSpeed's pipeline takes ZeRO up to stage 1, got stage {stage} and --pipeline {pipeline}")
    return stage


def _overlap(read: Document, stage: int) -> Entry:
    zero = _section(read, "zero_optimization")
    given = _known(zero, "overlap_comm").boolean("overlap_comm", None)
    if stage == 0:
        return "false", "without ZeRO DeepSpeed reduces after the last backward"
    if given is None:
        return str(stage == 3).lower(), f"zero_optimization.overlap_comm, its default at stage {stage}"
    return str(given).lower(), "zero_optimization.overlap_comm"


def _batch(read: Document, data: int, notes: list[str]) -> dict[str, Entry]:
    top = _section(read, "")
    total, micro, accumulation = (_known(top, key).integer(key, None, maximum=10**9) for key in (_TOTAL, _MICRO, _ACCUMULATION))
    if total is None and micro is None:
        top.error("", f"{_TOTAL} and {_MICRO} are missing; expected at least one of them")
    if total is None:
        if accumulation is None:
            accumulation = 1
            notes.append(f"{_ACCUMULATION} is 1, as DeepSpeed has it where only the micro-batch is given")
        total, origin = micro * accumulation * data, f"{_MICRO} x {_ACCUMULATION} x {data} replicas"
        if total > 10**9:
            top.error(_MICRO, f"a batch of {total:,} sequences; allowed: at most 1,000,000,000")
    else:
        origin = _TOTAL
        if micro is None:
            accumulation = accumulation or 1
            if total % (accumulation * data):
                top.error(_TOTAL, f"{total} does not divide by {_ACCUMULATION} {accumulation} x {data} replicas")
            micro = total // (accumulation * data)
            notes.append(f"{_MICRO} is {micro}, {_TOTAL} over {accumulation} accumulation steps and {data} replicas")
        elif accumulation is not None and total != micro * accumulation * data:
            product = micro * accumulation * data
            top.error(_TOTAL, f"{total} contradicts {_MICRO} {micro} x {_ACCUMULATION} {accumulation} x {data} replicas = {product}")
        elif total % (micro * data):
            top.error(_TOTAL, f"{total} does not divide by {_MICRO} {micro} x {data} replicas; allowed: multiples of {micro * data}")
    if micro > 10**6:
        top.error(_MICRO if _MICRO in top else _TOTAL, f"micro-batches of {micro:,} sequences; allowed: at most 1,000,000")
    return {"global": (str(total), origin), "micro": (str(micro), _MICRO)}


def _precision(read: Document) -> Entry:
    given = []
    for key, precision in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        section = _section(read, key)
        if _known(section, "enabled").boolean("enabled", False):
            given.append((precision, f"{key}.enabled"))
    if len({precision for precision, _ in given}) > 1:
        read.error("fp16.enabled", f"{given[0][1]} is true too; expected one of them")
    return given[0] if given else ("fp32", "neither bf16 nor fp16 is enabled")


def _unused(data: Mapping[str, Any]) -> list[str]:
    """Every key that the experiment file does not hold: by path in the sections that are read, by name elsewhere."""
    paths: list[str] = []
    for key, value in data.items():
        inner = key in _SECTIONS and isinstance(value, dict)
        paths += [document.join(key, name) for name in value] if inner else [key]
    return [
        f"{path}: {_REASONS[path]}" if path in _REASONS else remark(path)
        for path in paths
        if path not in _USED
    ]
