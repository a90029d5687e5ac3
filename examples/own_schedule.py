"""A schedule of one's own, proven and timed against the catalogue: ``python examples/own_schedule.py``."""

from __future__ import annotations

from clustersim.schedule.actions import Action, Schedule
from clustersim.schedule.strategy import build_named
from clustersim.schedule.validator import faults
from clustersim.schedule_run import Times, run_alone
from clustersim.units import PS_PER_S


def last_in_first_out(p: int, m: int) -> Schedule:
    """GPipe with the micro-batches reversed in the backward."""
    rows = [[*(Action("F", r, i) for i in range(m)), *(Action("B", r, i) for i in reversed(range(m)))] for r in range(p)]
    return Schedule("last-in-first-out", m, tuple(range(p)), tuple(map(tuple, rows)))


def main() -> None:
    own = last_in_first_out(p=4, m=8)
    print(f"{own.name}: {len(faults(own))} faults")
    for schedule in (own, build_named("1f1b", 4, None, 8)):
        print(f"{schedule.name}: {run_alone(schedule, Times()).makespan_ps / PS_PER_S:g} s")


if __name__ == "__main__":
    main()
