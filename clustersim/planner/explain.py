"""Why a plan is not the best, and why there is none, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim import units
from clustersim.planner.search import Found, Limits, Search
from clustersim.planner.space import Space

_SMALL = 0.1
"""Parts below this share of the loss are not named."""


def lost_by(plan: Found, best: Found, per_gpu: bool = False) -> str:
    """Where the step of a plan loses time to the best, for the same number of sequences (``per_gpu``: GPU time); the largest part first.

    >>> from clustersim.planner.space import Candidate
    >>> def found(recompute, compute, exposed, idle):
    ...     row = {"step_time_s": compute + exposed + idle, "ideal_compute_s": compute, "exposed_communication_s": exposed, "idle_s": idle}
    ...     return Found(Candidate(2, 4, 1, 1, 1, 1, 8, "standard", 1, False, recompute=recompute), 0.0, row)
    >>> lost_by(found("full", 4.0, 0.5, 1.5), found("none", 3.0, 0.6, 1.0))
    '+30 % of the step: more recompute +1 s, more bubble +500 ms'
    >>> lost_by(found("none", 3.0, 0.6, 1.0), found("none", 3.0, 0.6, 1.0))
    'as fast'
    """
    scale = best.candidate.batch / plan.candidate.batch * (plan.candidate.gpus / best.candidate.gpus if per_gpu else 1)
    own, other = plan.row, best.row
    lost_s = {
        what: own[key] * scale - other[key]
        for what, key in (
            (_compute(plan, best), "ideal_compute_s"),
            ("exposed communication", "exposed_communication_s"),
            ("bubble", "idle_s"),
        )
    }
    total_s = sum(lost_s.values())
    named = sorted(lost_s.items(), key=lambda part: -abs(part[1]))
    worth = [part for part in named if abs(part[1]) > _SMALL * max(abs(total_s), 1e-6 * other["step_time_s"])]
    if not worth or abs(total_s) < 5e-4 * other["step_time_s"]:
        return "as fast"
    against = [f"{_word(what, part)} +{units.time_text(part)}" for what, part in worth if part > 0]
    favour = [f"{_word(what, part)} -{units.time_text(-part)}" for what, part in worth if part < 0]
    parts = "; ".join(", ".join(texts) for texts in (against, favour) if texts)
    return f"{100 * total_s / other['step_time_s']:+.2g} % of the {'GPU time' if per_gpu else 'step'}: {parts}"


def _compute(plan: Found, best: Found) -> str:
    if plan.candidate.recompute != best.candidate.recompute:
        return "recompute"
    return "compute on fewer GPUs" if plan.candidate.gpus < 0.995 * best.candidate.gpus else "compute"


def _word(what: str, part_s: float) -> str:
    return f"{'more' if part_s > 0 else 'less'} {what}"


def why_none(result: Search, space: Space, limits: Limits) -> str:
    """Which limit leaves no plan."""
    low, high = space.gpus
    if not result.candidates and not result.refused:
        return _no_candidate(space)
    if result.beyond:
        parts = [f"{name} at most {limits.most[name]:.6g}, but no candidate is below {value:.6g}" for name, value in result.beyond.items()]
        return f"no plan is within the limits: {'; '.join(parts)}; allowed: a larger limit"
    if result.too_large is not None:
        needs, candidate = result.too_large
        text = f"no plan on {_gpus_text(low, high)} fits in memory: the smallest needs {units.decimal_size_text(needs)} a GPU"
        has = units.decimal_size_text(limits.memory_bytes)
        return f"{text} ({candidate}, partition {candidate.partition}, recompute {candidate.recompute}) and has {has}; allowed: more GPUs"
    reason, times = result.refused.most_common(1)[0]
    return f"no candidate can be: {reason} ({times:,} of them)"


def _gpus_text(low: int, high: int) -> str:
    return f"{high:,} GPUs" if low in (1, high) else f"{low:,} to {high:,} GPUs"


def _no_candidate(space: Space) -> str:
    """The space is empty: of GPUs, batch and degrees some cannot go together."""
    (least, most), (low, high) = space.batch, space.gpus
    smallest = min(space.tensor) * min(space.context) * min(space.pipelines) * min(space.data or (1,))
    if smallest > high:
        return f"the degrees given need at least {smallest:,} GPUs; allowed: a limit of as many, got {high:,}"
    replicas = f"data {', '.join(map(str, space.data))}" if space.data else "any number of replicas"
    between = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return (
        f"a batch of {between} sequences does not divide into micro-batches of {', '.join(map(str, space.micro))} on {replicas}, as many"
        f" micro-batches as stages or more, on {_gpus_text(low, high)}; allowed: another batch, a larger --batch-slack, or other degrees"
    )


def columns(found: Found) -> dict[str, Any]:
    """A plan's choices, as a row of a table has them."""
    one = found.candidate
    names = (
        "data",
        "pipeline",
        "tensor",
        "context",
        "expert",
        "micro",
        "micro_batches",
        "chunks",
        "strategy",
        "partition",
        "recompute",
        "offload",
    )
    return {
        "gpus": one.gpus,
        "batch": one.batch,
        **{name: getattr(one, name) for name in names},
        "sequence_parallel": one.sequence_parallel,
    }


def counts(result: Search) -> Mapping[str, int]:
    """How much work the search was."""
    return {"candidates": len(result.candidates), "simulated": result.simulated, "simulated_unfit": result.unfit}
