"""What a point of a sweep costs beside `simulate` alone, and how busy the cores are: ``python benchmarks/sweep.py``.

The job has 8 ranks; only the bandwidth of its network varies. Seconds are those of the CPU, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import clustersim
from clustersim.sweeps.run import Plan, run, workers
from clustersim.sweeps.settings import read_plan

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


def timed(what) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = cpu_s(), time.perf_counter()
    what()
    return cpu_s() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(JOB, encoding="utf-8")

        def plan(points: int) -> Plan:
            return read_plan(path, [f"network.bandwidth=1..100Gb/s:log{points}"], knees=False).plan

        clustersim.simulate(clustersim.load(path))  # what is imported and looked up once
        for name in ("few", "many"):
            Path(folder, name).mkdir()
        few, many = plan(max(20, options.points // 10)), plan(options.points)
        values = few.fields[0].values
        alone, _ = timed(lambda: [clustersim.simulate(clustersim.load(path, [f"network.bandwidth={value.text}"])) for value in values])
        swept, _ = timed(lambda: run(few, workers(few.base, 1), Path(folder) / "few"))
        kept, _ = timed(lambda: run(few, workers(few.base, 1), Path(folder) / "few"))
        busy, wall = timed(lambda: run(many, workers(many.base, cores), Path(folder) / "many"))
    simulated = len(values) + 1  # that at infinite bandwidth too
    print(f"simulate alone, load included     {1000 * alone / len(values):8.2f} ms of CPU a point")
    print(f"in a sweep, one process           {1000 * swept / simulated:8.2f} ms a point, {swept / simulated / (alone / len(values)) - 1:+.1%}")
    print(f"started, read and written alone   {1000 * kept / simulated:8.2f} ms a point, {kept / swept:.1%}: nothing was missing")
    print(f"{options.points:,} points on {cores} cores: {wall:.1f} s, {busy / (wall * cores):.0%} CPU, {1000 * busy / (options.points + 1):.2f} ms a point")


if __name__ == "__main__":
    main()
