"""Why an experiment file has no use for some of Megatron-LM's options."""

from __future__ import annotations

_STAGES = "stages have equal numbers of layers"
_EXPERTS = "mixture of experts is not supported yet"
_INTERLEAVED = "interleaved stages are not imported; strategy.name and strategy.chunks choose a schedule"
_RECOMPUTE = "every layer is recomputed alike"

REASONS = {
    "--sequence-parallel": "the same bytes travel; activations between the tensor-parallel parts count on every tensor rank",
    "--num-layers-per-virtual-pipeline-stage": _INTERLEAVED,
    "--num-virtual-stages-per-pipeline-rank": _INTERLEAVED,
    "--microbatch-group-size-per-virtual-pipeline-stage": _INTERLEAVED,
    "--overlap-param-gather": "strategy.overlap holds for reductions and gathers together",
    "--no-overlap-p2p-communication": "pipeline messages always travel beside compute",
    "--delay-wgrad-compute": "the backward is one piece in the standard schedule",
    "--overlap-moe-expert-parallel-comm": _EXPERTS,
    "--recompute-method": _RECOMPUTE,
    "--recompute-num-layers": _RECOMPUTE,
    "--recompute-modules": "selective recomputation is that of the core attention",
    "--decoder-first-pipeline-num-layers": _STAGES,
    "--decoder-last-pipeline-num-layers": _STAGES,
    "--account-for-embedding-in-pipeline-split": _STAGES,
    "--account-for-loss-in-pipeline-split": _STAGES,
    "--pipeline-model-parallel-layout": _STAGES,
    "--moe-router-topk": _EXPERTS,
    "--moe-ffn-hidden-size": _EXPERTS,
    "--moe-shared-expert-intermediate-size": _EXPERTS,
    "--moe-layer-freq": _EXPERTS,
    "--moe-token-dispatcher-type": _EXPERTS,
    "--num-query-groups": "only with --group-query-attention",
    "--rampup-batch-size": "the step is one after the ramp",
    "--fp8-format": "compute counts at the 16-bit peak",
    "--fp8-hybrid": "compute counts at the 16-bit peak",
    "--max-position-embeddings": "as many positions as --seq-length has tokens",
    "--use-flash-attn": "compute is a share of the peak, whatever the kernel",
    "--attention-backend": "compute is a share of the peak, whatever the kernel",
    "--cpu-offloading": "offloading is not simulated",
    "--optimizer-cpu-offload": "offloading is not simulated",
}


def unused_text(name: str) -> str:
    """The option, and why where it could matter for time or memory.

    >>> unused_text("--lr"), unused_text("--moe-router-topk")
    ('--lr', '--moe-router-topk: mixture of experts is not supported yet')
    """
    return f"{name}: {REASONS[name]}" if name in REASONS else name
