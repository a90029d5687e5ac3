"""The yardstick: what a bare SimPy timeout costs, by 64 processes that do nothing else."""

from __future__ import annotations

import time

import simpy

PROCESSES, TIMEOUTS = 64, 3_000


def timeout_s() -> float:
    """CPU seconds of one timeout."""
    env = simpy.Environment()

    def process():
        for _ in range(TIMEOUTS):
            yield env.timeout(1)

    for _ in range(PROCESSES):
        env.process(process())
    begin = time.process_time()
    env.run()
    return (time.process_time() - begin) / (PROCESSES * TIMEOUTS)
