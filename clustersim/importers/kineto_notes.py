"""What an import of profiler traces has to say: what was left out, assumed, or is not in the files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from clustersim.importers.kineto_events import FileEvents
from clustersim.importers.kineto_kinds import DEVICE, TRANSFERS, unclassified

_SYNCHRONISATION = ("cuda_sync", "Stream Sync", "Context Sync", "Event Sync")
_HOST = {
    "cpu_op", "user_annotation", "gpu_user_annotation", "cuda_runtime", "cuda_driver", "python_function", "overhead", "Trace", "fwdbwd",
    "ac2g", "cpu_instant_event", "Operator", "Runtime", "async_cpu_to_gpu", "external_correlation", "hip_runtime", "xpu_runtime",
    "xpu_driver",
}  # fmt: skip
_SHOWN = 3


def no_device_events(files: Sequence[FileEvents]) -> str:
    """One line: why there is nothing to import."""
    one = files[0]
    found = ", ".join(f"{count} {name or 'without category'}" for name, count in one.found.most_common(_SHOWN))
    lost = ", ".join(f"{count} {reason}" for reason, count in one.dropped.items())
    what = f"its events are: {found}" if found else "it has no complete events (ph X)"
    line = f"{one.path}: no GPU events (category kernel, gpu_memcpy or gpu_memset): {what}{f'; left out: {lost}' if lost else ''}"
    return line + (f", and so for {len(files) - 1} more files" if len(files) > 1 else "")


def file_notes(files: dict[str, tuple[FileEvents, pd.DataFrame]]) -> list[str]:
    """Lines that the reader of the figures should know, by file; what is true of several files in one line."""
    by_text: dict[str, list[str]] = {}
    for name, (one, ops) in files.items():
        for text in _about(one, ops) if len(ops) else ["no GPU events"]:
            by_text.setdefault(text, []).append(name)
    return [f"{names[0]}{f' and {len(names) - 1} more files' if len(names) > 1 else ''}: {text}" for text, names in by_text.items()]


def _about(one: FileEvents, ops: pd.DataFrame) -> list[str]:
    notes = [f"{count} GPU events {reason}{'' if '(kept)' in reason else ': left out'}" for reason, count in one.dropped.items()]
    notes += _category_notes(one)
    overlapping = _overlaps(ops)
    if overlapping:
        notes.append(f"{overlapping} slices begin before another of their stream ends: merged where time is counted")
    kernels = ops[ops["kind"] == "kernel"]["name"]
    suspects = {text for text in kernels.cat.categories[np.unique(kernels.cat.codes)] if unclassified(text)}
    if suspects:
        count = int(kernels.isin(suspects).sum())
        notes.append(f"{count} kernels named like a collective of no known library count as compute: {_some(suspects)}")
    talks = ops[ops["kind"].isin(TRANSFERS)]
    unknown = int((talks["kind"] == "communication").sum())
    if unknown:
        notes.append(f"{unknown} communication kernels say not which collective they are")
    if len(talks) and not (talks["bytes"] > 0).any():
        notes.append("no NCCL arguments with sizes (In msg nelems, dtype): no bytes, no bandwidth")
    devices = {one.streams[place][0] for place in np.unique(one.device["stream"]).tolist()} - {""}
    if len(devices) > 1:
        notes.append(f"{len(devices)} devices in one file: one rank, streams named device:stream")
    if not (ops["kind"] == "kernel").any():
        notes.append("no compute kernels")
    return notes


def _category_notes(one: FileEvents) -> list[str]:
    notes = []
    waiting = sum(count for category, count in one.found.items() if category in _SYNCHRONISATION)
    if waiting:
        notes.append(f"{waiting} synchronisation events occupy no device")
    strange = {category: count for category, count in one.found.items() if category not in DEVICE and category not in _HOST}
    strange = {category: count for category, count in strange.items() if category not in _SYNCHRONISATION}
    if strange:
        listed = ", ".join(f"{count} {category or 'without category'}" for category, count in strange.items())
        notes.append(f"categories of unknown meaning left out: {listed}")
    return notes


def rank_notes(files: dict[int, FileEvents]) -> list[str]:
    """Ranks of the job whose files are not given."""
    missing, world = missing_ranks(files), _world(files)
    if not missing:
        return []
    first = itertools.islice((rank for rank in range(world) if rank not in files), _SHOWN)
    listed = ", ".join(map(str, first)) + (f" and {missing - _SHOWN} more" if missing > _SHOWN else "")
    return [f"{missing} of {world} ranks are not given ({listed}): no waits in their collectives"]


def missing_ranks(files: dict[int, FileEvents]) -> int:
    """How many ranks of the job, as the files say its size, have no file here."""
    world = _world(files)
    return world - sum(rank < world for rank in files)


def _world(files: dict[int, FileEvents]) -> int:
    """The most ranks that a file says the job has; 0 where none does."""
    said = [one.header.get("distributedInfo") for one in files.values()]
    sizes = [info.get("world_size") for info in said if isinstance(info, dict)]
    return max((size for size in sizes if type(size) is int and size > 0), default=0)


def _some(texts: set[str]) -> str:
    shown = sorted(texts)
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _overlaps(ops: pd.DataFrame) -> int:
    """Slices that begin before an earlier one of their stream has ended."""
    stream, start, end = ops["stream"].cat.codes.to_numpy(), ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy()
    count = 0
    for one in np.unique(stream):
        here = np.flatnonzero(stream == one)
        order = here[np.argsort(start[here], kind="stable")]
        count += int((start[order][1:] < np.maximum.accumulate(end[order])[:-1]).sum())
    return count
