"""A GPU and a software whose figures are round, so that times can be computed by hand."""

from dataclasses import fields, replace

from clustersim.cluster.spec import Gpu
from clustersim.compute.calibration import Calibration
from clustersim.compute.software import Passes, Software, load_software
from clustersim.model.spec import Model

# 100 TFLOP/s on 10 multiprocessors, 1 TB/s.
GPU = Gpu(
    "toy", {"fp32": 10e12, "fp16": 100e12, "bf16": 100e12, "fp8": 200e12}, memory_bytes=10**10, memory_bandwidth_bytes_s=10**12,
    usable_memory_bytes=10**10, multiprocessors=10,
)  # fmt: skip
GPT = Model("toy", layers=4, hidden=512, heads=8, kv_heads=8, head_size=64, ffn=2048, vocab=1000, sequence=128, learned_positions=128)


def software(attention="unfused", causal=False, **passes):
    """No operation passes over its data but the named ones, ``(forward, backward)`` times."""
    nothing = {field.name: Passes(0, 0) for field in fields(Software) if field.type == "Passes"}
    given = {name: Passes(*ways) for name, ways in passes.items()}
    return replace(load_software("megatron-2022"), name="toy", attention=attention, causal=causal, **{**nothing, **given})


def calibration(**figures):
    """Every peak is reached at once and nothing is lost between kernels, but for the named figures."""
    perfect = {
        "matmul_efficiency": 1.0, "fp8_efficiency": 1.0, "memory_efficiency": 1.0, "ramp": 1e-9, "unaligned": 1.0, "overhead_s": 0.0,
        "launch_s": 0.0, "attention_forward": {64: 1.0}, "attention_backward": {64: 1.0}, "slowdown": 0.0, "source": "by hand",
    }  # fmt: skip
    return Calibration(**{"gpu": GPU, "software": software(), **perfect, **figures})
