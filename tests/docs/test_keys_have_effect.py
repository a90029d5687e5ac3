"""Every key of the experiment file changes what comes out: none is read and then forgotten."""

from dataclasses import fields
from functools import cache

import pandas as pd
import pytest
import yaml

from clustersim.simulation import simulate
from tests.docs.test_reference import EXPERIMENT, ITEMS, MIXTURE, SECTIONS, keys_of, put, read

JOB = {
    "model": {"layers": 4, "hidden": 64, "heads": 4},
    "cluster": "dgx-a100",
    "parallel": {"data": 4, "pipeline": 2, "tensor": 2},
    "strategy": {"name": "mpp", "partition": "parameters"},
    "batch": {"global": 8, "sequence": 128},
}
WIDE = {**JOB, "parallel": {"data": 4, "pipeline": 4, "tensor": 4}}
IDEAL = {**JOB, "cluster": "ideal", "cost": {"forward": "1 s", "backward": "2 s"}}
SPLIT = put(put(IDEAL, "strategy", {"name": "zb-h1"}), "recompute", "full")
EXPERTS = put(JOB, "model", MIXTURE)
NAMED = {name: put(put(JOB, "batch.global", 16), "strategy", {"name": name}) for name in ("1f1b", "interleaved-1f1b", "terapipe")}
OF_THE_JOB = """
cluster: dgx-h100
precision: fp32
recompute: full
steps: 3
parallel: {data: 8, tensor: 2}
strategy: 1f1b
batch: {global: 16, sequence: 128}
software: megatron-2021
cost: peak
granularity: layer
network: {bandwidth: 1 Gb/s}
nvlink: {bandwidth: 1 GB/s}
pcie: {bandwidth: 1 GB/s}
variability: {jitter: 0.1}
model.layers: 8
model.hidden: 128
model.heads: 2
model.kv_heads: 2
model.head_size: 32
model.ffn: 512
model.gated: true
model.vocab: 1000
parallel.data: 2
parallel.pipeline: 4
parallel.tensor: 4
parallel.context: 2
parallel.sequence_parallel: true
parallel.order: [data, tensor, context, pipeline]
strategy.name: zb-v
strategy.placement: contiguous
strategy.order: breadth-first
strategy.timing: micro_batch
strategy.chunks: 1
strategy.partition: none
strategy.partition_group: 2
strategy.overlap: false
strategy.prefetch: 0
strategy.scatter_gather: true
strategy.async_tensor: true
strategy.offload: activations
strategy.sends: blocking
batch.global: 16
batch.micro: 2
batch.sequence: 256
network.bandwidth: 1 Gb/s
network.latency: 1 ms
network.efficiency: 0.1
variability.jitter: 0.1
variability.slow_gpus: [{rank: 3, times: 2}]
variability.slow_links: [{link: node0/nic0>network, capacity: 0.1}]
variability.failed_links: [node0/gpu0>node0/nvswitch]
"""
OF_OTHERS = {
    "model": ("x-32", put(JOB, "batch.sequence", 2048)),
    "collectives": ("ring", put(WIDE, "strategy.partition", "none")),
    "link_delay": ("1 s", IDEAL),
    "model.experts": (8, EXPERTS),
    "model.top_k": (1, EXPERTS),
    "model.expert_ffn": (32, EXPERTS),
    "model.shared_experts": (1, EXPERTS),
    "model.shared_ffn": (64, EXPERTS),
    "model.dense_layers": (1, EXPERTS),
    "model.moe_every": (2, EXPERTS),
    "parallel.expert": (2, EXPERTS),
    "strategy.group": (4, NAMED["interleaved-1f1b"]),
    "strategy.slices": (2, NAMED["terapipe"]),
    "strategy.stages": ([1, 3], NAMED["1f1b"]),
    "strategy.bucket": ("1 GB", NAMED["1f1b"]),
    "strategy.receives": ("late", NAMED["1f1b"]),
    "strategy.keep_recomputed": (True, SPLIT),
    "network.routing": ("ecmp", put(WIDE, "cluster", "dgx-a100-fat-tree")),
    "cost.forward": ("2 s", IDEAL),
    "cost.backward": ("3 s", IDEAL),
    "cost.input": ("0.5 s", SPLIT),
    "cost.weight": ("0.5 s", SPLIT),
    "cost.reduce": ("2 s", IDEAL),
    "cost.gather": ("2 s", IDEAL),
    "cost.optimizer": ("2 s", IDEAL),
    "variability.seed": (1, put(JOB, "variability.jitter", 0.1)),
}
CHANGES = {path: (value, JOB) for path, value in yaml.safe_load(OF_THE_JOB).items()} | OF_OTHERS
"""By path another value, and the job in which it is put."""
ELSEWHERE = {
    "nodes": "must be what the job needs",
    "model.name": "a title",
    "sweep": "for clustersim sweep",
    "cost.table": "tests/compute/test_tables.py",
    "cost.trace": "tests/importers/test_importers_kineto_shapes.py",
}


@cache
def outcome(data):
    """All that a run of a job, given as YAML, tells: its tables and its figures."""
    run = simulate(read(yaml.safe_load(data)))
    figures = {name: value for name, value in run.summary.items() if name not in ("wall_s", "events")}
    return [getattr(run.trace, field.name) for field in fields(run.trace)], figures


def alike(a, b):
    (tables, figures), (others, other_figures) = outcome(yaml.safe_dump(a)), outcome(yaml.safe_dump(b))
    return figures == other_figures and all(map(pd.DataFrame.equals, tables, others))


def test_the_same_is_alike():
    assert alike(JOB, {**JOB, "steps": 1})


def test_every_key_is_here():
    documented = {
        f"{path}.{key}".strip(".") for heading, path in SECTIONS.items() if path != "sweep" for key in keys_of(EXPERIMENT, heading)
    }
    assert set(CHANGES) | set(ELSEWHERE) == documented
    assert set(ITEMS) <= set(CHANGES)


@pytest.mark.parametrize("path", CHANGES)
def test_another_value_changes_what_comes_out(path):
    value, job = CHANGES[path]
    assert not alike(put(job, path, value), job)
