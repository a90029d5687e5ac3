"""torchtitan's benchmark notes: Llama 3.1 on H100 of 96 GB and 500 W, and one run on H200; tokens/s and peak memory of a GPU.

From the notes and the code of their dates:

* ``FSDP`` shards over the data and context ranks together. Without a pipeline the local batch is one micro-batch. With one it is divided
  into as many micro-batches as there are stages (``n_microbatches`` is the degree where it is not given), and parameters stay gathered
  between them, which makes the traffic that of a partitioned optimizer.
* The stages of a pipeline get layers in equal numbers, what is left over goes to the second stage and those after it.
* Tensor parallelism is sequence parallel. ``AsyncTP`` is ``async_tensor`` here.
* Selective checkpointing keeps the attention's output and every second matrix product; ``selective`` recomputes the core of the
  attention instead, which takes about as long.
* Peak memory is what PyTorch's allocator reserved, the greatest of all GPUs.
"""

from __future__ import annotations

import re

from clustersim.published.case import TEST, Case, Keys, LeftOut, Row, experiment, of, rows, whole

_SOURCE = "torchtitan"
_MODELS = {"Llama3.1-8B": "llama3-8b", "Llama3.1-70B": "llama3-70b", "Llama3.1-405B": "llama3-405b"}
_LAYERS_405B = 126
_ROWWISE = "the notes say that tensor parallelism with rowwise float8 was slow through a defect (torchtitan issue 1207)"


def throughput_and_memory() -> list[Case | LeftOut]:
    """Tokens per second and GPU, and GiB."""
    cases: list[Case | LeftOut] = []
    for row in rows("torchtitan_llama3_h100.csv"):
        name = f"{row['model']}, {row['parallelism']}, {row['seq_len']}, {row['technique']}{', H200' if row['table'] == 'trainy' else ''}"
        if "rowwise" in row["technique"]:
            cases.append(LeftOut(_SOURCE, name, _ROWWISE))
            continue
        keys, rate, memory = (_keys(row),), float(row["tokens_per_s_per_gpu"]), row["peak_mem_GiB"]
        of_a_gpu = of("tokens_per_s", 1 / whole(row["n_gpus"]))
        cases.append(Case(_SOURCE, TEST, name, "throughput", "tokens/s per GPU", rate, keys, of_a_gpu))
        if memory:
            cases.append(Case(_SOURCE, TEST, name, "peak memory", "GiB", float(memory), keys, of("reserved_memory_bytes", 2**-30)))
    return cases


def _keys(row: Row) -> Keys:
    degrees = {name: int(size) for name, size in re.findall(r"([A-Z]+)([0-9]+)", row["parallelism"])}
    data, tensor, pipeline = degrees["FSDP"], degrees.get("TP", 1), degrees.get("PP", 1)
    local, technique = whole(row["local_batch"]), row["technique"]
    strategy: Keys = {"name": "standard", "partition": "parameters"}
    if pipeline > 1:
        strategy = {"name": "1f1b", "partition": "optimizer", "stages": _stages(_LAYERS_405B, pipeline)}
    return experiment(
        _software(row),
        model=_MODELS[row["model"]],
        cluster="dgx-h200" if row["table"] == "trainy" else "grand-teton-h100",
        parallel={
            "data": data, "context": degrees.get("CP", 1), "tensor": tensor, "pipeline": pipeline, "sequence_parallel": tensor > 1,
        },
        strategy={**strategy, "async_tensor": "AsyncTP" in technique},
        batch={"global": local * data, "micro": local // pipeline, "sequence": whole(row["seq_len"])},
        precision="fp8" if "float8" in technique else "bf16",
        recompute="full" if row["act_ckpt"] == "full" else "selective",
    )  # fmt: skip


def _software(row: Row) -> str:
    if "compile" not in row["technique"]:
        return "torch-2024"
    return "torch-2025-compile" if row["table"] == "trainy" else "torch-2024-compile"


def _stages(layers: int, pipeline: int) -> list[int]:
    """
    >>> _stages(126, 8)
    [15, 16, 16, 16, 16, 16, 16, 15]
    """
    equal, over = divmod(layers, pipeline)
    return [equal + (0 < stage <= over) for stage in range(pipeline)]
