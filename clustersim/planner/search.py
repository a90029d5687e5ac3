"""Branch and bound: candidates are simulated in the order of their lower bounds, until no bound is better than what was found.

The first ``proven`` plans are therefore those that the simulation of every candidate would put first; the others are the best of those
simulated.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from clustersim.cluster.spec import Cluster
from clustersim.errors import InputError
from clustersim.planner import bounds
from clustersim.planner.facts import Facts, facts_of
from clustersim.planner.memory_bound import Memory, pass_key, pipeline_key
from clustersim.planner.space import Candidate, Space, roots, savers, spenders
from clustersim.sweeps.points import Assignments, Base

ROUND = 8
"""Candidates simulated between two looks at the bounds; the same for any number of processes, so that the counts are too."""

LOOKS = 3
"""Bounds of a candidate, each dearer than the one before, between that of its compute and its simulation."""

Score = Callable[[Candidate, float], float]
"""What is to be small, from the step time in seconds; it grows with it."""


class Workers(Protocol):
    """Where candidates are simulated (:mod:`clustersim.sweeps.pool`)."""

    def solve(self, points: Sequence[Assignments]) -> Iterator[tuple[int, dict[str, Any]]]: ...


@dataclass(frozen=True)
class Limits:
    """What a plan may take: ``memory_bytes`` of a GPU, CUDA and NCCL with them, and by name the most of what ``figures`` says of a
    candidate and its step time.
    """

    memory_bytes: int
    most: Mapping[str, float] = field(default_factory=dict)
    figures: Callable[[Candidate, float], Mapping[str, float | None]] = lambda candidate, step_s: {}

    def broken(self, candidate: Candidate, step_s: float) -> dict[str, float]:
        """The figures beyond their limit."""
        if not self.most:
            return {}
        figures = self.figures(candidate, step_s)
        return {name: value for name, most in self.most.items() if (value := figures[name]) is not None and value > most}


@dataclass(frozen=True)
class Found:
    """A simulated candidate: its lower bound and its row, the summary with a status and a reason."""

    candidate: Candidate
    bound_s: float
    row: Mapping[str, Any]

    @property
    def step_s(self) -> float:
        return self.row["step_time_s"]


@dataclass
class Search:
    """``plans``: those that fit, best first; ``candidates``: GPUs and the bound in seconds of each that was queued.

    ``too_large`` is the least memory that one that did not fit would need, ``refused`` counts the reasons for which others cannot be,
    ``beyond`` has the least of each limited figure among those that broke its limit.
    """

    plans: list[Found] = field(default_factory=list)
    simulated: int = 0
    unfit: int = 0
    candidates: list[tuple[int, float]] = field(default_factory=list)
    too_large: tuple[float, Candidate] | None = None
    refused: Counter[str] = field(default_factory=Counter)
    beyond: dict[str, float] = field(default_factory=dict)


Progress = Callable[[Search, int], None]
"""What is known, and how many candidates may still be better."""


def search(
    space: Space, base: Base, cluster: Cluster, limits: Limits, score: Score, pool: Workers, *, top: int = 10, proven: int = 1,
    progress: Progress = lambda found, left: None,
) -> Search:  # fmt: skip
    """At least ``top`` plans of the space by ``score``, ``proven`` of them the best of all; where it says so, the best of ``each`` too."""
    return _Searching(space, base, cluster, limits, score, max(top, proven), proven).run(pool, progress)


class _Searching:
    """A queue of candidates by the bounds known so far: of compute, of a micro-batch, of the pipeline, with the schedule at hand."""

    def __init__(self, space: Space, base: Base, cluster: Cluster, limits: Limits, score: Score, top: int, proven: int) -> None:
        self.space, self.base, self.limits, self.score, self.top, self.proven = space, base, limits, score, top, proven
        self.result = Search()
        self.scores: list[tuple[float, int, int, Found]] = []
        self.computes: dict[tuple[Any, ...], float] = {}
        self.profiles: dict[tuple[Any, ...], bounds.Profile | None] = {}
        self.stages: dict[tuple[Any, ...], bounds.Stages | None] = {}
        self.memory = Memory(base)
        self.ways = bounds.ways_of(cluster)
        self.queue: list[tuple[float, int, int, int, float, Candidate]] = []
        self.numbers = count()
        self.unfit: set[Candidate] = set()

    def run(self, pool: Workers, progress: Progress) -> Search:
        for candidate in roots(self.space):
            self.add(candidate, 0.0)
        while ready := self.next_round():
            progress(self.result, len(self.queue) + len(ready))
            rows = dict(pool.solve([candidate.assignments() for candidate, _ in ready]))
            for number, (candidate, bound_s) in enumerate(ready):
                self.take(Found(candidate, bound_s, rows[number]))
            self.scores.sort()
            self.result.plans = [found for *_, found in self.scores]
        return self.result

    def add(self, candidate: Candidate, least_s: float) -> None:
        """Queue a candidate that may fit with the bound of its compute, no lower than that of what it saves memory against."""
        if self.may_fit(candidate, least_s, None):
            bound_s = max(least_s, candidate.micro_batches * self.compute_s(candidate) / candidate.pipeline)
            self.result.candidates.append((candidate.gpus, bound_s))
            self.push(candidate, bound_s, 0)

    def may_fit(self, candidate: Candidate, bound_s: float, facts: Facts | None) -> bool:
        """Whether the least that it can need is there; what saves memory takes its place where not."""
        needs_bytes = self.memory.needs_bytes(candidate, facts)
        if needs_bytes > self.limits.memory_bytes:
            self.save(candidate, bound_s, needs_bytes)
            return False
        return True

    def push(self, candidate: Candidate, bound_s: float, looks: int) -> None:
        heapq.heappush(self.queue, (self.score(candidate, bound_s), candidate.gpus, next(self.numbers), looks, bound_s, candidate))

    def next_round(self) -> list[tuple[Candidate, float]]:
        """The candidates with the lowest bounds that may be among the best, after three ever dearer looks at each."""
        ready: list[tuple[Candidate, float]] = []
        while self.queue and len(ready) < ROUND:
            score, _, _, looks, bound_s, candidate = heapq.heappop(self.queue)
            if not self.may_be_among_best(candidate.strategy, score):
                if not self.space.each:
                    self.queue.clear()
            elif looks == LOOKS:
                ready.append((candidate, bound_s))
            else:
                self.look(candidate, bound_s, looks)
        return ready

    def may_be_among_best(self, strategy: str, score: float) -> bool:
        if len(self.scores) < self.top or score < self.scores[self.proven - 1][0]:
            return True
        return self.space.each and all(score < own for own, _, _, found in self.scores if found.candidate.strategy == strategy)

    def look(self, candidate: Candidate, bound_s: float, looks: int) -> None:
        """At a simulated micro-batch; at the pipeline and its traffic; at both with what its schedule says of them, and of its memory."""
        profile = self.profile(candidate)
        if profile is None:
            return
        if looks == 0:
            self.push(candidate, max(bound_s, bounds.work_bound_s(profile, candidate)), 1)
            return
        stages, facts = self.stages_of(candidate), None
        if looks == 2:
            try:
                facts = facts_of(candidate, self.space.layers)
            except ValueError as error:
                self.result.refused[f"{candidate.strategy}: {error}"] += 1
                return
        pipeline_s = bounds.step_bound_s(profile, stages, candidate)
        traffic_s = bounds.traffic_bound_s(self.memory.sizes(candidate), self.memory.shares(candidate), candidate, self.ways, facts)
        bound_s = max(bound_s, pipeline_s, traffic_s)
        if broken := self.limits.broken(candidate, bound_s):
            self.note_beyond(broken)
        elif facts is None or self.may_fit(candidate, bound_s, facts):
            self.push(candidate, bound_s, looks + 1)

    def take(self, found: Found) -> None:
        """The verdict of a simulation."""
        self.result.simulated += 1
        row, candidate = found.row, found.candidate
        if "step_time_s" not in row:
            self.result.refused[row["reason"]] += 1
        elif (needs_bytes := row["peak_memory_bytes"] + row["reserve_bytes"]) > self.limits.memory_bytes:
            self.result.unfit += 1
            self.save(candidate, found.bound_s, needs_bytes)
        elif broken := self.limits.broken(candidate, found.step_s):
            self.note_beyond(broken)
        else:
            self.scores.append((self.score(candidate, found.step_s), candidate.gpus, next(self.numbers), found))

    def save(self, candidate: Candidate, bound_s: float, needs_bytes: float) -> None:
        """It does not fit. Where nothing that spends more memory does, what saves more is a candidate."""
        self.unfit.add(candidate)
        if self.result.too_large is None or needs_bytes < self.result.too_large[0]:
            self.result.too_large = needs_bytes, candidate
        for saver in savers(candidate, self.space):
            if all(spender in self.unfit for spender in spenders(saver, self.space)):
                self.add(saver, bound_s)

    def note_beyond(self, broken: Mapping[str, float]) -> None:
        for name, value in broken.items():
            self.result.beyond[name] = min(value, self.result.beyond.get(name, value))

    def compute_s(self, candidate: Candidate) -> float:
        key = pass_key(candidate)
        if key not in self.computes:
            self.computes[key] = bounds.compute_s_of(self.memory.one, candidate)
        return self.computes[key]

    def profile(self, candidate: Candidate) -> bounds.Profile | None:
        key = pass_key(candidate)
        if key not in self.profiles:
            try:
                self.profiles[key] = bounds.measure(self.base, candidate)
            except InputError as error:
                self.profiles[key] = None
                self.result.refused[str(error)] += 1
        return self.profiles[key]

    def stages_of(self, candidate: Candidate) -> bounds.Stages | None:
        key = pipeline_key(candidate)
        if key not in self.stages:
            profile = self.profile(candidate)
            assert profile is not None  # as in look
            self.stages[key] = bounds.stages_of(profile, candidate.strategy, candidate.pipeline, candidate.chunks)
        return self.stages[key]
