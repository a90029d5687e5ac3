"""The cost of a run against the number of GPUs, every one simulated and folded."""

import pytest

from benchmarks.jobs import gpt3, parsed, ring
from clustersim.simulation import simulate

CASES = [
    *(("ring, every GPU", ring(gpus), gpus, False) for gpus in (64, 256, 1024, 4096)),
    *(("ring, folded", ring(gpus), gpus, True) for gpus in (64, 256, 1024, 4096, 16384)),
    *(("GPT-3, folded", gpt3(gpus), gpus, True) for gpus in (1024, 6400, 25_600, 102_400)),
]


@pytest.mark.parametrize(("job", "text", "gpus", "fold"), CASES, ids=[f"{job} {gpus}" for job, _, gpus, _ in CASES])
def test_simulate(benchmark, job, text, gpus, fold):
    experiment = parsed(text)
    run = benchmark.pedantic(lambda: simulate(experiment, fold=fold), rounds=1)
    benchmark.extra_info |= {"job": job, "gpus": gpus, "simulated_ranks": run.summary["simulated_ranks"]}
