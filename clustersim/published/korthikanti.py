"""Korthikanti et al. 2022, arXiv 2205.05198: the time of one layer (table 4) and of iterations (table 5) on A100 of 80 GB.

The paper's GPT: mixed precision, vocabulary 51,200, tensor parallelism 8 inside a node, no data parallelism.
"""

from __future__ import annotations

from typing import Any

from clustersim import document
from clustersim.experiment import parse
from clustersim.fitting.times import middle_layer_s
from clustersim.published.case import CALIBRATION, DATA, TEST, Case, Keys, Row, experiment, gpt, of, rows, whole

_SOFTWARE = "megatron-2022"
_VOCAB = 51_200
# By the name of the experiment in table 4: recompute, and whether sequence parallel.
_LAYER_SETTINGS = {
    "Baseline no recompute": ("none", False),
    "Sequence Parallelism": ("none", True),
    "Baseline with recompute": ("full", False),
    "Selective Recompute": ("selective", False),
    "Selective + Sequence": ("selective", True),
}


def layer_time() -> list[Case]:
    """Table 4: forward and backward of one layer of the 22B model, with its tensor-parallel collectives and its recompute."""
    cases = []
    for row in rows("korthikanti2022_layer_time_a100.csv"):
        recompute, sequence_parallel = _LAYER_SETTINGS[row["experiment"]]
        keys = _keys({**row, "layers": "3"}, recompute, sequence_parallel, {"global": whole(row["microbatch"])})
        for direction, column in (("forward", "fwd_ms"), ("backward", "bwd_ms")):
            def predicted(_: Any, keys: Keys = keys, quantity: str = f"layer_{direction}") -> float:
                return middle_layer_s(parse(document.Document(keys, "published"), DATA))[quantity] * 1e3

            name, measured = f"{row['experiment']}, {direction}", float(row[column])
            cases.append(Case("korthikanti-2022-layer", CALIBRATION, name, "layer time", "ms", measured, (), predicted))
    return cases


def iteration_time() -> list[Case]:
    """Table 5: all activations recomputed without sequence parallelism, and the core of the attention alone with it.

    Micro-batches and chunks are the paper's (table 3). Pipeline messages as in :func:`clustersim.published.megatron.weak_scaling_2021`.
    """
    ways = (
        ("full recompute", "full", False, "iter_s_full_recompute_no_sp"),
        ("selective and sequence", "selective", True, "iter_s_selective_plus_sp"),
    )
    return [
        Case(
            "korthikanti-2022", TEST, f"{row['model']}, {name}", "iteration time", "s", float(row[column]),
            (_keys(row, recompute, sequence_parallel, {"global": whole(row["global_batch_seqs"])}),), of("step_time_s"),
        )
        for row in rows("korthikanti2022_iteration_time_a100.csv")
        for name, recompute, sequence_parallel, column in ways
    ]  # fmt: skip


def _keys(row: Row, recompute: str, sequence_parallel: bool, batch: dict[str, int]) -> Keys:
    pipeline, chunks = whole(row.get("pp", "1")), whole(row.get("vpp_chunks", "1"))
    strategy: dict[str, Any] = {"name": "1f1b"}
    if chunks > 1:
        strategy = {"name": "interleaved-1f1b", "chunks": chunks}
    if pipeline > 1:
        strategy |= {"scatter_gather": True, "sends": "blocking"}
    return experiment(
        _SOFTWARE,
        model=gpt(row, _VOCAB),
        cluster="dgx-a100",
        parallel={"pipeline": pipeline, "tensor": whole(row["tp"]), "sequence_parallel": sequence_parallel},
        strategy=strategy,
        batch={**batch, "micro": whole(row["microbatch"]), "sequence": whole(row["seq_len"])},
        precision="fp16",
        recompute=recompute,
    )
