"""Megatron-LM as it was published in 2019, 2020 and 2021: mixed precision, all activations recomputed, vocabulary 51,200.

The published TFLOP/s count the recomputed forward: 96 B s l h^2 (1 + s/(6h) + V/(16lh)), arXiv 2104.04473, equation 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clustersim.published.case import CALIBRATION, TEST, Case, Keys, Row, Summary, experiment, gpt, of, rows, whole

_VOCAB = 51_200
_EARLY_SEQUENCE = 1024
"""Tokens of a sequence in 2019 and 2020: arXiv 1909.08053, section 5.1, whose set-up the table of 2020 keeps."""

# Micro-batch and layers of a chunk by billions of parameters, from the scripts that the project published with arXiv 2104.04473
# (examples/sc21); None where the schedule is not interleaved.
_SCRIPTS = {
    "1.7": (16, None), "3.6": (16, None), "7.5": (16, None), "18.4": (8, None), "39.1": (4, None),
    "76.1": (2, 5), "145.6": (2, 5), "310.1": (1, 3), "529.6": (1, 1), "1008.0": (1, None),
}  # fmt: skip


def flops_with_recompute(row: Row, sequences: int, sequence: int) -> float:
    """FLOP of a step as the project counts them, equation 3.

    >>> row = {"layers": "24", "hidden": "2304", "heads": "24"}
    >>> round(flops_with_recompute(row, 512, 2048) / 3.528 / 32 / 1e12)
    137
    """
    layers, hidden = whole(row["layers"]), whole(row["hidden"])
    return 96 * sequences * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + _VOCAB / (16 * layers * hidden))


def flop_s_per_gpu(row: Row, sequence: int, summary: Summary) -> float:
    """FLOP/s of a GPU in a simulated step, as the project counts them."""
    return flops_with_recompute(row, whole(row["global_batch_seqs"]), sequence) / (summary["step_time_s"] * summary["ranks"])


def weak_scaling_2019() -> list[Case]:
    """arXiv 1909.08053, figure 5 and section 5.1: 39 TFLOP/s on one GPU, and per cent of that on more.

    Gradients are reduced while the backward runs: without that the 8.3B model would reach 60 % (the same section). No gradient is
    accumulated. Which GPUs share an adapter is not said (topologies/dgx-2h.yaml).
    """
    source, read = "megatron-2019", rows("megatron2019_weak_scaling_v100.csv")
    one_gpu = _early("megatron-2019", read[0], "dgx-2h")

    def rate(summaries: Sequence[Summary]) -> float:
        return flop_s_per_gpu(read[0], _EARLY_SEQUENCE, summaries[0]) / 1e12

    measured = float(read[0]["tflops_per_gpu_derived_39_x_eff"])
    cases = [Case(source, CALIBRATION, _size(read[0]), "throughput", "TFLOP/s per GPU", measured, (one_gpu,), rate)]
    for row in read[1:]:
        def efficiency(summaries: Sequence[Summary], row: Row = row) -> float:
            own, first = (flop_s_per_gpu(of_row, _EARLY_SEQUENCE, s) for of_row, s in zip((row, read[0]), summaries, strict=True))
            return 100 * own / first

        measured = float(row["scaling_efficiency_pct_vs_1gpu"])
        pair = (_early("megatron-2019", row, "dgx-2h"), one_gpu)
        cases.append(Case(source, TEST, _size(row), "weak scaling", "% of one GPU", measured, pair, efficiency))
    return cases


def tensor_parallel_2020() -> list[Case]:
    """The table that the project published in 2020: one machine, no gradient accumulation.

    The DGX A100 of that time had GPUs of 40 GB. Whether the batch was divided into micro-batches is not said; the project's
    code of that commit cannot.
    """
    source, clusters = "megatron-2020", {"DGX-2 V100": "dgx-2", "DGX-A100": "dgx-a100-40gb"}
    return [
        Case(
            source, CALIBRATION if row["tp"] == "1" else TEST, f"{row['system']}, {row['case']}, tensor {row['tp']}",
            "iteration time", "ms", float(row["iter_time_ms"]),
            (_early(source, row, clusters[row["system"]]),), of("step_time_s", 1e3),
        )
        for row in rows("megatron2020_tensor_parallel_v100_a100.csv")
    ]  # fmt: skip


def weak_scaling_2021() -> list[Case]:
    """arXiv 2104.04473, table 1. Micro-batches and chunks are those of the project's scripts.

    Gradients are reduced beside the backward only where there is no pipeline: with one the project reduced them after the last
    micro-batch. Tensor ranks share the sending of pipeline messages (section 4.1), and compute waits until they are sent
    (megatron/p2p_communication.py of that time waits for what it posts).
    """
    cases = []
    for row in rows("megatron2021_weak_scaling_a100.csv"):
        def rate(summaries: Sequence[Summary], row: Row = row) -> float:
            return flop_s_per_gpu(row, whole(row["seq_len"]), summaries[0]) / 1e12

        use = CALIBRATION if row["params_B"] in ("1.7", "3.6", "7.5") else TEST
        measured = float(row["tflops_per_gpu_with_recompute_eq3"])
        cases.append(Case("megatron-2021", use, f"{row['params_B']}B", "throughput", "TFLOP/s per GPU", measured, (_of_2021(row),), rate))
    return cases


def _of_2021(row: Row) -> Keys:
    micro, layers_of_chunk = _SCRIPTS[row["params_B"]]
    pipeline = whole(row["pp"])
    strategy: dict[str, Any] = {"name": "1f1b", "overlap": pipeline == 1}
    if pipeline > 1:
        strategy |= {"scatter_gather": True, "sends": "blocking"}
    if layers_of_chunk is not None:
        strategy |= {"name": "interleaved-1f1b", "chunks": whole(row["layers"]) // (pipeline * layers_of_chunk)}
    return experiment(
        "megatron-2021",
        model=gpt(row, whole(row["vocab"])),
        cluster="dgx-a100",
        parallel={"data": whole(row["dp_derived"]), "pipeline": pipeline, "tensor": whole(row["tp"])},
        strategy=strategy,
        batch={"global": whole(row["global_batch_seqs"]), "micro": micro, "sequence": whole(row["seq_len"])},
        precision="fp16",
        recompute="full",
    )


def _early(software: str, row: Row, cluster: str) -> Keys:
    data = whole(row["dp"])
    batch = whole(row["global_batch_seqs"])
    return experiment(
        software,
        model=gpt(row, _VOCAB),
        cluster=cluster,
        parallel={"data": data, "tensor": whole(row["tp"])},
        strategy={"name": "standard"},
        batch={"global": batch, "micro": batch // data, "sequence": _EARLY_SEQUENCE},
        precision="fp16",
        recompute="full",
    )


def _size(row: Row) -> str:
    return f"{row['params_B']}B on {row['n_gpus']} GPU{'s' if row['n_gpus'] != '1' else ''}"
