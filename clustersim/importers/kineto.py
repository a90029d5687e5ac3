"""PyTorch profiler traces (Kineto's Chrome JSON) as a trace of our own, of one rank or of many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustersim.document import clipped
from clustersim.errors import InputError
from clustersim.importers import kineto_kinds as kinds
from clustersim.importers.kineto_collectives import waits
from clustersim.importers.kineto_events import NEVER, FileEvents, read_events
from clustersim.importers.kineto_notes import (
    file_notes,
    missing_ranks,
    no_device_events,
    rank_notes,
)
from clustersim.importers.kineto_text import NotATrace
from clustersim.trace.trace import Trace

_COLUMNS = ("rank", "stream", "kind", "name", "arguments", "start_ps", "end_ps", "launch_ps", "correlation", "bytes", "peer")
_SPAN_NS = 100 * 86_400 * 10**9
_PATTERNS = ("[!.]*.json", "[!.]*.json.gz")  # no hidden ones, which a killed command may have left
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_ ]?([0-9]+)(?!.*(?:rank|worker)[-_ ]?[0-9])", re.I)


@dataclass(frozen=True)
class Imported:
    """A profiler's trace.

    ``trace``: zero is the start of the first device event of all ranks; ``dependencies``, ``links`` and ``memory`` are empty.
    ``steps``: rank, name, start_ps, end_ps of each ProfilerStep on the host; one may begin before zero. ``notes``: what was left
    out or assumed, a line each. ``launches`` has a row per op: launch_ps, the start of the host event that launched it
    (:data:`~clustersim.importers.kineto_events.NEVER` where the file does not hold it); ``wait_known`` says of each op whether its
    ``wait_ps`` could be measured. ``files``: the events as read, by rank.
    """

    trace: Trace
    steps: pd.DataFrame
    notes: tuple[str, ...]
    launches: pd.DataFrame
    wait_known: np.ndarray
    files: dict[int, FileEvents]
    shift_ns: dict[int, int]


def load_kineto(paths: str | Path | Sequence[str | Path]) -> Imported:
    """The trace of one file, a list of files, or a folder of ``.json`` and ``.json.gz`` files, one file a rank.

    A rank is ``distributedInfo.rank``, else what the file's name says (``rank3``, ``worker3``), else the place in the list, with a
    note. Clocks are taken as they are. InputError names the file that is no profiler trace, cut short, or without GPU events.
    """
    read, left_out = _read_all(_listed(paths))
    files, notes = _by_rank(read)
    notes = left_out + notes
    if not any(_occupying(one).any() for one in files.values()):
        raise InputError(no_device_events(list(files.values())))
    shift_ns = _shifts(files)
    ops, launches, arguments, code = _ops(files, shift_ns)
    ops["wait_ps"], wait_known, wait_notes = waits(ops, arguments, code, complete=not missing_ranks(files))
    ends = np.searchsorted(ops["rank"].to_numpy(), list(files), side="right")  # ranks ascend, in the files and in the ops
    by_name = {one.path.name: (one, ops[low:high]) for one, low, high in zip(files.values(), [0, *ends], ends, strict=False)}
    notes += file_notes(by_name) + rank_notes(files) + wait_notes
    return Imported(Trace(ops, *_no_tables()), _steps(files, shift_ns), tuple(notes), launches, wait_known, files, shift_ns)


def _read_all(paths: list[tuple[Path, bool]]) -> tuple[list[FileEvents], list[str]]:
    """The files read, and notes on those of a folder that are no profiler traces; InputError when none is one."""
    read, foreign = [], []
    for path, named in paths:
        try:
            read.append(read_events(path))
        except NotATrace as error:
            if named:
                raise
            foreign.append(error)
    if not read:
        raise foreign[0]
    return read, [f"{error}; left out" for error in foreign]


def _listed(paths: str | Path | Sequence[str | Path]) -> list[tuple[Path, bool]]:
    """The files meant, and whether each is named; in natural order of their names where they come from a folder."""
    given = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(one) for one in paths]
    found = []
    for path in given:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        inside = [one for pattern in _PATTERNS for one in path.glob(pattern)] if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: no profiler trace in this folder: files must end in .json or .json.gz")
        named = not path.is_dir()
        found += [(one, named) for one in sorted(inside, key=_by_numbers)]
    if not found:
        raise InputError("no profiler trace given: a file, several, or a folder")
    return found


def _by_rank(files: Iterable[FileEvents]) -> tuple[dict[int, FileEvents], list[str]]:
    ranks: dict[int, FileEvents] = {}
    notes, nameless = [], []
    for one in files:
        rank = _rank(one)
        if rank is None:
            nameless.append(one)
        elif rank in ranks:
            raise InputError(f"{one.path}: rank {rank} is that of {ranks[rank].path} too: one file a rank")
        else:
            ranks[rank] = one
    for one in nameless:
        rank = next(number for number in range(len(ranks) + 1) if number not in ranks)
        ranks[rank] = one
        said = _distributed(one)
        why = f"distributedInfo.rank is {clipped(repr(said['rank']))}, and no rank" if "rank" in said else "distributedInfo.rank is missing"
        notes.append(f"{one.path.name}: says no rank ({why}): taken for rank {rank}")
    return dict(sorted(ranks.items())), notes


def _rank(one: FileEvents) -> int | None:
    said = _distributed(one).get("rank")
    if type(said) is int and 0 <= said < 2**31:
        return said
    named = _RANK_IN_NAME.search(one.path.name)
    return int(named.group(1)) if named else None


def _distributed(one: FileEvents) -> dict[str, Any]:
    value = one.header.get("distributedInfo")
    return value if isinstance(value, dict) else {}


def _shifts(files: dict[int, FileEvents]) -> dict[int, int]:
    """What to add to each rank's times, so that the first device event of all starts at zero. Picoseconds in 64 bits reach 106 days."""
    rows = {rank: _occupying(one) for rank, one in files.items()}
    bases = {rank: _base_ns(files[rank]) for rank in files}
    starts = {rank: int(one.device["start_ns"][rows[rank]].min()) + bases[rank] for rank, one in files.items() if rows[rank].any()}
    ends = {rank: int(files[rank].device["end_ns"][rows[rank]].max()) + bases[rank] for rank in starts}
    first, last = min(starts, key=starts.__getitem__), max(ends, key=ends.__getitem__)
    if ends[last] - starts[first] > _SPAN_NS:
        raise InputError(f"{files[last].path}: its events end more than 100 days after those of {files[first].path} begin")
    return {rank: base - starts[first] for rank, base in bases.items()}


def _base_ns(one: FileEvents) -> int:
    base = one.header.get("baseTimeNanoseconds")
    return base if type(base) is int and 0 <= base < 4 * 10**18 else 0


def _occupying(one: FileEvents) -> np.ndarray:
    """Which device rows occupy a GPU: by their category, whatever stream they name."""
    return np.isin(one.device["category"], [code for code, name in enumerate(one.categories) if name in kinds.DEVICE])


def _ops(files: dict[int, FileEvents], shift_ns: dict[int, int]) -> tuple[pd.DataFrame, pd.DataFrame, list[kinds.Arguments], np.ndarray]:
    """The ops sorted by rank and start, their launches, the table of NCCL arguments, and each op's place in it."""
    names: dict[str, int] = {}
    streams: dict[str, int] = {}
    arguments: dict[kinds.Arguments, int] = {}
    parts = [_file_ops(rank, one, shift_ns[rank], names, streams, arguments) for rank, one in files.items()]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    known = list(arguments)
    labels = [kinds.group_label(one) for one in known]
    groups = list(dict.fromkeys(["", *labels]))
    group_of = np.array([groups.index(label) for label in labels])
    code = columns["arguments"]
    count = len(code)
    ops = pd.DataFrame(
        {
            "op": np.arange(count),
            "rank": columns["rank"].astype(np.int32),
            "stream": pd.Categorical.from_codes(columns["stream"], list(streams)),
            "kind": pd.Categorical.from_codes(columns["kind"], list(kinds.IMPORTED_KINDS)),
            "name": pd.Categorical.from_codes(columns["name"], list(names)),
            "stage": np.full(count, -1, dtype=np.int32),
            "layer": np.full(count, -1, dtype=np.int32),
            "micro_batch": np.full(count, -1, dtype=np.int32),
            "start_ps": columns["start_ps"],
            "end_ps": columns["end_ps"],
            "wait_ps": np.zeros(count, dtype=np.int64),
            "bytes": columns["bytes"],
            "flops": np.zeros(count, dtype=np.float64),
            "group": pd.Categorical.from_codes(group_of[code], groups),
            "peer": columns["peer"].astype(np.int32),
        }
    )
    launches = pd.DataFrame({"op": ops["op"], "launch_ps": columns["launch_ps"], "correlation": columns["correlation"]})
    return ops, launches, known, code


def _file_ops(rank: int, one: FileEvents, shift_ns: int, names: dict[str, int], streams: dict[Any, int],
              arguments: dict[kinds.Arguments, int]) -> dict[str, np.ndarray]:
    """One file's columns, with names, streams and arguments coded in the tables of all files."""
    rows = np.flatnonzero(_occupying(one))
    if not len(rows):
        return {name: np.zeros(0, dtype=np.int64) for name in _COLUMNS}
    rows = rows[np.lexsort((one.device["end_ns"][rows], one.device["start_ns"][rows]))]
    device = {name: column[rows] for name, column in one.device.items()}
    kind, payload, peer = _facts_of(one, device)
    stream_of = [streams.setdefault(label, len(streams)) for label in _stream_labels(one, np.unique(device["stream"]))]
    launch = device["launch_ns"]
    return {
        "rank": np.full(len(rows), rank),
        "stream": np.array(stream_of, dtype=np.int64)[device["stream"]],
        "kind": kind,
        "name": np.array([names.setdefault(name, len(names)) for name in one.names], dtype=np.int64)[device["name"]],
        "arguments": np.array([arguments.setdefault(own, len(arguments)) for own in one.arguments], dtype=np.int64)[device["arguments"]],
        "start_ps": (device["start_ns"] + shift_ns) * 1000,
        "end_ps": (device["end_ns"] + shift_ns) * 1000,
        "launch_ps": np.where(launch == NEVER, NEVER, (np.where(launch == NEVER, 0, launch) + shift_ns) * 1000),
        "correlation": device["correlation"],
        "bytes": np.where(kind < 2, device["bytes"], payload),
        "peer": peer,
    }


def _facts_of(one: FileEvents, device: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Kind, payload and peer of each op: once for every (category, name, arguments) that occurs."""
    shape = len(one.categories), len(one.names), len(one.arguments)
    keys, inverse = np.unique(np.ravel_multi_index([device[key] for key in ("category", "name", "arguments")], shape), return_inverse=True)
    places = zip(*(part.tolist() for part in np.unravel_index(keys, shape)), strict=True)
    facts = [_facts(one.categories[category], one.names[name], one.arguments[own]) for category, name, own in places]
    return tuple(np.array([fact[place] for fact in facts], dtype=np.int64)[inverse] for place in range(3))


def _facts(category: str, name: str, own: kinds.Arguments) -> tuple[int, int, int]:
    """The code of its kind, its payload in bytes, its peer or -1."""
    kind = kinds.kind(category, name, own)
    if kind not in kinds.TRANSFERS:
        return kinds.IMPORTED_KINDS.index(kind), 0, -1
    peer = {"send": own.target, "recv": own.source}.get(kind)
    return kinds.IMPORTED_KINDS.index(kind), kinds.payload_bytes(kind, own), peer if type(peer) is int and 0 <= peer < 2**31 else -1


def _stream_labels(one: FileEvents, used: np.ndarray) -> list[str]:
    """``7``, or ``1:7`` where the file's ops run on several devices."""
    several = len({one.streams[place][0] for place in used.tolist()}) > 1
    return [f"{device}:{stream}" if several and device else stream for device, stream, _ in one.streams]


def _steps(files: dict[int, FileEvents], shift_ns: dict[int, int]) -> pd.DataFrame:
    rows = [
        (rank, name, (start + shift_ns[rank]) * 1000, (end + shift_ns[rank]) * 1000)
        for rank, one in files.items()
        for name, on_gpu, start, end in sorted(one.steps, key=lambda step: step[2])
        if not on_gpu
    ]
    table = pd.DataFrame(rows, columns=["rank", "name", "start_ps", "end_ps"])
    return table.astype({"rank": np.int32, "name": str, "start_ps": np.int64, "end_ps": np.int64})


def _no_tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    number, text = np.zeros(0, dtype=np.int64), pd.Categorical([])
    dependencies = pd.DataFrame({"op": number, "on": number})
    links = pd.DataFrame({"link": text, "start_ps": number, "end_ps": number, "rate_bytes_s": number.astype(float)})
    return dependencies, links, pd.DataFrame({"rank": number.astype(np.int32), "time_ps": number, "bytes": number, "what": text})


def _by_numbers(path: Path) -> list[str | int]:
    """rank2 before rank10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", path.name))]
