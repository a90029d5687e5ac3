"""Processes that simulate points: each takes one point after another over its own pipe."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from clustersim.sweeps.points import Assignments, Base, failed, solve

# A fork has all modules loaded and the base in its memory. Where that is not safe to do, a new interpreter reads them.
_CONTEXT = multiprocessing.get_context("fork") if sys.platform == "linux" else multiprocessing.get_context("spawn")


class Processes:
    """``jobs`` processes on this machine; use as a context.

    A process that dies (the system may end one that takes too much memory) fails its point and is replaced. Processes end by
    themselves, after the point in hand, when the one that started them is gone.
    """

    def __init__(self, base: Base, jobs: int) -> None:
        self._base, self._jobs = base, jobs
        self._workers: list[_Worker] = []

    def __enter__(self) -> Processes:
        self._workers = [_Worker(self._base) for _ in range(self._jobs)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def solve(self, points: Sequence[Assignments]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of each point and its row, in the order in which they are finished."""
        waiting = deque(enumerate(points))
        busy: dict[Any, tuple[int, int]] = {}  # by pipe the place of the worker and the number of the point

        def hand_out(place: int) -> None:
            if waiting:
                number, assignments = waiting.popleft()
                worker = self._workers[place]
                busy[worker.pipe] = (place, number)
                worker.give(dict(assignments))

        for place in range(len(self._workers)):
            hand_out(place)
        while busy:
            for ready in wait(list(busy)):
                place, number = busy.pop(ready)
                try:
                    row = self._workers[place].pipe.recv()
                except (EOFError, OSError):
                    row = failed(self._workers[place].last_words())
                    self._workers[place] = _Worker(self._base)
                hand_out(place)
                yield number, row


class _Worker:
    def __init__(self, base: Base) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, self.pipe, base), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, assignments: dict[str, str]) -> None:
        with suppress(OSError):  # it is dead: reading from the pipe will say so
            self.pipe.send(assignments)

    def last_words(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        end = f"was ended by signal {-code}, as a system does that is out of memory" if code < 0 else f"ended with status {code}"
        return f"the process that simulated it {end}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, others: Connection, base: Base) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    others.close()  # or the end of the parent would not be seen
    try:
        while True:
            pipe.send(solve(base, pipe.recv()))
    except (EOFError, OSError):
        pass
