"""Whole commands as users run them, from start to files: seconds and the peak of memory."""

import os
import subprocess
import sys
import time

import pytest

from benchmarks.jobs import EIGHT, MANY_OPS, X160, gpt3, ring

CASES = {
    "8 GPUs": (EIGHT, []),
    "8 GPUs, --no-plot": (EIGHT, ["--no-plot"]),
    "1,024 GPUs, --no-fold": (ring(1024), ["--no-plot", "--no-fold"]),
    "4,096 GPUs, --no-fold": (ring(4096), ["--no-plot", "--no-fold"]),
    "4,096 GPUs": (ring(4096), ["--no-plot"]),
    "X_160 on 38,640 GPUs": (X160, []),
    "GPT-3 on 102,400 GPUs": (gpt3(102_400), ["--no-plot"]),
    "10^7 ops, --no-fold": (MANY_OPS, ["--no-plot", "--no-fold"]),
}


def run_s(text, options, folder) -> tuple[float, int]:
    """Seconds of ``clustersim run``, and the most memory it held, in bytes."""
    (folder / "job.yaml").write_text(text)
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "clustersim", "run", "job.yaml", "-o", "out", *options], cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, errors.decode()
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


@pytest.mark.parametrize("case", CASES)
def test_command(benchmark, case, tmp_path):
    text, options = CASES[case]
    peaks = []
    benchmark.pedantic(lambda: peaks.append(run_s(text, options, tmp_path)[1]), rounds=3 if text is EIGHT else 1)
    benchmark.extra_info["peak_memory_bytes"] = max(peaks)
