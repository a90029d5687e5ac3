"""A Dask scheduler with two workers, each a process of its own."""

import contextlib
import re
import subprocess
import sys


@contextlib.contextmanager
def dask_cluster():
    """The address of the scheduler, and the processes of the workers; all are ended at the end."""
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started = [scheduler]
    try:
        address = next(match[0] for line in scheduler.stderr if (match := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        started += [subprocess.Popen(worker, stderr=subprocess.DEVNULL) for _ in range(2)]
        yield address, started[1:]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
