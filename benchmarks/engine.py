"""What one op costs, in bare SimPy timeouts measured in the same run: ``python benchmarks/engine.py``.

The yardstick is 64 processes that do nothing but yield timeouts. A ratio of 4 means that the engine simulates an op in the
time SimPy needs for four of them.
"""

from __future__ import annotations

import time
from pathlib import Path

import simpy

from clustersim import document, experiment
from clustersim.engine.simulate import simulate
from clustersim.program.build import build_program

PROCESSES, TIMEOUTS = 64, 5_000

CASES = {
    "compute and pipeline, 64 stages, no links": """
model: {layers: 64, hidden: 1024, heads: 16}
cluster: ideal
parallel: {pipeline: 64}
strategy: standard
batch: {global: 512, micro: 1, sequence: 512}
cost: {forward: 1 s, backward: 3 s}
""",
    "pipeline over links, 64 stages": """
model: {layers: 64, hidden: 1024, heads: 16}
cluster: dgx-a100
parallel: {pipeline: 64}
strategy: standard
batch: {global: 512, micro: 1, sequence: 512}
""",
    "pipeline, data and tensor parallel, links shared, unfolded": """
model: {layers: 32, hidden: 1024, heads: 16}
cluster: pcie-ethernet
parallel: {pipeline: 8, data: 4, tensor: 2}
strategy: {name: mpp, partition: parameters}
batch: {global: 64, micro: 1, sequence: 512}
""",
}


def timeouts_per_s() -> float:
    """Bare timeouts that SimPy handles in a second."""
    env = simpy.Environment()

    def process():
        for _ in range(TIMEOUTS):
            yield env.timeout(1)

    for _ in range(PROCESSES):
        env.process(process())
    begin = time.perf_counter()
    env.run()
    return PROCESSES * TIMEOUTS / (time.perf_counter() - begin)


def main() -> None:
    yardstick = timeouts_per_s()
    print(f"bare timeouts per second: {yardstick:,.0f}")
    print(f"{'case':60} {'ops':>9} {'build s':>8} {'run s':>8} {'timeouts an op':>15}")
    for name, text in CASES.items():
        parsed = experiment.parse(document.loads(text, name), Path("."))
        begin = time.perf_counter()
        program = build_program(parsed, fold="unfolded" not in name)
        built = time.perf_counter()
        simulate(program)
        ran = time.perf_counter()
        cost = (ran - built) * yardstick / program.ops
        print(f"{name:60} {program.ops:9,} {built - begin:8.2f} {ran - built:8.2f} {cost:15.2f}")


if __name__ == "__main__":
    main()
