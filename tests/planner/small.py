"""A small space whose every candidate can be simulated."""

from collections.abc import Iterator

from clustersim.planner import bounds
from clustersim.planner.facts import facts_of
from clustersim.planner.memory_bound import Memory, memory_bound_bytes, pass_key
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
    """For each candidate the lower bounds over its row of ``rows``: of the time as (work, pipeline, traffic), and of the memory.

    Its compute is that of its profile, which was simulated; a ring of context ranks adds to it.
    """
    profiles, ways, memory = {}, bounds.ways_of(asked.cluster), Memory(asked.base)
    for one, row in rows.items():
        key = pass_key(one)
        if key not in profiles:
            profiles[key] = bounds.measure(asked.base, one)
        profile, sizes, shares = profiles[key], memory.sizes(one), memory.shares(one)
        assert 0.98 < bounds.compute_s_of(memory.one, one) / profile.compute_total_s <= 1 + 1e-9
        stages = bounds.stages_of(profile, one.strategy, one.pipeline, one.chunks)
        facts = facts_of(one, asked.space.layers)
        times = (
            bounds.work_bound_s(profile, one),
            bounds.step_bound_s(profile, stages, one),
            bounds.traffic_bound_s(sizes, shares, one, ways, facts),
        )
        needs = max(memory_bound_bytes(sizes, shares, one, known) for known in (None, facts))
        yield one, [time / row["step_time_s"] for time in times], needs / row["peak_memory_bytes"]
