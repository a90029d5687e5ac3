"""NVIDIA's DGX Cloud benchmark recipes, Llama 3.1 8B and Nemotron 4 15B on DGX H100 with NeMo: seconds of a step.

Both use Megatron-Core's distributed optimizer, whose gathers and reductions run beside compute (``overlap_grad_sync``,
``overlap_param_sync`` of nemotron4-15b-synth.yaml; NeMo's recipe of Llama 3 8B in performance mode). Nothing is recomputed. The 15B
recipe sets ``sequence_parallel`` and ``ub_tp_comm_overlap``, which is ``async_tensor`` here. The releases (24.11, 25.02, 25.04) are three
measurements of one experiment.
"""

from __future__ import annotations

from clustersim.published.case import CALIBRATION, TEST, Case, Keys, Row, experiment, of, rows, whole

_MODELS = {"llama31-8b": "llama3-8b", "nemotron4-15b": "nemotron4-15b.json"}


def steps() -> list[Case]:
    """Eight GPUs for calibration, more of them to test."""
    return [
        Case(
            "dgx-cloud", CALIBRATION if row["n_gpus"] == "8" else TEST, f"{row['model']} on {row['n_gpus']} GPUs, {row['release']}",
            "iteration time", "s", float(row["step_time_s"]), (_keys(row),), of("step_time_s"),
        )
        for row in rows("dgx_cloud_h100_8b_15b.csv")
    ]  # fmt: skip


def _keys(row: Row) -> Keys:
    tensor, pipeline, context = (whole(row[key] or "1") for key in ("tp", "pp", "cp"))
    return experiment(
        "megatron-2024",
        model=_MODELS[row["model"]],
        cluster="dgx-h100",
        parallel={
            "data": whole(row["n_gpus"]) // (tensor * pipeline * context), "tensor": tensor, "context": context,
            "sequence_parallel": tensor > 1,
        },
        strategy={"name": "standard", "partition": "optimizer", "async_tensor": tensor > 1},
        batch={"global": whole(row["gbs"]), "micro": whole(row["mbs"]), "sequence": whole(row["seq_len"])},
        precision="bf16",
        recompute="none",
    )  # fmt: skip
