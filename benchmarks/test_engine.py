"""What an op costs the engine, in bare SimPy timeouts: the least of several rounds of both, taken in turn."""

import gc
import time

import pytest

from benchmarks.jobs import COMPUTE, CONTENDED, PARTITIONED, PIPELINE, TENSOR, parsed
from benchmarks.yardstick import timeout_s
from clustersim.engine.simulate import simulate
from clustersim.program.build import build_program

ROUNDS = 5
CASES = {"compute": COMPUTE, "pipeline": PIPELINE, "contended": CONTENDED, "partitioned": PARTITIONED, "tensor over PCIe": TENSOR}


@pytest.mark.parametrize("case", CASES)
def test_op(benchmark, case):
    program = build_program(parsed(CASES[case]), fold=False)
    yardstick, cost = [], []

    def run():
        yardstick.append(timeout_s())
        gc.collect()
        begin = time.process_time()
        simulate(program)
        cost.append(time.process_time() - begin)

    benchmark.pedantic(run, rounds=ROUNDS)
    op_s = min(cost) / program.ops
    benchmark.extra_info |= {"ops": program.ops, "ops_per_s": round(1 / op_s), "timeouts_per_op": round(op_s / min(yardstick), 2)}
