"""The same points on an existing Dask cluster (extra ``dask``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.document import clipped
from clustersim.errors import InputError
from clustersim.sweeps.points import Assignments, Base, failed, solve

_PATIENCE_S = 10


class DaskWorkers:
    """The workers behind a scheduler's ``address``, each with clustersim installed and the experiment's files at the same place.

    Use as a context, as :class:`clustersim.sweeps.pool.Processes`; InputError when dask is not installed or nobody answers.
    """

    def __init__(self, base: Base, address: str) -> None:
        self._base, self._address = base, address

    def __enter__(self) -> DaskWorkers:
        try:
            from distributed import Client
        except ImportError:
            raise InputError("--dask: dask is not installed; `pip install 'clustersim[dask]'` does that") from None
        try:
            self._client = Client(self._address, timeout=_PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:120]
            example = "expected for example tcp://10.0.0.1:8786"
            raise InputError(f"--dask {clipped(self._address)}: no scheduler answers: {reason}; {example}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()  # gives up what is not finished

    def solve(self, points: Sequence[Assignments]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of each point and its row, in the order in which they are finished."""
        from distributed import as_completed

        futures = [self._client.submit(solve, self._base, dict(point), pure=False) for point in points]
        number_of = {future.key: number for number, future in enumerate(futures)}
        for future in as_completed(futures, loop=self._client.loop):
            error = None if future.status == "finished" else future.exception()
            row = future.result() if error is None else failed(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            yield number_of[future.key], row
