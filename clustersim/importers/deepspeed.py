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
from clustersim.importers.experiment_text import Entry, Job, exact_size, experiment_text

WHAT = "a DeepSpeed configuration (JSON)"
DEFAULT_CLUSTER = "dgx-a100"
AUTO = "auto"
DEFAULT_BUCKET = 500_000_000
"""Elements of a bucket of gradients."""
_PARTITIONS = ("none", "optimizer", "gradients", "parameters")
_RECOMPUTE = ("none", "selective", "full")
_TOTAL, _MICRO, _ACCUMULATION = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_BUCKET, _OFFLOAD, _RANKS = "zero_optimization.reduce_bucket_size", "zero_optimization.offload_optimizer", "sequence_parallel_size"
_USED = frozenset(
    (
        *(_TOTAL, _MICRO, _ACCUMULATION, "zero_optimization.stage", "zero_optimization.overlap_comm", _BUCKET, _RANKS),
        *("bf16.enabled", "bfloat16.enabled", "fp16.enabled"),
    )
)
_QUANTIZED = "traffic has the size of the precision"
_HYBRID = "parameters are partitioned over all replicas; strategy.partition_group"
_REASONS = {
    "zero_optimization.allgather_bucket_size": "parameters are gathered layer by layer",
    "zero_optimization.stage3_prefetch_bucket_size": "strategy.prefetch counts layers",
    "zero_optimization.stage3_param_persistence_threshold": "all parameters are partitioned",
    "zero_optimization.stage3_max_live_parameters": "strategy.prefetch says how far ahead layers are gathered",
    "zero_optimization.stage3_max_reuse_distance": "every layer is gathered for the forward and again for the backward",
    "zero_optimization.sub_group_size": "the optimizer's step is one piece",
    "zero_optimization.contiguous_gradients": "memory is not fragmented",
    "zero_optimization.reduce_scatter": "gradients are scattered where they are partitioned",
    "zero_optimization.allgather_partitions": "parameters are gathered by all-gather",
    "zero_optimization.offload_param": "parameters on the host are not simulated",
    "zero_optimization.cpu_offload": "an old key; offload_optimizer says the same",
    "zero_optimization.zero_hpz_partition_size": f"{_HYBRID} would divide gradients and optimizer state over as few too",
    "zero_optimization.mics_shard_size": f"{_HYBRID} would sum gradients between its groups after every micro-batch, MiCS does once a step",
    "zero_optimization.zero_quantized_weights": _QUANTIZED,
    "zero_optimization.zero_quantized_gradients": _QUANTIZED,
    "activation_checkpointing": "it says how, not whether; --recompute says whether",
    "communication_data_type": _QUANTIZED,
    "pipeline": "--pipeline gives the number of stages, which have equal numbers of layers",
    "tensor_parallel": "--tensor gives the degree",
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
    unused: list[str] = []
    _check_sequence_ranks(read)
    batch = _batch(read, data, notes)
    if sequence is not None:
        batch["sequence"] = (str(option_count(sequence, "--sequence", "a number of tokens", 10**9)), "--sequence")
    if cluster is None:
        notes.append(f"the configuration names no machine; cluster {DEFAULT_CLUSTER} is assumed, --cluster gives another")
    if recompute == "none":
        notes.append("the configuration does not say whether activations are recomputed; none is assumed, --recompute says otherwise")
    precision = _precision(read)
    strategy: dict[str, Entry] = {
        "name": ("standard", ""),
        "partition": (_PARTITIONS[stage], f"zero_optimization.stage {stage}"),
        "overlap": _overlap(read, stage),
        **_bucket(read, stage, 4 if precision[0] == "fp32" else 2, unused),
        **_offload(read, stage, unused),
    }
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
        strategy=strategy,
        batch=batch,
        precision=precision,
        recompute=(recompute, "--recompute" if recompute != "none" else "assumed"),
    )
    return Imported(experiment_text(job), tuple(notes), (*_unused(read.data), *unused))


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
    value: Any = read.data
    for name in key.split(".") if key else ():
        value = value.get(name, {})
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


def _check_sequence_ranks(read: Document) -> None:
    top = _section(read, "")
    if _known(top, _RANKS).integer(_RANKS, 1) > 1:
        top.error(_RANKS, "ranks that exchange sequence for heads are not simulated; allowed: 1, or without the key")


def _bucket(read: Document, stage: int, element_bytes: int, unused: list[str]) -> dict[str, Entry]:
    """Gradients that are reduced together. Without ZeRO they are so after the last backward, whatever the key says."""
    section = _section(read, "zero_optimization")
    if stage == 0:
        unused += [f"{_BUCKET}: only with ZeRO"] if "reduce_bucket_size" in section else []
        return {}
    given = section.data.get("reduce_bucket_size")
    if given == AUTO:
        unused.append(f'{_BUCKET}: "auto" is filled when the job runs, gradients go layer by layer; --value {_BUCKET}=ELEMENTS gives it')
        return {}
    elements = int(given) if isinstance(given, float) and given.is_integer() else given
    if elements is not None and (type(elements) is not int or not 1 <= elements <= 10**12):
        section.error("reduce_bucket_size", f"expected a whole number of elements from 1 to {10**12:,}, got {shown(given)}")
    origin = _BUCKET if elements else "DeepSpeed's default"
    elements = elements or DEFAULT_BUCKET
    return {"bucket": (exact_size(elements * element_bytes), f"{origin}, {elements:,} elements")}


def _offload(read: Document, stage: int, unused: list[str]) -> dict[str, Entry]:
    """The optimizer's state in the memory of the host; not on a disk, and not a part of it."""
    if _section(read, "zero_optimization").data.get("offload_optimizer") is None:
        return {}
    section = _section(read, _OFFLOAD)
    device = section.text("device", "none")
    if device != "cpu" or stage == 0:
        reason = "nothing is offloaded" if device == "none" else f"device {remark(device)} is not simulated"
        reason = "only with ZeRO" if stage == 0 else reason
        unused.append(f"{_OFFLOAD}: {reason}")
        return {}
    if section.data.get("ratio", 1) != 1:
        unused.append(f"{_OFFLOAD}.ratio: all of the optimizer's state lies on the host")
    return {"offload": ("optimizer", f"{_OFFLOAD}.device")}


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
        if path not in (*_USED, _OFFLOAD)
    ]
