"""A trace under its name: what commands that draw or analyse are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.trace.files import RunData


@dataclass(frozen=True)
class Run:
    """``data`` of a run folder or an export of one, or the trace of profiler files alone.

    ``stands_for``: by simulated rank, ranks of the job. ``notes``: on what was left out of profiler files, None for a run folder.
    """

    name: str
    data: RunData
    stands_for: Mapping[int, int]
    notes: tuple[str, ...] | None

    @property
    def title(self) -> str:
        """What ran, on one line."""
        text = str(self.data.manifest.get("title") or self.name)
        return "".join(c if c.isprintable() else " " for c in text)

    @property
    def gpu_memory_bytes(self) -> int | None:
        size = self.data.summary.get("gpu_memory_bytes")
        return size if type(size) is int and 0 < size < 2**60 else None

    @property
    def ranks(self) -> int:
        """Ranks that the trace is about, those that others stand for counted."""
        return sum(self.stands_for.get(rank, 1) for rank in self.data.trace.ops["rank"].unique().tolist())
