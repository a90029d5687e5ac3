"""The answer to a question: the best plans, the front over numbers of GPUs, as a document, a table and files.

>>> model = {"layers": 4, "hidden": 64, "heads": 4}
>>> asked = read_question(model, "pcie-ethernet", gpus=1, batch=8, sequence=64, tokens=1e6, micro_batch=1)
>>> answer = answer_to(asked, jobs=1)
>>> document(answer)["plans"][0]["gpus"], document(answer)["plans"][0]["lost_by"]
(1, 'the best')
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from clustersim.errors import InputError
from clustersim.planner.explain import counts, lost_by, why_none
from clustersim.planner.question import Question, read_question
from clustersim.planner.search import Found, Progress, Search, search
from clustersim.sweeps.points import resolved
from clustersim.sweeps.run import workers
from clustersim.trace.files import Write, text_writer, write_all

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "answer_to", "document", "read_question", "table", "write"]
_ROW_OF_A_POINT = ("status", "reason", "version", "seed", "warnings")


@dataclass(frozen=True)
class Answer:
    """``plans``: the best, best first; ``front``: the fastest for at most so many GPUs, fewest first; ``result``: all that was found."""

    question: Question
    result: Search
    plans: tuple[Found, ...]
    front: tuple[Found, ...]

    @property
    def best_of_each(self) -> dict[str, Found]:
        """By strategy."""
        found: dict[str, Found] = {}
        for plan in self.result.plans:
            found.setdefault(plan.candidate.strategy, plan)
        return found


def answer_to(question: Question, jobs: int | None = None, progress: Progress = lambda found, left: None) -> Answer:
    """Search with ``jobs`` processes, by default one a core. InputError, which says what limits, when there is no plan."""
    with workers(question.base, jobs) as pool:
        result = _searched(question, pool, question.top, question.proven, progress)
        if not result.plans:
            raise InputError(f"plan: {why_none(result, question)}")
        low, high = question.space.gpus
        front = {} if question.per_gpu else {result.plans[0].candidate: result.plans[0]}
        for most in (high, *question.front) if question.front and question.per_gpu else question.front:
            asked = replace(question, space=replace(question.space, gpus=(low, most), each=False), objective="time")
            fewer = _searched(asked, pool, 1, 1, progress)
            front |= {found.candidate: found for found in fewer.plans[:1]}
    plans = result.plans[: question.top]
    return Answer(question, result, tuple(plans), tuple(sorted(front.values(), key=lambda found: found.candidate.gpus)))


def _searched(question: Question, pool: Any, top: int, proven: int, progress: Progress) -> Search:
    return search(
        question.space, question.base, question.cluster, question.limits, question.score, pool, top=top, proven=proven, progress=progress,
    )  # fmt: skip


def document(answer: Answer) -> dict[str, Any]:
    """``plans``, ``best_of_each`` strategy and ``front``: rows of choices, as an experiment file has them, training and summary; how many
    candidates; the law.
    """
    question, best = answer.question, answer.plans[0]

    def row(found: Found) -> dict[str, Any]:
        why = "the best" if found is best else lost_by(found, best, question.training, question.per_gpu)
        summary = {name: value for name, value in found.row.items() if name not in _ROW_OF_A_POINT}
        bound = {"step_time_bound_s": found.bound_s, "lost_by": why}
        one = found.candidate
        sections = one.sections()
        sections["batch"]["sequence"] = question.sequence
        numbers = {"gpus": one.gpus, "micro_batches": one.micro_batches}
        return {**sections, **numbers, **question.bill(one, found.step_s), **bound, **summary}

    training = question.training
    critical = training.critical_batch if training.least_steps else None
    return {
        "plans": [row(found) for found in answer.plans],
        "best_of_each": [row(found) for found in answer.best_of_each.values()] if question.space.each else [],
        "front": [row(found) for found in answer.front] if question.front else [],
        "search": {**counts(answer.result), "objective": question.objective},
        "training": {"least_steps": training.least_steps, "least_sequences": training.least_sequences, "critical_batch": critical},
    }


def table(answer: Answer) -> pd.DataFrame:
    """A row a plan, best first; nested choices and figures have dots in their names, as ``parallel.data``.

    ``attrs``: the rest of :func:`document`.
    """
    import pandas as pd

    made = document(answer)
    frame = pd.json_normalize(made.pop("plans"))
    frame.attrs.update(made)
    return frame


def write(answer: Answer, folder: Path, picture: Write) -> list[Path]:
    """``plans.csv``, ``best.yaml`` (an experiment, for ``clustersim run``), ``pareto.png``, all or none; the paths."""
    frame = table(answer)
    question, best = answer.question, answer.plans[0].candidate
    experiment = dict(resolved(question.base, best.assignments()).data)
    text = yaml.safe_dump(experiment, sort_keys=False)
    return write_all(
        {
            folder / "plans.csv": lambda path: frame.to_csv(path, index=False),
            folder / "best.yaml": text_writer(text),
            folder / "pareto.png": picture,
        }
    )
