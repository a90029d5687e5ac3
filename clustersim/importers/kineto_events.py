"""The events of one profiler file as columns. Times are read to the nanosecond, the profiler's resolution, from their decimal text."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from clustersim.importers.kineto_kinds import DEVICE, Arguments
from clustersim.importers.kineto_text import BLOCK, Header, pieces

NEVER = np.iinfo(np.int64).max  # the launch of an op whose launch the file does not hold
NO_TIME = np.iinfo(np.int64).min
_EXACT = 2.0**43  # a float of fewer microseconds keeps a nanosecond
_FARTHEST = 9 * 10**15  # microseconds: nothing beyond is a time


class _Args(msgspec.Struct, gc=False):
    stream: Any = None
    device: Any = None
    correlation: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    sent: Any = msgspec.field(default=None, name="In msg nelems")
    received: Any = msgspec.field(default=None, name="Out msg nelems")
    dtype: Any = None
    size: Any = msgspec.field(default=None, name="Group size")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    description: Any = msgspec.field(default=None, name="Process Group Description")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    source: Any = msgspec.field(default=None, name="Src Rank")
    target: Any = msgspec.field(default=None, name="Dst Rank")


class _Event(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    ts: Any = None
    dur: Any = None
    tid: Any = None
    args: _Args | None = None


_DECODE = msgspec.json.Decoder(list[_Event])
_DECODE_EXACT = msgspec.json.Decoder(list[_Event], float_hook=Decimal)


@dataclass(frozen=True)
class FileEvents:
    """One file's events.

    ``device``: an array per column of the events that occupy a GPU or carry an integer ``args.stream`` (what
    :mod:`clustersim.analysis.hta` takes for such): ``category, name, stream, arguments`` (places in the tables here), ``start_ns,
    end_ns, bytes``, ``given`` (``args.stream`` is an integer), ``correlation`` (-1: none), ``launch_ns`` (the earliest start of a
    host event of the same correlation, :data:`NEVER` where there is none). ``steps``: name, whether on the GPU's side, start_ns,
    end_ns. ``found`` counts complete events by category, ``dropped`` what was left out by reason. ``fractional``: some start is
    written with a decimal point. ``first_host_ns``: the earliest event without correlation.
    """

    path: Path
    header: dict[str, Any]
    device: dict[str, np.ndarray]
    categories: tuple[str, ...]
    names: tuple[str, ...]
    streams: tuple[tuple[str, str], ...]
    arguments: tuple[Arguments, ...]
    steps: tuple[tuple[str, bool, int, int], ...]
    found: Counter
    dropped: Counter
    fractional: bool
    first_host_ns: int


def read_events(path: Path, block: int = BLOCK) -> FileEvents:
    """All that is needed of a file; memory grows with its device events and launches, not with its text.

    InputError for what is no profiler trace, truncated, or no JSON.
    """
    reader, header = _Reader(), Header()
    for events in pieces(path, reader.decode, header, block):
        reader.add(events)
    return reader.result(path, header.values)


def nanoseconds(values: list) -> np.ndarray:
    """Microseconds as read, in integer nanoseconds; :data:`NO_TIME` for what is no time. Halves go to the even one.

    >>> nanoseconds([1, 0.0015, None, Decimal("1711964646123456.789")]).tolist()[:2] + nanoseconds([Decimal("1711964646123456.789")]).tolist()
    [1000, 2, 1711964646123456789]
    """
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        try:
            given = np.array(values, dtype=np.int64 if kinds == {int} else np.float64)
        except OverflowError:
            return np.array([_one(value) for value in values], dtype=np.int64)
        good = np.abs(given) < _FARTHEST  # no NaN is
        if kinds <= {int}:
            return np.where(good, np.where(good, given, 0).astype(np.int64) * 1000, NO_TIME)
        given = np.where(good, given, 0.0)
        whole = np.floor(given)
        return np.where(good, whole.astype(np.int64) * 1000 + np.rint((given - whole) * 1000).astype(np.int64), NO_TIME)
    return np.array([_one(value) for value in values], dtype=np.int64)


def _one(value: Any) -> int:
    if type(value) not in (int, float, Decimal) or not abs(value) < _FARTHEST:
        return NO_TIME
    return int((Decimal(value) * 1000).to_integral_value())


class _Reader:
    """What grows while a file is read."""

    def __init__(self) -> None:
        self.tables: dict[str, dict] = {"category": {}, "name": {}, "stream": {}, "arguments": {Arguments(): 0}}
        self.parts: list[dict[str, np.ndarray]] = []
        self.hosts: list[tuple[np.ndarray, np.ndarray]] = []
        self.found: Counter = Counter()
        self.dropped: Counter = Counter()
        self.steps: list[tuple[str, bool, int, int]] = []
        self.fractional = False
        self.first_host_ns = NEVER

    def decode(self, text: bytes) -> list:
        try:
            events = _DECODE.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            return self._lenient(text, error)
        starts = [event.ts for event in events]
        if float in set(map(type, starts)) and any(type(start) is float and not -_EXACT < start < _EXACT for start in starts):
            return _DECODE_EXACT.decode(text)
        return events

    def _lenient(self, text: bytes, error: Exception) -> list:
        """Names with control characters or broken UTF-8, NaN for a number, arguments that are no object: what writers get wrong."""
        try:
            values = json.loads(text.decode(errors="replace"), strict=False, parse_float=Decimal)
        except (ValueError, RecursionError):
            raise ValueError(str(error)) from None
        return [_event(one) for one in values if isinstance(one, dict)]

    def add(self, events: list) -> None:
        events = [event for event in events if event.ph == "X"]
        self.found.update([event.cat or "" for event in events])
        device = [event for event in events if event.cat in DEVICE or _given(event.args)]
        hosts = [event for event in events if not (event.cat in DEVICE or event.cat is None or event.cat == "Trace" or _given(event.args))]
        self._keep_device(device)
        self._keep_hosts(hosts)
        steps = [event for event in events if event.name is not None and event.name.startswith("ProfilerStep")]
        if steps:
            self._keep_steps(steps)

    def _times(self, events: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start, end, and which events have both."""
        starts = [event.ts for event in events]
        self.fractional = self.fractional or not {float, Decimal}.isdisjoint(map(type, starts))
        start, span = nanoseconds(starts), nanoseconds([event.dur for event in events])
        good = (start != NO_TIME) & (span != NO_TIME)
        return start, np.where(good, start + np.where(good, span, 0), NO_TIME), good

    def _keep_device(self, events: list) -> None:
        if not events:
            return
        start, end, good = self._times(events)
        for event in (events[place] for place in np.flatnonzero(~good)):
            self.dropped["without a time in ts" if nanoseconds([event.ts])[0] == NO_TIME else "without a time in dur"] += 1
        self.dropped["of negative duration"] += int((end < start)[good].sum())
        good &= end >= start
        args = [event.args or _NO_ARGS for event in events]
        codes = {name: self.tables[name] for name in self.tables}
        columns = {
            "category": [_code(codes["category"], event.cat or "") for event in events],
            "name": [_code(codes["name"], event.name or "") for event in events],
            "stream": [_code(codes["stream"], _stream(event, own)) for event, own in zip(events, args, strict=True)],
            "arguments": [0 if own.collective is None and own.size is None else _code(codes["arguments"], _arguments(own)) for own in args],
            "bytes": [own.bytes if type(own.bytes) is int and 0 <= own.bytes < 2**63 else 0 for own in args],
            "given": [_given(own) for own in args],
            "correlation": [_whole(own.correlation) for own in args],
        }
        self.dropped["without a name (kept)"] += sum(event.name is None for event in events)
        arrays = {name: np.array(column, dtype=np.int64)[good] for name, column in columns.items()}
        self.parts.append(arrays | {"start_ns": start[good], "end_ns": end[good]})

    def _keep_hosts(self, events: list) -> None:
        start, _, good = self._times(events)
        correlation = np.array([-1 if event.args is None else _whole(event.args.correlation) for event in events], dtype=np.int64)
        self.first_host_ns = min(self.first_host_ns, int(start[good & (correlation == -1)].min(initial=NEVER)))
        good &= correlation != -1
        self.hosts.append((correlation[good], start[good]))

    def _keep_steps(self, events: list) -> None:
        start, end, good = self._times(events)
        for event, begin, finish, whole in zip(events, start.tolist(), end.tolist(), good.tolist(), strict=True):
            if whole and finish >= begin:
                self.steps.append((event.name, str(event.cat).startswith("gpu"), begin, finish))

    def result(self, path: Path, header: dict[str, Any]) -> FileEvents:
        columns = ("category", "name", "stream", "arguments", "bytes", "given", "correlation", "start_ns", "end_ns")
        device = {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in self.parts)]) for name in columns}
        correlation, start = (np.concatenate([np.zeros(0, np.int64), *(part[side] for part in self.hosts)]) for side in (0, 1))
        device["launch_ns"] = _launches(device["correlation"], correlation, start)
        tables = (tuple(self.tables[name]) for name in ("category", "name", "stream", "arguments"))
        return FileEvents(path, header, device, *tables, tuple(self.steps), self.found, +self.dropped, self.fractional, self.first_host_ns)


def _launches(wanted: np.ndarray, correlation: np.ndarray, start: np.ndarray) -> np.ndarray:
    """For each device event the earliest host event of its correlation.

    >>> _launches(np.array([7, 8, -1]), np.array([7, 7, -1]), np.array([30, 20, 5])).tolist() == [20, NEVER, NEVER]
    True
    """
    order = np.lexsort((start, correlation))
    known, first = np.unique(correlation[order], return_index=True)
    if not len(known):
        return np.full(len(wanted), NEVER)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[place] == wanted) & (wanted != -1), start[order][first][place], NEVER)


def _given(args: _Args | None) -> bool:
    return args is not None and type(args.stream) is int and args.stream != -1


def _code(table: dict, key: Any) -> int:
    return table.setdefault(key, len(table))


def _whole(value: Any) -> int:
    return value if type(value) is int and -(2**63) <= value < 2**63 else -1


def _stream(event: _Event, args: _Args) -> tuple[str, str]:
    stream = args.stream if args.stream is not None else event.tid
    return "" if args.device is None else str(args.device), "" if stream is None else str(stream)


def _arguments(args: _Args) -> Arguments:
    values = (getattr(args, name) for name in Arguments._fields)
    return Arguments(*(value if value is None or type(value) in (int, str) else str(value) for value in values))


_NO_ARGS = _Args()


def _event(value: dict) -> _Event:
    args = value.get("args")
    names = zip(_Args.__struct_fields__, _Args.__struct_encode_fields__, strict=True)
    own = _Args(**{name: args.get(key) for name, key in names}) if isinstance(args, dict) else None
    texts = {name: value[name] for name in ("ph", "cat", "name") if isinstance(value.get(name), str)}
    return _Event(**texts, ts=value.get("ts"), dur=value.get("dur"), tid=value.get("tid"), args=own)
