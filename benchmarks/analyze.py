"""Events per second and memory of importing and analysing a profiler trace: ``python benchmarks/analyze.py [events ...]``.

Generated files of 100,000 and 1,000,000 events, laid out as PyTorch's profiler writes them, beside ``json.load`` of the same file; and
HolisticTraceAnalysis (HTA) for the same figures, where a Python that has it is named: ``HTA_PYTHON=/path/to/python``. Each
measurement is a process of its own; HTA's import is not counted.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CPU_OP = """  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 100,
    "ts": %d.%03d, "dur": 4.250,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d,
      "Input Dims": [[1024, 4096], [4096, 1024], []], "Input type": ["float", "float", ""]
    }
  }"""
LAUNCH = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100,
    "ts": %d.%03d, "dur": 2.125,
    "args": {
      "External id": %d, "cbid": 211, "correlation": %d
    }
  }"""
KERNEL = """  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d,
    "ts": %d.%03d, "dur": 7.500,
    "args": {
      "External id": %d, "queued": 0, "device": 0, "context": 1, "stream": %d, "correlation": %d, "registers per thread": 96,
      "shared memory": 41760, "blocks per SM": 0.1, "warps per SM": 2, "grid": [8, 1, 1], "block": [640, 1, 1],
      "est. achieved occupancy %%": 3
    }
  }"""
FLOW = """  {
    "ph": "%s", "id": %d, "pid": 100, "tid": 100, "ts": %d.%03d,
    "cat": "ac2g", "name": "ac2g"%s
  }"""
STEP = '  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": 100, "tid": 100, "ts": %d, "dur": %d, "args": {}}'
GEMM, NCCL = "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
STEPS = 4

CASES = {
    "json.load": """
import gzip, json
json.load(gzip.open(path))
""",
    "clustersim: load": """
from clustersim.importers.kineto import load_kineto
begin = clock()
load_kineto(path)
""",
    "clustersim: load and figures": """
from clustersim.analysis.hta import exact_times
from clustersim.importers.kineto import load_kineto
begin = clock()
exact_times(load_kineto(path))
""",
    "HTA: load and figures": """
import logging; logging.disable(logging.CRITICAL)
import os
from hta.trace_analysis import TraceAnalysis
begin = clock()
analysis = TraceAnalysis(trace_dir=os.path.dirname(path))
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
""",
}
FRAME = """
import resource, sys, time
path = sys.argv[1]
clock = lambda: (time.perf_counter(), time.process_time())
begin = clock()
{body}
end = clock()
print("measured", end[0] - begin[0], end[1] - begin[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write_trace(path: Path, events: int) -> None:
    """A file of that many events: per kernel a CPU op, a launch, two flow events and the kernel, every tenth a collective."""
    kernels = (events - STEPS) // 5
    with gzip.open(path, "wt", compresslevel=6) as file:
        file.write('{\n  "schemaVersion": 1,\n  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},\n  "traceEvents": [\n')
        length = kernels * 8 // STEPS + 1
        file.write(",\n".join(STEP % (step, 1000 + step * length, length) for step in range(STEPS)))
        for k in range(kernels):
            at, fraction, talks = 1000 + 8 * k, k % 1000, k % 10 == 0
            stream = 20 if talks else 7
            rows = (
                CPU_OP % (at, fraction, k, k),
                LAUNCH % (at + 1, fraction, k, k + 1),
                FLOW % ("s", k + 1, at + 1, fraction, ""),
                KERNEL % (NCCL if talks else GEMM, stream, at + 20, fraction, k, stream, k + 1),
                FLOW % ("f", k + 1, at + 20, fraction, ', "bp": "e"'),
            )
            file.write(",\n" + ",\n".join(rows))
        file.write('\n  ],\n  "traceName": "generated"\n}\n')


def measure(python: str, body: str, path: Path) -> tuple[float, float, float] | str:
    """Seconds, seconds of processor time and MiB, or why not."""
    try:
        run = subprocess.run([python, "-c", FRAME.format(body=body), str(path)], capture_output=True, text=True)
    except OSError as error:
        return f"{python}: {error.strerror}"
    found = [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("measured")]
    if not found:
        return (run.stderr.strip().splitlines() or ["no answer"])[-1]
    return float(found[0][0]), float(found[0][1]), int(found[0][2]) / 1024


def main() -> None:
    sizes = [int(one) for one in sys.argv[1:]] or [100_000, 1_000_000]
    hta_python = os.environ.get("HTA_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        for events in sizes:
            inside = Path(folder) / str(events)
            inside.mkdir()
            path = inside / "rank0.pt.trace.json.gz"
            write_trace(path, events)
            report(path, events, hta_python)


def report(path: Path, events: int, hta_python: str) -> None:
    with gzip.open(path) as file:
        size = file.seek(0, os.SEEK_END)
    print(f"{events:,} events, {size / 1e6:.0f} MB of text, {path.stat().st_size / 1e6:.1f} MB packed")
    for name, body in CASES.items():
        got = measure(hta_python if name.startswith("HTA") else sys.executable, body, path)
        if isinstance(got, str):
            print(f"  {name:32} skipped: {got}")
        else:
            print(f"  {name:32} {got[0]:8.2f} s  {got[1]:8.2f} s CPU  {events / got[0]:12,.0f} events/s  {got[2]:8.0f} MiB")


if __name__ == "__main__":
    main()
