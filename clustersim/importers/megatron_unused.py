"""Why an experiment file has no use for some of Megatron-LM's options."""

from __future__ import annotations

_EXPERTS = "only with --num-experts of 2 or more"
_PIPELINE = "only with --pipeline-model-parallel-size of 2 or more"
_PEAK = "compute is a share of the peak, whatever the kernel"
_FP8 = "compute counts at the 16-bit peak"
_RECOMPUTE = "every layer is recomputed alike"
_LATENT = "attention is the plain one, of --num-attention-heads, --num-query-groups and --kv-channels"
_MTP = "layers of multi-token prediction are not in the model"
_BALANCE = "experts get equal numbers of tokens"
_ACTIVATIONS = "offloading takes the activations of all layers, and nothing else"

REASONS = {
    "--sequence-parallel": "only with --tensor-model-parallel-size of 2 or more",
    "--tp-comm-overlap": "only with --sequence-parallel and --tensor-model-parallel-size of 2 or more",
    "--cp-comm-type": "context ranks pass keys and values around, whatever the type",
    "--hierarchical-context-parallel-sizes": "context ranks pass keys and values around, whatever the type",
    "--microbatch-group-size-per-virtual-pipeline-stage": "only with interleaved stages",
    "--overlap-param-gather": "strategy.overlap holds for reductions and gathers together",
    "--overlap-param-gather-with-optimizer-step": "strategy.overlap holds for reductions and gathers together",
    "--no-overlap-p2p-communication": "only with interleaved stages; Megatron-LM overlaps no pipeline messages of others",
    "--ddp-bucket-size": "only with --overlap-grad-reduce and more than one copy of the model",
    "--ddp-num-buckets": "buckets are given by their size, --ddp-bucket-size",
    "--num-distributed-optimizer-instances": "only where state is partitioned, and not with expert parallelism",
    "--outer-dp-sharding-strategy": "instances of the optimizer hold the same state",
    "--accumulate-allreduce-grads-in-fp32": "gradients travel in the precision of the job",
    "--grad-reduce-in-bf16": "gradients travel in the precision of the job",
    "--delay-wgrad-compute": "the backward is one piece in the schedule",
    "--overlap-moe-expert-parallel-comm": "tokens go to their experts and back while nothing else is computed",
    "--moe-shared-expert-overlap": "tokens go to their experts and back while nothing else is computed",
    "--recompute-method": _RECOMPUTE,
    "--recompute-num-layers": _RECOMPUTE,
    "--recompute-modules": "selective recomputation is that of the core attention",
    "--decoder-first-pipeline-num-layers": _PIPELINE,
    "--decoder-last-pipeline-num-layers": _PIPELINE,
    "--account-for-embedding-in-pipeline-split": _PIPELINE,
    "--account-for-loss-in-pipeline-split": _PIPELINE,
    "--moe-router-topk": _EXPERTS,
    "--moe-ffn-hidden-size": _EXPERTS,
    "--moe-shared-expert-intermediate-size": _EXPERTS,
    "--moe-layer-freq": _EXPERTS,
    "--expert-tensor-parallel-size": _EXPERTS,
    "--moe-token-dispatcher-type": "only with expert parallelism; tokens go by all-to-all",
    "--moe-expert-capacity-factor": _BALANCE,
    "--moe-pad-expert-input-to-capacity": _BALANCE,
    "--moe-router-load-balancing-type": _BALANCE,
    "--multi-latent-attention": _LATENT,
    "--q-lora-rank": _LATENT,
    "--kv-lora-rank": _LATENT,
    "--qk-head-dim": _LATENT,
    "--qk-pos-emb-head-dim": _LATENT,
    "--v-head-dim": _LATENT,
    "--mtp-num-layers": _MTP,
    "--num-query-groups": "only with --group-query-attention",
    "--rampup-batch-size": "the step is one after the ramp",
    "--fp8-format": _FP8,
    "--fp8-hybrid": _FP8,
    "--max-position-embeddings": "as many positions as --seq-length has tokens",
    "--use-flash-attn": _PEAK,
    "--attention-backend": _PEAK,
    "--optimizer-offload-fraction": "with --optimizer-cpu-offload all of the optimizer's state lies on the host",
    "--cpu-offloading-num-layers": _ACTIVATIONS,
    "--cpu-offloading-weights": _ACTIVATIONS,
    "--fine-grained-activation-offloading": "offloading of single modules is not simulated; strategy.offload takes all activations",
    "--offload-modules": "offloading of single modules is not simulated; strategy.offload takes all activations",
}


def unused_text(name: str) -> str:
    """The option, and why where it could matter for time or memory.

    >>> unused_text("--lr"), unused_text("--moe-router-topk")
    ('--lr', '--moe-router-topk: only with --num-experts of 2 or more')
    """
    return f"{name}: {REASONS[name]}" if name in REASONS else name
