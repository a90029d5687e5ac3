"""What the benchmarks simulate, as experiment files."""

from __future__ import annotations

from pathlib import Path

from clustersim import document, experiment
from clustersim.experiment import Experiment

COMPUTE = """
model: {layers: 64, hidden: 1024, heads: 16}
cluster: ideal
parallel: {pipeline: 64}
strategy: standard
batch: {global: 512, micro: 1, sequence: 512}
cost: {forward: 1 s, backward: 3 s}
"""
"""64 stages of one layer over an ideal network: two ops in three are messages without bytes."""

PIPELINE = """
model: {layers: 64, hidden: 1024, heads: 16}
cluster: dgx-a100
parallel: {pipeline: 64}
strategy: standard
batch: {global: 512, micro: 1, sequence: 512}
"""
"""The same over the links of eight nodes, whose messages hardly meet."""

CONTENDED = """
model: {layers: 32, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {pipeline: 8, data: 16}
strategy: standard
batch: {global: 256, micro: 1, sequence: 512}
"""
"""Messages and gradients of eight GPUs a node share one Ethernet adapter."""

PARTITIONED = """
model: {layers: 32, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {pipeline: 8, data: 16}
strategy: {name: mpp, partition: parameters}
batch: {global: 256, micro: 1, sequence: 512}
"""
"""The same with a stage for each layer and a gather and a scatter of each: always full, rates change with every message."""

TENSOR = """
model: {layers: 32, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {pipeline: 8, data: 4, tensor: 2}
strategy: {name: mpp, partition: parameters}
batch: {global: 64, micro: 1, sequence: 512}
"""
"""And with tensor parallelism over PCIe, the worst there is."""

RING = """
model: {{layers: 32, hidden: 4096, heads: 32}}
cluster: dgx-a100
parallel: {{pipeline: 8, data: {data}}}
strategy: {{name: standard, order: gpipe}}
batch: {{global: {batch}, micro: 1, sequence: 2048}}
collectives: ring
"""
"""8 stages of 4 layers, 16 micro-batches, reductions in rings: 188 nodes a device where each layer of a pass is one."""

X160 = """
model: x-160
cluster: paper-a100
parallel: {data: 483, pipeline: 5, tensor: 16}
strategy: {name: mpp, partition: parameters}
batch: {global: 2415, micro: 1, sequence: 2560}
"""

GPT3 = """
model: gpt3-175b
cluster: dgx-a100
parallel: {{data: {data}, pipeline: 8, tensor: 8}}
strategy: {{name: mpp, partition: parameters}}
batch: {{global: {batch}, micro: 1, sequence: 2048}}
"""

EIGHT = """
model: {layers: 16, hidden: 1024, heads: 16}
cluster: dgx-a100
parallel: {pipeline: 4, data: 2}
strategy: standard
batch: {global: 16, micro: 1, sequence: 1024}
"""

MANY_OPS = """
model: {layers: 96, hidden: 4096, heads: 32}
cluster: dgx-a100
parallel: {pipeline: 8, data: 512}
strategy: {name: standard, order: gpipe}
batch: {global: 30720, micro: 1, sequence: 2048}
recompute: full
collectives: ring
"""
"""Some ten million ops when every GPU is simulated."""


def ring(gpus: int) -> str:
    return RING.format(data=gpus // 8, batch=16 * gpus // 8)


def gpt3(gpus: int) -> str:
    return GPT3.format(data=gpus // 64, batch=8 * gpus // 64)


def parsed(text: str) -> Experiment:
    return experiment.parse(document.loads(text, "benchmark"), Path("."))
