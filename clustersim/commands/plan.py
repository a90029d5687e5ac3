"""``clustersim plan``: the fastest configurations that fit, and how long the training takes with them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.table import Table

from clustersim import units
from clustersim.commands.arguments import output_folder
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import clipped
from clustersim.errors import InputError
from clustersim.planner.answer import Answer, answer_to, document, write
from clustersim.planner.explain import AS_FAST, lost_by
from clustersim.planner.question import Question, read_question
from clustersim.planner.search import Found, Search

QUESTIONS = (
    "gpus", "batch", "batch_slack_percent", "sequence", "node_size", "tensor", "pipeline", "data", "context", "expert", "micro_batch",
    "chunks", "strategies", "partition", "recompute", "offload", "sequence_parallel", "objective", "limits", "price", "gpu_power",
    "pue", "law", "steps", "tokens", "top", "proven", "cost", "overrides",
)  # fmt: skip
"""The options that :func:`clustersim.planner.question.read_question` takes under the same names."""


def plan(options: argparse.Namespace) -> None:
    """Search, print the best plans and why the others lose; into ``-o`` the table, the best as an experiment, the picture."""
    from clustersim.plots.files import picture_writer
    from clustersim.plots.pareto import pareto

    cluster = _one_cluster(options)
    given = {name: value for name in QUESTIONS if (value := getattr(options, name)) is not None}
    question = read_question(options.model, cluster, **given)
    folder = None if options.output is None else output_folder(options.output, options.output)
    line = _Line()
    try:
        answer = answer_to(question, options.jobs, line)
    finally:
        line.close()
    paths = [] if folder is None else write(answer, folder, picture_writer(lambda: pareto(answer)))
    if options.json:
        print_json(document(answer))
        return
    _print(answer)
    if paths:
        print_files(paths)


def _one_cluster(options: argparse.Namespace) -> str:
    given = [name for name in (options.cluster, options.cluster_option) if name is not None]
    if len(given) != 1:
        problem = "missing" if not given else f"given twice, {clipped(given[0])} and {clipped(given[1])}"
        raise InputError(f"CLUSTER: {problem}; expected one, as in: clustersim plan gpt3-175b dgx-a100 --gpus 1024")
    return given[0]


class _Line:
    """How far the search is, on stderr: in place on a terminal, elsewhere a line every ten seconds."""

    def __init__(self) -> None:
        self.terminal, self.shown_at = sys.stderr.isatty(), time.monotonic()

    def __call__(self, found: Search, left: int) -> None:
        now = time.monotonic()
        if not self.terminal and now - self.shown_at < 10:
            return
        self.shown_at = now
        text = (
            f"plan: {found.simulated:,} simulated of {len(found.candidates):,} candidates, {len(found.plans):,} fit, at most {left:,} left"
        )
        print(f"\r\033[K{text}" if self.terminal else text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _print(answer: Answer) -> None:
    question, result, best = answer.question, answer.result, answer.plans[0]
    print(_training_text(question, best))
    print(f"{len(result.candidates):,} candidates bounded, {result.simulated:,} simulated ({result.unfit:,} of them did not fit)")
    _print_plans(question, answer.plans, f"the best {len(answer.plans)} by {question.objective}")
    if question.space.each:
        _print_plans(question, tuple(answer.best_of_each.values()), "the best of each strategy")
    if question.front:
        _print_plans(question, answer.front, "the fastest for at most so many GPUs")
    if len(answer.plans) > 1:
        print(f"runner-up: {_runner_up(question, answer.plans)}")
    if question.micro_given and best.candidate.micro == max(question.space.micro) and best.candidate.micro_batches > 1:
        print(f"the best has the largest micro-batch looked at, {best.candidate.micro}; a larger --micro-batch may be faster still")


def _runner_up(question: Question, plans: Sequence[Found]) -> str:
    """Why the second lost; where it is as fast, why the first that is not did."""
    losses = [lost_by(plan, plans[0], question.training, question.per_gpu) for plan in plans[1:]]
    slower = next((why for why in losses if why != AS_FAST), AS_FAST)
    return slower if slower == losses[0] else f"{AS_FAST}; the first that is not: {slower}"


def _training_text(question: Question, best: Found) -> str:
    """``100,041 steps of 2,415 sequences, 6.19e+11 tokens: 5.6 days, 594 GPU-years``, and what they cost."""
    made = question.bill(best.candidate, best.step_s)
    text = f"{made['steps']:,.0f} steps of {best.candidate.batch:,} sequences, {made['tokens']:.4g} tokens:"
    text = f"{text} {made['days']:.4g} days on {best.candidate.gpus:,} GPUs, {made['gpu_years']:.4g} GPU-years"
    extra = [f", cost {made['cost']:,.0f}"] if made["cost"] is not None else []
    extra += [f", {made['energy_kwh']:,.0f} kWh"] if made["energy_kwh"] is not None else []
    return text + "".join(extra)


def _print_plans(question: Question, plans: Sequence[Found], title: str) -> None:
    printed = Table(title=title, title_justify="left", title_style="bold")
    degrees = [
        name for name in ("data", "pipeline", "tensor", "context", "expert") if any(getattr(one.candidate, name) > 1 for one in plans)
    ]
    heads = (*degrees, "batch", "micro x m", "strategy", "chunks", "partition", "recompute", "offload")
    for head in heads:
        printed.add_column(head, justify="left" if head in ("strategy", "partition", "recompute", "offload") else "right")
    priced = question.prices.gpu_hour is not None
    for head in ("GPUs", "step", "MFU (%)", "memory", "GPU hours", "days", *(["cost"] if priced else [])):
        printed.add_column(head, justify="right")
    for found in plans:
        one, made = found.candidate, question.bill(found.candidate, found.step_s)
        choices = (f"{one.micro} x {one.micro_batches}", one.strategy, str(one.chunks), one.partition, one.recompute, one.offload)
        mfu = found.row["mfu"]
        printed.add_row(
            *(str(getattr(one, name)) for name in degrees), f"{one.batch:,}", *choices, f"{one.gpus:,}", units.time_text(found.step_s),
            "none" if mfu is None else f"{100 * mfu:.1f}", units.decimal_size_text(found.row["peak_memory_bytes"]),
            f"{made['gpu_hours']:,.4g}", f"{made['days']:.4g}", *([f"{made['cost']:,.0f}"] if priced else []),
        )  # fmt: skip
    console().print(printed)
