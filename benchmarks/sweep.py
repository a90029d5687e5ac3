"""What a point of a sweep costs beside `simulate` alone, and how busy the cores are: ``python benchmarks/sweep.py``.

The job has 8 ranks; only the bandwidth of its network varies. Seconds are those of the CPU, the least of several rounds in turn, so that
other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clustersim
from clustersim.sweeps import pool
from clustersim.sweeps.points import Assignments, Base, solve
from clustersim.sweeps.run import Plan, Sweep, run, workers
from clustersim.sweeps.settings import read_plan

ROUNDS, A_ROUND = 7, 20
JOB = """
model: {layers: 16, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {data: 2, pipeline: 4}
strategy: {name: mpp, partition: optimizer}
batch: {global: 16, micro: 1, sequence: 512}
"""


def cpu_s() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def timed(what: Callable[[], object]) -> float:
    """CPU seconds."""
    begin = cpu_s()
    what()
    return cpu_s() - begin


def plan(path: Path, points: int) -> Plan:
    return read_plan(path, [f"network.bandwidth=1..100Gb/s:log{points}"], knees=False).plan


def per_point(path: Path) -> tuple[float, float]:
    """CPU seconds of a point: loaded and simulated alone, and by a process of a sweep, its start and end included."""
    few = plan(path, A_ROUND)
    values = [value.text for value in few.fields[0].values]

    def alone() -> None:
        for value in values:
            clustersim.simulate(clustersim.load(path, [f"network.bandwidth={value}"]))

    def swept() -> None:
        with pool.Processes(few.base, 1) as one:
            list(one.solve([{"network.bandwidth": value} for value in values]))

    rounds = [[timed(what) / A_ROUND for what in (alone, swept)] for _ in range(ROUNDS)]
    return min(one for one, _ in rounds), min(other for _, other in rounds)


def clocked(base: Base, assignments: Assignments) -> dict[str, Any]:
    """A point with the time that a process had it in hand, which tells how busy the processes are on a machine that others use too."""
    begin = time.perf_counter()
    row = solve(base, assignments)
    return {**row, "point_s": time.perf_counter() - begin}


def swept_whole(what: Plan, cores: int, folder: Path) -> tuple[Sweep, float, float]:
    """The sweep, CPU and wall seconds."""
    cpu, wall = cpu_s(), time.perf_counter()
    done = run(what, workers(what.base, cores), folder)
    return done, cpu_s() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help="of the sweep on all cores, default %(default)s")
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    pool.solve = clocked  # what the processes call, which are forked off later
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(JOB, encoding="utf-8")
        alone, swept = per_point(path)
        many = plan(path, options.points)
        done, busy, wall = swept_whole(many, cores, Path(folder))
        _, again, _ = swept_whole(many, cores, Path(folder))
    print(f"loaded and simulated alone        {1000 * alone:8.2f} ms of CPU a point")
    print(f"by a process of a sweep           {1000 * swept:8.2f} ms, {swept / alone - 1:+.1%}")
    in_hand = sum(row["point_s"] for row in done.rows) / (wall * cores)
    print(f"{options.points:,} points on {cores} cores        {1000 * busy / options.points:8.2f} ms, {busy / (wall * cores):.0%} CPU")
    print(f"processes with a point in hand    {in_hand:8.1%} of the time")
    print(f"the same again, nothing missing   {1000 * again / options.points:8.2f} ms, {again / busy:.1%}: start, keys, reading")


if __name__ == "__main__":
    main()
