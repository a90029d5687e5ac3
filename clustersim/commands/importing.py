"""``clustersim topology import`` and ``clustersim import``: files of other tools made into ours."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from clustersim import presets
from clustersim.cluster.load import check_cluster
from clustersim.commands.output import print_files, print_json
from clustersim.document import Document, loads, read_text
from clustersim.errors import InputError
from clustersim.experiment import parse
from clustersim.importers.common import Imported
from clustersim.importers.deepspeed import import_deepspeed
from clustersim.importers.detect import job_format, topology_format
from clustersim.importers.megatron import import_megatron
from clustersim.importers.nccl_xml import import_nccl_xml
from clustersim.importers.nvidia_smi import import_nvidia_smi
from clustersim.model.load import load_model
from clustersim.trace.files import write_whole


def topology(options: argparse.Namespace) -> None:
    """A topology file from ``nvidia-smi topo -m`` or NCCL's XML."""
    text, source = _read(options.file)
    kind = options.format or topology_format(text)
    if kind == "nccl":
        _refuse(options, kind, ("network", "nics"))
        _deliver(import_nccl_xml(text, source, gpu=options.gpu, name=options.name), options)
        return
    nics = options.nics.split(",") if options.nics else None
    _deliver(
        import_nvidia_smi(text, source, gpu=options.gpu, network=options.network, nics=nics, name=options.name), options
    )


def job(options: argparse.Namespace) -> None:
    """An experiment file from Megatron-LM arguments or a DeepSpeed JSON."""
    text, source = _read(options.file)
    kind = options.format or job_format(text)
    if kind == "megatron":
        _refuse(options, kind, ("model", "tensor", "pipeline", "sequence", "recompute", "value"))
        _check_choices(options)
        variables = dict(_pair("--env", given) for given in options.env)
        imported = import_megatron(text, source, gpus=options.gpus, cluster=options.cluster, variables=variables)
        _deliver(_checked(imported, source, options), options)
        return
    _refuse(options, kind, ("env",))
    for name in ("model", "gpus"):
        if getattr(options, name) is None:
            raise InputError(f"{source}: a DeepSpeed file does not say --{name}; give it, for example --model llama2-7b --gpus 32")
    _check_choices(options)
    imported = import_deepspeed(
        text,
        source,
        model=options.model,
        gpus=options.gpus,
        cluster=options.cluster,
        tensor=options.tensor or 1,
        pipeline=options.pipeline or 1,
        sequence=options.sequence,
        recompute=options.recompute or "none",
        values=dict(_value(given) for given in options.value),
    )
    _deliver(_checked(imported, source, options), options)


def _near(options: argparse.Namespace) -> Path:
    """The folder that file names in an experiment are relative to."""
    return Path(options.output).parent if options.output else Path()


def _check_choices(options: argparse.Namespace) -> None:
    """The model and the cluster, at the option that names them."""
    if options.cluster is not None:
        path = presets.find(options.cluster, "topologies", _near(options), "cluster", "--cluster")
        check_cluster(path)
    if options.model is not None:
        load_model(options.model, Document({}, "--model"), "", _near(options))


def _checked(imported: Imported, source: str, options: argparse.Namespace) -> Imported:
    """The experiment, once it is sure that it can be run; with what it is warned of."""
    read = replace(loads(imported.text, f"{source}: the experiment that it makes cannot run"), lines={})
    job = parse(read, _near(options))
    cluster, given = job.cluster, imported.gpus_per_node
    notes = [*imported.notes, *job.warnings]
    if not cluster.ideal and given not in (None, cluster.gpus_per_node) and job.grid.ranks > min(given, cluster.gpus_per_node):
        taken = f"the job takes {cluster.nodes} nodes of it"
        notes.append(f"the launcher has {given} GPUs a node, {cluster.name} {cluster.gpus_per_node}: {taken}")
    return replace(imported, notes=tuple(notes))


def _read(name: str) -> tuple[str, str]:
    if name == "-":
        return sys.stdin.read(), "stdin"
    return read_text(Path(name)), name


def _refuse(options: argparse.Namespace, kind: str, names: tuple[str, ...]) -> None:
    """Options of the other format are not ignored."""
    taken = "" if options.format else f" (the content is taken for {kind}; --format chooses)"
    for name in names:
        if getattr(options, name):
            raise InputError(f"--{name}: has no meaning for {kind} input; leave it out{taken}")


def _pair(option: str, given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise InputError(f"{option} {given}: expected NAME=VALUE")
    return name, value


def _value(given: str) -> tuple[str, Any]:
    name, value = _pair("--value", given)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _deliver(imported: Imported, options: argparse.Namespace) -> None:
    """The text to stdout or a file; what was assumed and what was not used to stderr, once the file is there."""
    files = []
    if options.output:
        files.append(write_whole(Path(options.output), lambda path: path.write_text(imported.text, encoding="utf-8")))
    for note in imported.notes:
        print(f"note: {note}", file=sys.stderr)
    for unused in imported.unused:
        print(f"not used: {unused}", file=sys.stderr)
    if options.json:
        print_json({"text": imported.text, "notes": list(imported.notes), "unused": list(imported.unused)})
    elif files:
        print_files(files)
    else:
        print(imported.text, end="")
