"""The figures of a report in words: name, value, and what the value means."""

from __future__ import annotations

import math
from typing import Any

from clustersim import units
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_links import by_kind
from clustersim.analysis.answer_text import percent
from clustersim.analysis.path import WAIT, path_by_kind
from clustersim.plots.style import style
from clustersim.units import PS_PER_S

Row = tuple[str, str, str]
_PATH_KINDS = 4


def analysis_rows(analysis: Analysis) -> list[Row]:
    """What the analysis of the window says."""
    window = analysis.window_ps
    compute, exposed, idle = (analysis.mean(f"{name}_ps") for name in ("compute", "exposed", "idle"))
    hidden, communication = analysis.mean("hidden_ps"), analysis.mean("communication_ps")
    rows = [
        ("window", _time(window),
         f"What this page is about: {analysis.facts.window}. For every rank: compute + exposed communication + idle = window, exactly."),
        ("compute", _of(compute, window), "A rank computes; mean over ranks."),
        ("exposed communication", _of(exposed, window), "A rank communicates and does not compute: what more overlap can win."),
        ("idle", _of(idle, window), "A rank neither computes nor communicates: bubbles of the pipeline, and waiting for other ranks."),
        ("bubble, of the window", percent(_share(window - compute, window)), "All time without compute, divided by the window."),
        ("bubble, of the compute", percent(_share(window - compute, compute)),
         "The same time, divided by the time with compute. Papers use either; compare like with like."),
        ("communication hidden (overlap)", percent(_share(hidden, communication)),
         f"The part of the communication ({_time(communication)}) that runs while its rank computes, and so costs no time."),
        ("critical path", _path(analysis),
         "The chain of ops and waits that makes the whole trace as long as it is. Shortening anything else does not help."),
    ]  # fmt: skip
    return rows + _slack_rows(analysis) + _link_rows(analysis)


def _slack_rows(analysis: Analysis) -> list[Row]:
    if analysis.slack is None:
        return []
    count = f"{int((analysis.slack == 0).sum()):,} of {len(analysis.slack):,}"
    return [("ops without slack", count, "Ops that cannot end any later without making the step longer.")]


def _link_rows(analysis: Analysis) -> list[Row]:
    moved = "Bytes moved, of what the links could have moved in the window; the highest rate was {} of a link."
    return [
        (
            f"{kind} links",
            f"mean {percent(use['mean_utilization'])}, busiest {percent(use['busiest_utilization'])}",
            moved.format(percent(use["peak_utilization"])),
        )
        for kind, use in ({} if analysis.links is None else by_kind(analysis.links)).items()
    ]


def summary_rows(summary: dict[str, Any]) -> list[Row]:
    """What the run folder says of the whole step; figures that it does not have are left out.

    >>> summary_rows({"mfu": 0.3, "hfu": "bad", "tokens_per_s": None})[0][:2]
    ('MFU', '30 %')
    """
    shown = (
        ("tokens per second", "tokens_per_s", lambda x: f"{x:,.0f}", "Tokens of one step, divided by the step time; the whole job."),
        ("model FLOP/s per GPU", "model_flops_per_gpu_s", units.flops_text, "Operations that the model needs, per second and GPU."),
        ("MFU", "mfu", percent, "Model FLOP/s, divided by the peak of the GPU. Recompute is not counted."),
        ("HFU", "hfu", percent, "The same with all operations that the GPU carries out, recompute counted."),
        ("peak memory", "peak_memory_bytes", units.size_text, "The most that any rank holds at a time; see the chart below."),
        ("GPUs", "ranks", lambda x: f"{x:,.0f}", "Ranks of the job. Ranks that are alike by symmetry are simulated once."),
        ("GPUs simulated", "simulated_ranks", lambda x: f"{x:,.0f}", "Those in the charts, each for all that are like it."),
    )  # fmt: skip
    numbers = ((name, number(summary, key), text, meaning) for name, key, text, meaning in shown)
    rows = [(name, text(value), meaning) for name, value, text, meaning in numbers if value is not None]
    if summary.get("fits") is False:
        rows.append(("fits", "NO", "The peak memory is more than a GPU has: this step cannot run as it is."))
    moved = summary.get("communication_bytes")
    sent = {kind: number(moved, kind) for kind in moved} if isinstance(moved, dict) else {}
    text = ", ".join(f"{kind} {units.decimal_size_text(size)}" for kind, size in sent.items() if size)
    return [*rows, ("bytes sent", text, "By all ranks of the job in one step, by kind of parallelism.")] if text else rows


def number(values: dict[str, Any], key: str) -> float | None:
    """A finite number that a document has under a key, or None.

    >>> number({"a": 1, "b": float("nan"), "c": True}, "a"), number({"b": float("nan")}, "b")
    (1, None)
    """
    value = values.get(key)
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30 and math.isfinite(value)
    return value if fine else None


def _path(analysis: Analysis) -> str:
    parts = list(path_by_kind(analysis.path, analysis.window).items())
    named = [("waiting" if kind == WAIT else style(kind).label, percent(_share(time, analysis.window_ps))) for kind, time in parts]
    text = ", ".join(f"{kind} {share}" for kind, share in named[:_PATH_KINDS])
    return text + (", ..." if len(parts) > _PATH_KINDS else "")


def _of(part: float, whole: float) -> str:
    return f"{_time(part)} ({percent(_share(part, whole))})"


def _time(ps: float) -> str:
    return units.time_text(ps / PS_PER_S)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
