"""A small space whose every candidate can be simulated."""

from collections.abc import Iterator

from clustersim.planner import bounds
from clustersim.planner.question import read_question
from clustersim.planner.space import Candidate, Space, roots, savers
from clustersim.sweeps.points import solve

MODEL = {"layers": 4, "hidden": 4096, "heads": 32, "vocab": 1000}


def question(memory: str | None = "10 GB", **options):
    settings = {
        "gpus": 4,
        "batch": 8,
        "batch_slack_percent": 0,
        "sequence": 2048,
        "micro_batch": (1, 2),
        "tokens": 1e6,
        "top": 5,
        **options,
    }
    return read_question(MODEL, "dgx-a100", limits=[] if memory is None else [f"memory={memory}"], **settings)


def everything(space: Space) -> Iterator[Candidate]:
    """All candidates with all that saves memory, needed or not."""
    seen = set()
    waiting = list(roots(space))
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += savers(one, space)
            yield one


class Here:
    """Simulates in this process, and remembers."""

    def __init__(self, base):
        self.base, self.rows = base, {}

    def row(self, candidate: Candidate):
        return self.of(candidate.assignments())

    def of(self, assignments):
        key = tuple(assignments.items())
        if key not in self.rows:
            self.rows[key] = solve(self.base, assignments)
        return self.rows[key]

    def solve(self, points):
        return enumerate(map(self.of, points))


def bounds_to_rows(asked, rows):
    """For each candidate the lower bounds over its row of ``rows``: of the time as (work, pipeline, traffic), and of the memory."""
    profiles, ways = {}, bounds.ways_of(asked.cluster)
    for one, row in rows.items():
        key = bounds.profile_key(one)
        if key not in profiles:
            profiles[key] = bounds.measure(asked.base, one)
        profile = profiles[key]
        stages = bounds.stages_of(profile, one.strategy, one.pipeline, one.chunks)
        facts = bounds.facts_of(one, asked.space.layers)
        times = (
            bounds.work_bound_s(profile, one),
            bounds.step_bound_s(profile, stages, one),
            bounds.traffic_bound_s(profile, stages, one, ways, facts),
        )
        needs = max(bounds.memory_bound_bytes(profile, stages, one, known) for known in (None, facts))
        yield one, [time / row["step_time_s"] for time in times], needs / row["peak_memory_bytes"]
