"""BigScience's search for the fastest layout of BLOOM, on Jean Zay: seconds of an iteration, memory as nvidia-smi shows it, what ran out.

Megatron-DeepSpeed; train/tr11-176B-ml of the bigscience repository, chronicles-prequel.md and tr11-176B-ml.slurm:

* 1F1B; ZeRO 1 (with bf16 an equivalent of its own) reduces gradients after the last micro-batch; whole layers are recomputed
  (``--checkpoint-activations``); tensor ranks share the sending of pipeline messages, and compute waits until they are sent
  (deepspeed/runtime/pipe: ``p2p.send`` on the stream of the compute).
* DeepSpeed fills the stages one after the other with as many layers as the fullest needs, so that the last gets what is left
  (deepspeed/runtime/utils.py of that time, ``_lprobe``; "78/12=6.5 - so the last stage has 1 block, while the rest have 7"). In the
  section "Rebalancing layers", in production, and with the 106 layers before, the embedding and the logits count as a layer each.
* nvidia-smi counts MiB; a GB of the notes is taken for a GiB, since a full GPU of 80 GB stands as 80. It is that of the fullest nodes.
* The second iteration, with a few per cent of noise. PCIe was slower before 25 February ("GBS Variations"), when times fell by 1 to 5 %.
  Against hanging, some of the runs and production wait for every kernel (``CUDA_LAUNCH_BLOCKING``), which the notes found to have no
  impact. Neither is in the experiments.
* Positions are learned in some of the rows and ALiBi in others, which is not said.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from clustersim.published.case import TEST, Case, Keys, LeftOut, Row, Summary, experiment, gpt, of, rows, whole

_SOURCE = "bloom"
_COUNTED, _COUNTED_LAYERS = ("Rebalancing layers", "production run log"), "106.0"


def grid() -> list[Case | LeftOut]:
    """Times, memory, whether it fits, and the rank correlation of predicted and measured times."""
    times: list[Case] = []
    others: list[Case | LeftOut] = []
    for number, row in enumerate(rows("bloom_tuning_grid_a100.csv"), start=1):
        name = (
            f"{number}: {row['size']}, {row['n_gpus']} GPUs, data {row['dp']}, tensor {row['tp']}, pipeline {row['pp']}, micro {row['mbs']}"
        )
        missing = _missing(row)
        if missing:
            others.append(LeftOut(_SOURCE, name, missing))
            continue
        keys, seconds, memory = (_keys(row),), row["sec_per_iter"], row["mem_GB_nvidia_smi"]
        if seconds:
            times.append(Case(_SOURCE, TEST, name, "iteration time", "s", float(seconds), keys, of("step_time_s")))
        if memory:
            others.append(Case(_SOURCE, TEST, name, "peak memory", "GiB", float(memory), keys, of("used_memory_bytes", 2**-30)))
        others.append(Case(_SOURCE, TEST, name, "fits in memory", "yes is 1", float(row["status"] == "ok"), keys, of("fits")))
    return [*times, *others, correlation(times)]


def _missing(row: Row) -> str | None:
    for key in ("layers", "heads"):
        if not row[key]:
            return f"the source does not say how many {key}"
    return None if row["status"] else "the source says neither a time nor that memory ran out"


def _keys(row: Row) -> Keys:
    pipeline = whole(row["pp"])
    ends = int(row["section"] in _COUNTED or row["layers"] == _COUNTED_LAYERS)
    strategy = {"name": "1f1b", "partition": "optimizer", "overlap": False, "stages": stages(whole(row["layers"]), pipeline, ends)}
    return experiment(
        "deepspeed-2022",
        model=gpt(row, whole(row["vocab_padded"])),
        cluster="jean-zay-a100",
        parallel={"data": whole(row["dp"]), "pipeline": pipeline, "tensor": whole(row["tp"])},
        strategy=strategy if pipeline == 1 else {**strategy, "scatter_gather": True, "sends": "blocking"},
        batch={"global": whole(row["gbs"]), "micro": whole(row["mbs"]), "sequence": whole(row["seq_len"])},
        precision=row["precision"][:4],
        recompute="full",
    )


def stages(layers: int, pipeline: int, ends: int) -> list[int]:
    """Layers of each stage as DeepSpeed divides them; ``ends`` is 1 where the embedding and the logits count as a layer each.

    >>> stages(78, 12, 0)
    [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1]
    >>> stages(70, 12, 1)
    [5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5]
    """
    most = -(-(layers + 2 * ends) // pipeline)
    first = min(most - ends, layers)
    middle = [most] * (pipeline - 2)
    return [first, *middle, layers - first - sum(middle)] if pipeline > 1 else [layers]


def correlation(times: Sequence[Case]) -> Case:
    """Spearman's, over all rows with a time."""
    measured = pd.Series([case.measured for case in times])

    def predicted(summaries: Sequence[Summary]) -> float:
        return float(measured.rank().corr(pd.Series([summary["step_time_s"] for summary in summaries]).rank()))

    experiments = tuple(case.experiments[0] for case in times)
    return Case(_SOURCE, TEST, "all rows with a time", "rank correlation of times", "Spearman's rho", 1.0, experiments, predicted)
