"""Zero Bubble Pipeline Parallelism, arXiv 2401.10241, table 4: four schedules on 8 and 16 A100, the profiled times fed in.

The paper's B is the input gradient, here I; T_F, T_B and T_W are of a rank and micro-batch. ZB-1p and ZB-2p are the paper's automatic
schedules under the memory of 1F1B and twice that: the handcrafted ZB-H1 and ZB-H2 of the same memory stand for them. What the
profile leaves out (the optimizer, kernels that slow each other down) is not in the prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, groupby

from clustersim.published.case import TEST, Case, Keys, LeftOut, Predicted, Row, Summary, experiment, of, rows, whole

_SOURCE = "zero-bubble-2024"
# Megatron-LM's own two wait for what they send (``--no-overlap-p2p-communication`` in the project's scripts).
_SCHEDULES: dict[str, Keys] = {
    "ZB-2p": {"name": "zb-h2"},
    "ZB-1p": {"name": "zb-h1"},
    "1F1B": {"name": "1f1b", "sends": "blocking"},
    "1F1B-I": {"name": "interleaved-1f1b", "chunks": 3, "sends": "blocking"},
}
_LAYERS = 3
"""Of a rank, in a chunk each for 1F1B-I: the embedding and the logits count as a layer, which makes 24 and 48 on 8 and 16 ranks."""
_VOCAB = 32_000
"""Not said; with it 22 and 46 layers have 1.5 and 14.6 billion parameters."""
_DIFFERENT = 0.01


def schedules() -> list[Case | LeftOut]:
    """Throughput by schedule, which schedules are faster than which, and the peak memory of a GPU."""
    read = sorted(rows("zerobubble2024_pipeline_a100.csv"), key=_job)
    cases: list[Case | LeftOut] = [
        Case(
            _SOURCE, TEST, _name(row), "throughput", "samples/s per GPU", float(row["samples_per_gpu_per_s"]), (_profiled(row),),
            _samples_per_gpu_s(row),
        )
        for row in read
    ]  # fmt: skip
    cases += [_order([*of_job]) for _, of_job in groupby(read, key=_job)]
    with_stages = [row for row in read if row["schedule"] != "1F1B-I"]
    cases += [
        Case(_SOURCE, TEST, _name(row), "peak memory", "GB", float(row["peak_mem_GB"]), (_in_memory(row),), of("peak_memory_bytes", 1e-9))
        for row in with_stages
    ]
    reason = "peak memory: the embedding is a chunk of its own there, and a stage without layers cannot be simulated"
    return cases + [LeftOut(_SOURCE, _name(row), reason) for row in read if row not in with_stages]


def _profiled(row: Row) -> Keys:
    """Equal stages of three layers, of which each takes a third of the rank's time."""
    ranks = whole(row["pp_and_n_gpus"])
    forward, into, weight = (float(row[key]) / _LAYERS for key in ("T_F_ms", "T_B_ms", "T_W_ms"))
    return experiment(
        None,
        model={"layers": _LAYERS * ranks, "hidden": whole(row["hidden"]), "heads": whole(row["heads"]), "vocab": _VOCAB},
        cluster="ideal",
        parallel={"pipeline": ranks},
        strategy=_SCHEDULES[row["schedule"]],
        batch=_batch(row),
        cost={"forward": f"{forward} ms", "backward": f"{into + weight} ms", "input": f"{into} ms", "weight": f"{weight} ms"},
        link_delay=f"{row['T_comm_ms']} ms",
    )


def _in_memory(row: Row) -> Keys:
    """The model itself: one layer less on the first rank and the last, nothing recomputed (section 5.1), attention not yet fused."""
    ranks, layers = whole(row["pp_and_n_gpus"]), whole(row["layers"])
    return experiment(
        "megatron-2022",
        model={"layers": layers, "hidden": whole(row["hidden"]), "heads": whole(row["heads"]), "vocab": _VOCAB},
        cluster="dgx-a100",
        parallel={"pipeline": ranks},
        strategy={**_SCHEDULES[row["schedule"]], "stages": [_LAYERS - 1, *[_LAYERS] * (ranks - 2), _LAYERS - 1]},
        batch=_batch(row),
        precision="fp16",
        recompute="none",
    )


def _batch(row: Row) -> dict[str, int]:
    micro, passes = whole(row["microbatch"]), whole(row["n_microbatches"])
    return {"global": micro * passes, "micro": micro, "sequence": whole(row["seq_len"])}


def _samples_per_gpu_s(row: Row) -> Predicted:
    samples = whole(row["microbatch"]) * whole(row["n_microbatches"]) / whole(row["pp_and_n_gpus"])
    return lambda summaries: samples / summaries[0]["step_time_s"]


def _order(of_job: Sequence[Row]) -> Case:
    """How many pairs of schedules that differ by more than 1 % are in the right order."""
    measured = [float(row["samples_per_gpu_per_s"]) for row in of_job]
    pairs = [pair for pair in combinations(range(len(of_job)), 2) if _apart(measured[place] for place in pair)]

    def right(summaries: Sequence[Summary]) -> float:
        rates = [_samples_per_gpu_s(row)([summary]) for row, summary in zip(of_job, summaries, strict=True)]
        return sum((rates[a] - rates[b]) * (measured[a] - measured[b]) > 0 for a, b in pairs)

    experiments = tuple(_profiled(row) for row in of_job)
    case = f"{of_job[0]['model']}, {of_job[0]['n_microbatches']} micro-batches"
    return Case(_SOURCE, TEST, case, "order of schedules", "pairs", len(pairs), experiments, right)


def _apart(rates: Iterable[float]) -> bool:
    low, high = sorted(rates)
    return high > low * (1 + _DIFFERENT)


def _job(row: Row) -> tuple[int, int]:
    return whole(row["pp_and_n_gpus"]), whole(row["n_microbatches"])


def _name(row: Row) -> str:
    return f"{row['model']}, {row['n_microbatches']} micro-batches, {row['schedule']}"
