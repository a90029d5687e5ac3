"""MosaicML's llm-foundry: MPT models under PyTorch's FSDP, with flash attention, on 8 and 16 GPUs.

Shapes are those of ``scripts/train/yamls/pretrain/mpt-*.yaml``; the numbers of parameters that the tables print follow from them exactly.
Full sharding: every layer is gathered for the forward and the backward of each micro-batch, and its gradient reduced. ``act_ckpt``
recomputes whole layers. ``mp_mode`` (what the gathers and reductions carry) has no key here: all is 16 bits.
"""

from __future__ import annotations

from clustersim.published.case import TEST, Case, Keys, Row, experiment, of, rows, whole

VOCAB = 50_368
# Layers, hidden, heads.
SHAPES = {
    "125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20), "7b": (32, 4096, 32),
    "13b": (40, 5120, 40), "30b": (48, 7168, 56),
}  # fmt: skip
# The tables' machines of 1600 Gb/s are 8 x 200 Gb/s RoCE, which InfiniBand's figures stand for. How the H100 are connected is not said.
_CLUSTERS = {"h100_80gb": "dgx-h100", "a100_80gb": "dgx-a100", "a100_40gb": "dgx-a100-40gb"}


def throughput() -> list[Case]:
    """Tokens per second of all GPUs together."""
    return [
        Case(
            "llm-foundry", TEST, f"{row['model']} at {row['seq_len']}, {row['n_gpus']} x {row['gpu']}", "throughput", "tokens/s",
            float(row["throughput_tokens_per_s"]), (_keys(row),), of("tokens_per_s"),
        )
        for row in rows("llm_foundry_fsdp_8_16_gpus.csv")
    ]  # fmt: skip


def _keys(row: Row) -> Keys:
    layers, hidden, heads = SHAPES[row["model"]]
    return experiment(
        "torch-2023",
        model={"layers": layers, "hidden": hidden, "heads": heads, "vocab": VOCAB},
        cluster=_CLUSTERS[row["gpu"]],
        parallel={"data": whole(row["n_gpus"])},
        strategy={"name": "standard", "partition": "parameters"},
        batch={"global": whole(row["global_batch_seqs"]), "micro": whole(row["microbatch"]), "sequence": whole(row["seq_len"])},
        precision="bf16",
        recompute="full" if row["act_ckpt"] == "True" else "none",
    )
