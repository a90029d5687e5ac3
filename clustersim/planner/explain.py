"""Why a plan is not the best, and why there is none, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clustersim import units
from clustersim.planner.memory_bound import Memory
from clustersim.planner.question import LIMITS, Question
from clustersim.planner.scaling_laws import Training
from clustersim.planner.search import Found, Search
from clustersim.planner.space import Candidate, Space, roots
from clustersim.schedule.strategy import OFFLOADS

AS_FAST = "as fast"
_SMALL = 0.1
"""Parts below this share of the loss are not named."""


def lost_by(plan: Found, best: Found, training: Training, per_gpu: bool = False) -> str:
    """Where the training loses time to the best (``per_gpu``: GPU time), a step's worth of it; the largest part first.

    The parts of the step are for the same number of sequences; where the batches differ the whole training may need more of them.

    >>> from clustersim.planner.space import Candidate
    >>> tokens = Training(0.0, 1e6)
    >>> def found(recompute, compute, exposed, idle):
    ...     row = {"step_time_s": compute + exposed + idle, "ideal_compute_s": compute, "exposed_communication_s": exposed, "idle_s": idle}
    ...     return Found(Candidate(2, 4, 1, 1, 1, 1, 8, "standard", 1, False, recompute=recompute), 0.0, row)
    >>> lost_by(found("full", 4.0, 0.5, 1.5), found("none", 3.0, 0.6, 1.0), tokens)
    '+30 % of the step: more recompute +1 s, more bubble +500 ms'
    >>> lost_by(found("none", 3.0, 0.6, 1.0), found("none", 3.0, 0.6, 1.0), tokens)
    'as fast'
    """
    gpus = plan.candidate.gpus / best.candidate.gpus if per_gpu else 1
    scale = best.candidate.batch / plan.candidate.batch * gpus
    longer = training.steps(plan.candidate.batch) / training.steps(best.candidate.batch) * gpus - scale
    own, other = plan.row, best.row
    lost_s = {
        what: own[key] * scale - other[key]
        for what, key in (
            (_compute(plan, best), "ideal_compute_s"),
            ("exposed communication", "exposed_communication_s"),
            ("bubble", "idle_s"),
        )
    }
    lost_s["data to train on"] = longer * own["step_time_s"]
    total_s = sum(lost_s.values())
    named = sorted(lost_s.items(), key=lambda part: -abs(part[1]))
    worth = [part for part in named if abs(part[1]) > _SMALL * max(abs(total_s), 1e-6 * other["step_time_s"])]
    if not worth or abs(total_s) < 5e-4 * other["step_time_s"]:
        return AS_FAST
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


def why_none(result: Search, question: Question) -> str:
    """Which limit leaves no plan, and what would."""
    space, limits = question.space, question.limits
    if result.beyond:
        parts = [
            f"{name} at most {limits.most[figure]:.6g}, but no candidate is below {result.beyond[figure]:.6g}"
            for name, figure in LIMITS.items()
            if figure in result.beyond
        ]
        return f"no plan is within the limits: {'; '.join(parts)}; allowed: a larger limit"
    if result.too_large is not None:
        return _too_large(*result.too_large, question)
    if not result.refused:
        return _no_candidate(space)
    reason, times = result.refused.most_common(1)[0]
    return f"no candidate can be: {reason} ({times:,} of them)"


def _too_large(needs_bytes: float, candidate: Candidate, question: Question) -> str:
    """Names what is known to be enough: memory of a GPU, offloading that was not allowed."""
    space, size = question.space, units.decimal_size_text
    usable_bytes, limit_bytes = question.cluster.gpu.usable_memory_bytes, question.limits.memory_bytes
    limited = limit_bytes < usable_bytes
    has = f"--limit memory is {size(limit_bytes)}" if limited else f"a GPU of {question.cluster.name} has {size(usable_bytes)} for a job"
    enough = "a larger limit of memory" if limited and needs_bytes <= usable_bytes else "GPUs with so much"
    ways = ["more GPUs", enough]
    memory = Memory(question.base)
    for name in OFFLOADS:
        if name not in space.offload:
            least_bytes = memory.least_bytes(replace(space, offload=(name,)))
            if least_bytes <= limit_bytes:
                ways.append(f"--offload {name}, with which one needs {size(least_bytes)} or more")
                break
    return (
        f"no plan on {_gpus_text(*space.gpus)} fits in memory: the smallest needs {size(needs_bytes)} a GPU, CUDA and NCCL included"
        f" ({candidate}, partition {candidate.partition}, recompute {candidate.recompute}, offload {candidate.offload}), and {has};"
        f" allowed: {'; '.join(ways)}"
    )


def _gpus_text(low: int, high: int) -> str:
    return f"{high:,} GPU{'s' if high > 1 else ''}" if low in (1, high) else f"{low:,} to {high:,} GPUs"


def _no_candidate(space: Space) -> str:
    """The space is empty: the first condition without which it is not is the one that binds."""
    (least, most), (low, high) = space.batch, space.gpus
    smallest = min(space.tensor) * min(space.context) * min(space.pipelines) * min(space.data or (1,))
    if smallest > high:
        return f"the degrees given need at least {smallest:,} GPUs; allowed: a limit of as many, got {high:,}"

    def has(**changes: Any) -> bool:
        return next(roots(replace(space, **changes)), None) is not None

    if has(chunks=None, strategies=("standard",)):
        names, chunks = ", ".join(space.strategies), ", ".join(map(str, space.chunks)) if space.chunks else "any number of"
        pipelines = ", ".join(map(str, space.pipelines))
        return f"no strategy of {names} can have {chunks} chunks with {space.layers} layers on {pipelines} stages; allowed: others of these"
    if has(node=1):
        return (
            f"no stage of a pipeline fills nodes of {space.node} GPUs, or divides one, with the degrees given on {_gpus_text(low, high)};"
            " allowed: other degrees, or another --node-size"
        )
    if has(expert=(1,)):
        return f"expert groups of {', '.join(map(str, space.expert))} do not divide the data ranks; allowed: data that is a multiple of one"
    if has(gpus=(1, high)):
        return f"nothing takes {low:,} GPUs or more with the degrees and the batch given; allowed: fewer GPUs, or a larger batch"
    replicas = f"data {', '.join(map(str, space.data))}" if space.data else "any number of replicas"
    between = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return (
        f"a batch of {between} sequences does not divide into micro-batches of {', '.join(map(str, space.micro))} on {replicas}, as many"
        f" micro-batches as stages or more, on {_gpus_text(low, high)}; allowed: another batch, a larger --batch-slack, or other degrees"
    )


def counts(result: Search) -> Mapping[str, int]:
    """How much work the search was."""
    return {"candidates": len(result.candidates), "simulated": result.simulated, "simulated_unfit": result.unfit}
