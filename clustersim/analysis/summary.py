"""The figures of one step, in SI units: what ``summary.json`` holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.memory import at_peak, fullest_rank, peaks
from clustersim.analysis.ranks import rank_times
from clustersim.analysis.steps import steady_window
from clustersim.program.kinds import COMMUNICATION
from clustersim.trace.trace import Trace

_PS = 1e-12
_TIMES = ["compute_ps", "communication_ps", "hidden_ps", "exposed_ps", "idle_ps", "wait_ps"]


@dataclass(frozen=True)
class Capacity:
    """The memory of one GPU, what of it a job can have, what is in use outside of the framework's allocator; the part by which that
    allocator holds more than tensors.
    """

    memory_bytes: int
    usable_bytes: int
    reserve_bytes: int = 0
    unused: float = 0.0


@dataclass(frozen=True)
class StepFacts:
    """What the trace does not hold: for how many ranks of the job each simulated rank stands, and the sizes of the work.

    ``tokens``, model and hardware FLOP of one step, each with full and with causal attention; the peak of one GPU in FLOP/s, None where
    times are given and not computed; its memory; for each link in the trace its kind, its capacity, the payload that
    crosses it, and for how many it stands; ``steps`` in the trace, and the ``passes`` (micro-batches, or slices) of each.
    """

    multiplicity: dict[int, int]
    tokens: int
    model_flops: float
    hardware_flops: float
    model_flops_causal: float
    hardware_flops_causal: float
    peak_flop_s: float | None
    memory: Capacity
    link_kinds: dict[str, str]
    link_capacities_bytes_s: dict[str, int]
    link_bytes: dict[str, int]
    link_multiplicity: dict[str, int]
    steps: int = 1
    passes: int = 1

    @property
    def ranks(self) -> int:
        """Ranks of the whole job."""
        return sum(self.multiplicity.values())


def summarize(trace: Trace, facts: StepFacts, events: int, wall_s: float) -> dict[str, Any]:
    """The summary; per-rank figures are means over ranks, ``per_rank`` has their least, median and greatest.

    ``overlap`` averages over the ranks that communicate and is None when none does. ``bubble_of_ideal`` is the mean bubble
    over the mean compute. ``communication_bytes`` is what all ranks of the job send. Of several steps the figures are
    means over those in between (:mod:`clustersim.analysis.steps`).

    ``mfu`` and ``hfu`` count all of the attention's square, ``mfu_causal`` and ``hfu_causal`` the half that a causal mask leaves.
    ``peak_memory_bytes`` are tensors, as ``torch.cuda.max_memory_allocated`` counts them, ``reserved_memory_bytes`` with what the
    allocator holds besides (``max_memory_reserved``), ``used_memory_bytes`` with CUDA and NCCL too (``reserve_bytes``), as nvidia-smi
    shows it. It ``fits`` when tensors and reserve are at most ``usable_memory_bytes``: before it fails, the allocator gives back what it
    holds besides.
    """
    begin, end, counted = steady_window(trace.ops, facts.steps, facts.passes)
    times = rank_times(trace, (begin, end))
    step_ps = (end - begin) / counted
    step_s = step_ps * _PS
    times[_TIMES] = times[_TIMES] / counted
    peak_of = peaks(trace.memory)
    fullest = fullest_rank(peak_of)
    reserved_bytes = round(peak_of[fullest] * (1 + facts.memory.unused))
    needed_bytes = peak_of[fullest] + facts.memory.reserve_bytes
    fits = needed_bytes <= facts.memory.usable_bytes
    used_bytes = reserved_bytes + facts.memory.reserve_bytes
    stands_for = times["rank"].map(facts.multiplicity).to_numpy()
    busy_s = float(np.average(times["compute_ps"], weights=stands_for)) * _PS
    by_rank = pd.DataFrame(
        {
            "compute_s": times["compute_ps"] * _PS,
            "communication_s": times["communication_ps"] * _PS,
            "exposed_communication_s": times["exposed_ps"] * _PS,
            "idle_s": times["idle_ps"] * _PS,
            "wait_s": times["wait_ps"] * _PS,
            "bubble_of_total": _ratio(step_ps - times["compute_ps"], step_ps),
            "bubble_of_ideal": _ratio(step_ps - times["compute_ps"], times["compute_ps"]),
            "compute_utilization": _ratio(times["compute_ps"], step_ps),
            "overlap": _ratio(times["hidden_ps"], times["communication_ps"]),
            "peak_memory_bytes": times["rank"].map(peak_of).astype(np.int64),
        }
    )
    by_rank = by_rank.loc[np.repeat(by_rank.index, stands_for)]
    per_gpu_s = facts.ranks * step_s
    model_rate, hardware_rate = _ratio(facts.model_flops, per_gpu_s), _ratio(facts.hardware_flops, per_gpu_s)
    mean = by_rank.mean()
    return _plain(
        {
            "step_time_s": step_s,
            "ideal_compute_s": busy_s,
            "tokens_per_s": _ratio(facts.tokens, step_s),
            "model_flops_per_gpu_s": model_rate,
            "hardware_flops_per_gpu_s": hardware_rate,
            "mfu": _ratio(model_rate, facts.peak_flop_s),
            "hfu": _ratio(hardware_rate, facts.peak_flop_s),
            "mfu_causal": _ratio(_ratio(facts.model_flops_causal, per_gpu_s), facts.peak_flop_s),
            "hfu_causal": _ratio(_ratio(facts.hardware_flops_causal, per_gpu_s), facts.peak_flop_s),
            "bubble_of_total": mean["bubble_of_total"],
            "bubble_of_ideal": _ratio(step_s - busy_s, busy_s),
            "compute_utilization": mean["compute_utilization"],
            "overlap": mean["overlap"],
            "exposed_communication_s": mean["exposed_communication_s"],
            "idle_s": mean["idle_s"],
            "wait_s": mean["wait_s"],
            "peak_memory_bytes": peak_of[fullest],
            "memory_at_peak_bytes": at_peak(trace.memory, fullest),
            "reserved_memory_bytes": reserved_bytes,
            "reserve_bytes": facts.memory.reserve_bytes,
            "used_memory_bytes": min(used_bytes, facts.memory.usable_bytes) if fits else used_bytes,
            "usable_memory_bytes": facts.memory.usable_bytes,
            "gpu_memory_bytes": facts.memory.memory_bytes,
            "fits": fits,
            "communication_bytes": _by_step(communication_bytes(trace.ops, facts.multiplicity), facts.steps),
            "links": _links(link_totals(trace, facts)),
            "ranks": facts.ranks,
            "simulated_ranks": len(times),
            "events": events,
            "wall_s": wall_s,
            "per_rank": {name: _spread(column) for name, column in by_rank.items()},
        }
    )


def _by_step(totals: dict[str, int], steps: int) -> dict[str, int]:
    return {name: round(total / steps) for name, total in totals.items()}


def communication_bytes(ops: pd.DataFrame, multiplicity: dict[int, int]) -> dict[str, int]:
    """Bytes that the ranks of the job send, by kind: ``tensor``, ``data``, ``pipeline``, and ``context``, ``expert`` where there are any.

    A receive sends nothing.
    """
    totals = {"tensor": 0, "data": 0, "pipeline": 0}
    for (kind, rank), sent in ops.groupby(["kind", "rank"], observed=True)["bytes"].sum().items():
        if kind in COMMUNICATION and kind != "recv":
            name = COMMUNICATION[kind]
            totals[name] = totals.get(name, 0) + int(sent) * multiplicity[rank]
    return totals


def link_totals(trace: Trace, facts: StepFacts) -> pd.DataFrame:
    """A row per link of the trace: link, kind, links (how many it stands for), capacity_bytes_s, bytes, busy_s, and utilization.

    Bytes and times are of one such link and step, bytes those of the payload; ``mean_utilization`` and ``peak_utilization`` are their
    share of the capacity, the mean over the trace.
    """
    use = trace.links
    seconds = (use["end_ps"] - use["start_ps"]) * _PS
    table = pd.DataFrame({"link": use["link"].astype(str), "busy_s": seconds}).groupby("link").sum()
    table["bytes"] = table.index.map(facts.link_bytes).to_numpy(dtype=float)
    table["peak"] = use["rate_bytes_s"].groupby(use["link"].astype(str)).max()
    mean_rate = table["bytes"].to_numpy() / max(trace.makespan_ps * _PS, _PS)
    capacity = table.index.map(facts.link_capacities_bytes_s).to_numpy(dtype=float)
    return pd.DataFrame(
        {
            "link": table.index.to_numpy(),
            "kind": table.index.map(facts.link_kinds),
            "links": table.index.map(facts.link_multiplicity).to_numpy(dtype=np.int64),
            "capacity_bytes_s": capacity.astype(np.int64),
            "bytes": table["bytes"].to_numpy() / facts.steps,
            "busy_s": table["busy_s"].to_numpy() / facts.steps,
            "mean_utilization": mean_rate / capacity,
            "peak_utilization": table["peak"].to_numpy() / capacity,
        }
    )


def _links(totals: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By kind, over the links in use: mean and peak utilization, and the bytes over all such links of the job."""
    return {
        kind: {
            "mean_utilization": float(np.average(of["mean_utilization"], weights=of["links"])),
            "peak_utilization": float(of["peak_utilization"].max()),
            "bytes": round(float((of["bytes"] * of["links"]).sum())),
        }
        for kind, of in totals.groupby("kind", sort=True)
    }


def _ratio(a: Any, b: Any) -> Any:
    """a / b; None (or NaN in a column) where there is nothing to divide by."""
    if isinstance(a, pd.Series) or isinstance(b, pd.Series):
        return a / (b.where(b != 0) if isinstance(b, pd.Series) else b or np.nan)
    return None if a is None or not b else a / b


def _spread(column: pd.Series) -> dict[str, Any]:
    known = column.dropna()  # of a median of nothing but NaN older releases of pandas warn
    return {"min": known.min(), "median": known.median(), "max": known.max()}


def _plain(value: Any) -> Any:
    """Python numbers throughout, None for NaN: what JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
