"""Our own exports read back: the Chrome file of a run, and its Kineto files, one a rank. Every picosecond comes back.

What an export does not have is not there afterwards either: Kineto files have no memory and no links.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from clustersim.analysis.streams import is_profiled
from clustersim.errors import InputError
from clustersim.exporters.chrome import MEMORY
from clustersim.exporters.json_text import MARK
from clustersim.exporters.selection import KNOWN, ORDER
from clustersim.importers.kineto_events import NO_TIME, nanoseconds
from clustersim.importers.kineto_kinds import IMPORTED_KINDS
from clustersim.importers.kineto_text import Header, open_unpacked, pieces
from clustersim.program.kinds import KINDS
from clustersim.trace.files import OPTIONAL, RunData
from clustersim.trace.trace import Trace

_FIRST = re.compile(rb"\s*\{\s*" + MARK.rstrip(": ").encode() + rb"\s*:\s*")  # other programs may have put blanks in
_BEGIN_BYTES, _HEAD_BYTES, _LARGEST_HEAD_BYTES = 200, 2**20, 2**28
_HOST = ("user_annotation", "cuda_runtime")
_COLUMNS = ("op", "kind", "stage", "layer", "micro_batch", "wait_ps", KNOWN, "bytes", "flops", "group", "peer")
_INT32, _INT64 = ("rank", "stage", "layer", "micro_batch", "peer"), ("op", "start_ps", "end_ps", "wait_ps", "bytes")


class _Args(msgspec.Struct, gc=False):
    op: int | None = None
    kind: str = ""
    stage: int = -1
    layer: int = -1
    micro_batch: int = -1
    wait_ps: int = 0
    wait_known: bool = True
    bytes: int = 0
    flops: float = 0.0
    group: str = ""
    peer: int = -1
    on: tuple[int, ...] = ()
    name: str | None = None
    stream: Any = None
    bytes_s: float | None = None


class _Event(msgspec.Struct, gc=False):
    ph: str
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    rest_ps: tuple[int, ...] = ()
    name: str = ""
    cat: str = ""
    args: _Args | None = None


_DECODER = msgspec.json.Decoder(list[_Event])


def is_export(path: Path) -> bool:
    """Whether a file is one of our exports, or a folder has one: by how it begins.

    >>> is_export(Path("no such file"))
    False
    """
    files = _files(path) if path.is_dir() else [path]
    return any(_begins(one) for one in files)


def read_exports(paths: Sequence[Path]) -> RunData:
    """The run of one export: its file, its files, or the folder of them. InputError names the file that is damaged or of another."""
    files = [one for path in paths for one in (_files(path) if path.is_dir() else [path])]
    foreign = [one for one in files if not _begins(one)]
    if foreign:
        raise InputError(f"{foreign[0]}: not an export of clustersim, as {next(one for one in files if one not in foreign)} is")
    reader = _Reader()
    for path in files:
        reader.read(path)
    about = [_about(path) for path in files]
    if any(one != about[0] for one in about):
        raise InputError(f"{files[0]}, {files[1]}: exports of different runs, or of one cut differently; give those of one")
    trace = reader.trace(files[0])
    tables = {name: _table(files[0], name, about[0][name]) for name in OPTIONAL if name in about[0]}
    if "ranks" in tables:  # the file of a rank may be read alone
        tables["ranks"] = tables["ranks"][tables["ranks"]["simulated_as"].isin(trace.ops["rank"])].reset_index(drop=True)
    return RunData(trace, **tables, summary=about[0]["summary"], manifest=about[0]["manifest"])


def _about(path: Path) -> dict[str, Any]:
    """What the head of a file says of the run: ``manifest``, ``summary``, and the tables that it has, by column."""
    try:
        found = _head(path)
        if not all(isinstance(found[name], dict) for name in ("manifest", "summary")):
            raise ValueError("manifest and summary are no objects")
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: the head of the export is damaged: {' '.join(str(error).split())[:120]}") from None
    return found


def _head(path: Path) -> Any:
    """The value of the first key, which comes long before the end of the file."""
    with open_unpacked(path) as file:
        text, size = file.read(_HEAD_BYTES), _HEAD_BYTES
        first = _FIRST.match(text)
        if first is None:
            raise ValueError("it begins as no export does")
        begin = first.end()
        while True:
            try:
                return json.JSONDecoder().raw_decode(text[begin:].decode("utf-8", errors="ignore"))[0]
            except json.JSONDecodeError:
                more = file.read(size) if size < _LARGEST_HEAD_BYTES else b""
                if not more:
                    raise
                text, size = text + more, 2 * size


def _table(path: Path, name: str, columns: Any) -> pd.DataFrame:
    whole = isinstance(columns, dict) and all(isinstance(column, list) for column in columns.values())
    if not whole or len(set(map(len, columns.values()))) != 1:
        raise InputError(f"{path}: {name} in the head of the export: expected columns of one length")
    missing = [column for column in OPTIONAL[name] if column not in columns]
    if missing:
        raise InputError(f"{path}: {name} in the head of the export: columns missing: {', '.join(missing)}")
    return pd.DataFrame(columns)


def _files(folder: Path) -> list[Path]:
    """Hidden ones, which a killed command may have left, are none."""
    return sorted(one for one in folder.iterdir() if one.name.endswith((".json", ".json.gz")) and not one.name.startswith("."))


def _begins(path: Path) -> bool:
    try:
        with open_unpacked(path) as file:
            return _FIRST.match(file.read(_BEGIN_BYTES)) is not None
    except (OSError, EOFError, zlib.error):
        return False  # the reader that takes it says what is wrong


def _decode(text: bytes) -> list[_Event]:
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


class _Reader:
    """What grows while files are read."""

    def __init__(self) -> None:
        self.ops: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, "rank", "thread", "name", "start_ps", "end_ps")}
        self.threads: dict[tuple[int, int], str] = {}
        self.edges: tuple[list[int | None], list[int]] = [], []
        self.memory: dict[str, list[Any]] = {name: [] for name in ("rank", "time_ps", "level", "what")}
        self.links: dict[str, list[Any]] = {name: [] for name in ("link", "time_ps", "rate")}

    def read(self, path: Path) -> None:
        for events in pieces(path, _decode, Header()):
            slices = [event for event in events if event.ph == "X" and event.cat not in _HOST]
            self._keep_ops(path, slices)
            self._keep_counters(path, [(event, event.args) for event in events if event.ph == "C" and event.args is not None])
            for event in events:
                if event.ph == "M" and event.name == "thread_name" and event.args is not None:
                    self.threads[event.pid, event.tid] = str(event.args.stream)

    def _keep_ops(self, path: Path, events: list[_Event]) -> None:
        for event in events:
            if event.args is None or event.args.op is None or not event.args.kind:
                raise InputError(f"{path}: event {event.name!r} of rank {event.pid} has no op or kind in its args: not as exported")
        args = [event.args for event in events if event.args is not None]
        for name in _COLUMNS:
            self.ops[name] += [getattr(own, name) for own in args]
        self.ops["rank"] += [event.pid for event in events]
        self.ops["thread"] += [event.tid for event in events]
        self.ops["name"] += [event.name if own.name is None else own.name for event, own in zip(events, args, strict=True)]
        start_ns, span_ns = (_ns(path, [getattr(event, name) for event in events]) for name in ("ts", "dur"))
        rests = [event.rest_ps if len(event.rest_ps) == 2 else (0, 0) for event in events]
        self.ops["start_ps"] += [start * 1000 + rest for start, (rest, _) in zip(start_ns, rests, strict=True)]
        self.ops["end_ps"] += [(start + span) * 1000 + rest for start, span, (_, rest) in zip(start_ns, span_ns, rests, strict=True)]
        for own in args:
            self.edges[0].extend([own.op] * len(own.on))
            self.edges[1].extend(own.on)

    def _keep_counters(self, path: Path, counters: list[tuple[_Event, _Args]]) -> None:
        links = [(event, own) for event, own in counters if own.bytes_s is not None]
        memory = [(event, own) for event, own in counters if own.bytes_s is None and event.name.startswith(MEMORY)]
        for table, some in ((self.links, links), (self.memory, memory)):
            times = zip(_ns(path, [event.ts for event, _ in some]), some, strict=True)
            table["time_ps"] += [time * 1000 + (event.rest_ps[0] if event.rest_ps else 0) for time, (event, _) in times]
        self.links["link"] += [sys.intern(event.name) for event, _ in links]  # few names, many events
        self.links["rate"] += [own.bytes_s for _, own in links]
        self.memory["rank"] += [event.pid for event, _ in memory]
        self.memory["what"] += [sys.intern(event.name.removeprefix(MEMORY)) for event, _ in memory]
        self.memory["level"] += [own.bytes for _, own in memory]

    def trace(self, path: Path) -> Trace:
        if not self.ops["op"]:
            raise InputError(f"{path}: the export has no ops")
        twice, count = Counter(self.ops["op"]).most_common(1)[0]
        if count > 1:
            raise InputError(f"{path}: op {twice} is there {count} times: files of one export, each once")
        nameless = next((place for place in set(zip(self.ops["rank"], self.ops["thread"], strict=True)) if place not in self.threads), None)
        if nameless is not None:
            raise InputError(f"{path}: thread {nameless[1]} of rank {nameless[0]} has no thread_name with the stream of its ops")
        try:
            return Trace(self._ops(), self._dependencies(), self._links(), self._memory())
        except OverflowError:
            raise InputError(f"{path}: a number is larger than a trace can hold") from None

    def _ops(self) -> pd.DataFrame:
        given: dict[str, Any] = {name: values for name, values in self.ops.items() if name != "thread"}
        streams = [self.threads[place] for place in zip(self.ops["rank"], self.ops["thread"], strict=True)]
        profiled = is_profiled(tuple(set(given["kind"])))
        # Streams and kinds in the order that tables of results have: streams as they first ran in a profiler's trace, else by name.
        first = dict.fromkeys(one for _, one in sorted(zip(self.ops["op"], streams, strict=True))) if profiled else sorted(set(streams))
        given["stream"] = pd.Categorical(streams, list(first))
        known = IMPORTED_KINDS if profiled else KINDS
        given["kind"] = pd.Categorical(given["kind"], [*known, *sorted(set(given["kind"]) - set(known))])
        for name in ("name", "group"):
            given[name] = pd.Categorical(given[name])
        for names, narrowed in ((_INT32, _int32), (_INT64, _int64)):
            for name in names:
                given[name] = narrowed(given[name])
        order = [*ORDER, *([] if all(given[KNOWN]) else [KNOWN])]
        return pd.DataFrame(given)[order].sort_values("op", kind="stable", ignore_index=True)

    def _dependencies(self) -> pd.DataFrame:
        """Those among the ops that are here: the file of a rank may be read alone."""
        op, on = (np.array(side, dtype=np.int64) for side in self.edges)
        here = np.isin(on, np.array(self.ops["op"], dtype=np.int64))
        table = pd.DataFrame({"op": op[here], "on": on[here]})
        return table.sort_values("op", kind="stable", ignore_index=True)

    def _links(self) -> pd.DataFrame:
        """From each rate to the next of its link, where it is not 0."""
        table = pd.DataFrame(self.links).astype({"time_ps": np.int64, "rate": np.float64})
        until = table.groupby("link", sort=False)["time_ps"].shift(-1, fill_value=0)
        found = pd.DataFrame(
            {"link": pd.Categorical(table["link"]), "start_ps": table["time_ps"], "end_ps": until, "rate_bytes_s": table["rate"]}
        )
        return found[(found["rate_bytes_s"] != 0) & (until > table["time_ps"])].reset_index(drop=True)

    def _memory(self) -> pd.DataFrame:
        """From each level the change."""
        table = pd.DataFrame(self.memory).astype({"time_ps": np.int64, "level": np.int64}).assign(rank=_int32(self.memory["rank"]))
        before = table.groupby(["rank", "what"], sort=False)["level"].shift(fill_value=0)
        found = pd.DataFrame({"rank": table["rank"], "time_ps": table["time_ps"], "bytes": table["level"] - before})
        return found.assign(what=pd.Categorical(table["what"]))


def _int64(values: list[int]) -> np.ndarray:
    """OverflowError for one that is larger."""
    return np.array(values, dtype=np.int64)


def _int32(values: list[int]) -> np.ndarray:
    """OverflowError for one that is larger, which numpy 1 would wrap around."""
    whole = _int64(values)
    if (whole != whole.astype(np.int32)).any():
        raise OverflowError
    return whole.astype(np.int32)


def _ns(path: Path, times: list[float]) -> list[int]:
    found = nanoseconds(times)
    if (found == NO_TIME).any():
        raise InputError(f"{path}: a ts or dur is no time")
    return found.tolist()
