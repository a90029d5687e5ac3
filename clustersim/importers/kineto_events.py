"""The events of one profiler file as columns. Times are read to the nanosecond, the profiler's resolution, from their decimal text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from clustersim.importers.kineto_kinds import DEVICE, Arguments
from clustersim.importers.kineto_text import BLOCK, NO_JSON, Header, lenient, pieces

NEVER = np.iinfo(np.int64).max  # the launch of an op whose launch the file does not hold
NO_TIME = np.iinfo(np.int64).min
_EXACT = 2.0**43  # a float of fewer microseconds keeps a nanosecond
_FARTHEST = 9 * 10**15  # microseconds: nothing beyond is a time


class _Args(msgspec.Struct, gc=False):
    """In the order in which the profiler writes them, which is the fastest to decode."""

    device: int | str | None = None
    stream: int | str | None = None
    correlation: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    sent: Any = msgspec.field(default=None, name="In msg nelems")
    received: Any = msgspec.field(default=None, name="Out msg nelems")
    size: Any = msgspec.field(default=None, name="Group size")
    dtype: Any = None
    group: Any = msgspec.field(default=None, name="Process Group Name")
    description: Any = msgspec.field(default=None, name="Process Group Description")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    source: Any = msgspec.field(default=None, name="Src Rank")
    target: Any = msgspec.field(default=None, name="Dst Rank")


class _Event(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    tid: int | str | None = None
    ts: Any = None
    dur: Any = None
    args: _Args | None = None


_DECODE = msgspec.json.Decoder(list[_Event])
_DECODE_EXACT = msgspec.json.Decoder(list[_Event], float_hook=Decimal)


@dataclass(frozen=True)
class FileEvents:
    """One file's events.

    ``device``: an array per column of the events that occupy a GPU or carry an integer ``args.stream`` (what
    :mod:`clustersim.analysis.hta` takes for such): ``category, name, stream, arguments`` (places in the tables here; a stream is its
    device, ``args.stream`` or ``tid``, and whether ``args.stream`` is an integer), ``start_ns, end_ns, bytes, correlation`` (-1:
    none), ``launch_ns`` (the earliest start of a host event of the same correlation, :data:`NEVER` where there is none). ``steps``:
    name, whether on the GPU's side, start_ns, end_ns. ``found`` counts complete events by category, ``dropped`` what was left out by
    reason. ``fractional``: some start has a decimal point. ``first_host_ns``: the earliest host event without correlation.
    """

    path: Path
    header: dict[str, Any]
    device: dict[str, np.ndarray]
    categories: tuple[str, ...]
    names: tuple[str, ...]
    streams: tuple[tuple[str, str, bool], ...]
    arguments: tuple[Arguments, ...]
    steps: tuple[tuple[str, bool, int, int], ...]
    found: Counter[str]
    dropped: Counter[str]
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


def nanoseconds(values: list[Any]) -> np.ndarray:
    """Microseconds as read, in integer nanoseconds; :data:`NO_TIME` for what is no time. Halves go to the even one.

    >>> nanoseconds([1, 0.0015]).tolist(), nanoseconds([Decimal("1711964646123456.789")]).tolist()
    ([1000, 2], [1711964646123456789])
    >>> nanoseconds([None, 1]).tolist() == [NO_TIME, 1000]
    True
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
        self.tables: dict[str, dict[Any, int]] = {"category": {}, "name": {}, "stream": {}, "arguments": {Arguments(): 0}}
        self.parts: list[dict[str, np.ndarray]] = []
        self.hosts: list[tuple[np.ndarray, np.ndarray]] = []
        self.found: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.steps: list[tuple[str, bool, int, int]] = []
        self.fractional = False
        self.first_host_ns = NEVER

    def decode(self, text: bytes) -> list[Any]:
        try:
            events = _DECODE.decode(text)
        except NO_JSON:
            return self._lenient(text)
        starts = [event.ts for event in events]
        return _DECODE_EXACT.decode(text) if _loses_digits(starts) else events

    def _lenient(self, text: bytes) -> list[Any]:
        """What :func:`lenient` reads, and arguments that are no object."""
        values = lenient(text, parse_float=Decimal)
        return [_event(one) for one in values if isinstance(one, dict)]

    def add(self, events: list[Any]) -> None:
        events = [event for event in events if event.ph == "X"]
        self.found.update([event.cat or "" for event in events])
        device, hosts = [], []
        for event in events:
            category, args = event.cat, event.args
            if category in DEVICE or (args is not None and type(args.stream) is int and args.stream != -1):
                device.append(event)
            elif category is not None and category != "Trace" and event.dur is not None:
                hosts.append(event)
        self._keep_device(device)
        self._keep_hosts(hosts)
        annotations = hosts + [event for event in device if event.cat not in DEVICE]
        steps = [event for event in annotations if event.name is not None and event.name.startswith("ProfilerStep")]
        if steps:
            self._keep_steps(steps)

    def _starts(self, events: list[Any]) -> np.ndarray:
        starts = [event.ts for event in events]
        self.fractional = self.fractional or not {float, Decimal}.isdisjoint(map(type, starts))
        return nanoseconds(starts)

    def _times(self, events: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start, end, and which events have both."""
        start, span = self._starts(events), nanoseconds([event.dur for event in events])
        good = (start != NO_TIME) & (span != NO_TIME)
        return start, np.where(good, start + np.where(good, span, 0), NO_TIME), good

    def _keep_device(self, events: list[Any]) -> None:
        if not events:
            return
        start, end, good = self._times(events)
        for event in (events[place] for place in np.flatnonzero(~good)):
            self.dropped["without a time in ts" if nanoseconds([event.ts])[0] == NO_TIME else "without a time in dur"] += 1
        self.dropped["of negative duration"] += int((end < start)[good].sum())
        self.dropped["without a name (kept)"] += sum([event.name is None for event in events])
        good &= end >= start
        args = [event.args or _NO_ARGS for event in events]
        tables = self.tables
        streams = [(own.device, own.stream, event.tid) for event, own in zip(events, args, strict=True)]
        columns = {
            "category": _codes(tables["category"], [event.cat or "" for event in events]),
            "name": _codes(tables["name"], [event.name or "" for event in events]),
            "stream": _codes(tables["stream"], streams),
            "arguments": _codes(tables["arguments"], [_arguments(own) for own in args]),
            "bytes": np.maximum(_integers([own.bytes for own in args], 0), 0),
            "correlation": _integers([own.correlation for own in args], -1),
        }
        self.parts.append({name: column[good] for name, column in columns.items()} | {"start_ns": start[good], "end_ns": end[good]})

    def _keep_hosts(self, events: list[Any]) -> None:
        start = self._starts(events)
        correlation = _integers([None if event.args is None else event.args.correlation for event in events], -1)
        good = start != NO_TIME
        self.first_host_ns = min(self.first_host_ns, int(start[good & (correlation == -1)].min(initial=NEVER)))
        good &= correlation != -1
        self.hosts.append((correlation[good], start[good]))

    def _keep_steps(self, events: list[Any]) -> None:
        start, end, good = self._times(events)
        for event, begin, finish, whole in zip(events, start.tolist(), end.tolist(), good.tolist(), strict=True):
            if whole and finish >= begin:
                self.steps.append((event.name, str(event.cat).startswith("gpu"), begin, finish))

    def result(self, path: Path, header: dict[str, Any]) -> FileEvents:
        columns = ("category", "name", "stream", "arguments", "bytes", "correlation", "start_ns", "end_ns")
        device = {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in self.parts)]) for name in columns}
        correlation, start = (np.concatenate([np.zeros(0, np.int64), *(part[side] for part in self.hosts)]) for side in (0, 1))
        device["launch_ns"] = _launches(device["correlation"], correlation, start)
        categories, names, arguments = (tuple(self.tables[name]) for name in ("category", "name", "arguments"))
        streams = tuple(_stream(*one) for one in self.tables["stream"])
        rest = tuple(self.steps), self.found, +self.dropped, self.fractional, self.first_host_ns
        return FileEvents(path, header, device, categories, names, streams, arguments, *rest)


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


def _loses_digits(starts: list[Any]) -> bool:
    """Whether some float is too large to keep a nanosecond."""
    kinds = set(map(type, starts))
    if float not in kinds:
        return False
    numbers = starts if kinds <= {int, float} else [start for start in starts if type(start) is float]
    return not -_EXACT < min(numbers) <= max(numbers) < _EXACT


def _codes(table: dict[Any, int], keys: list[Any]) -> np.ndarray:
    """Places in a table that grows by what is new, in order."""
    for key in dict.fromkeys(keys):
        table.setdefault(key, len(table))
    return np.array([table[key] for key in keys], dtype=np.int64)


def _integers(values: list[Any], absent: int) -> np.ndarray:
    whole = [value if type(value) is int else absent for value in values]
    try:
        return np.array(whole, dtype=np.int64)
    except OverflowError:
        return np.array([value if -(2**63) <= value < 2**63 else absent for value in whole], dtype=np.int64)


def _stream(device: Any, stream: Any, tid: Any) -> tuple[str, str, bool]:
    label = tid if stream is None else stream
    return "" if device is None else str(device), "" if label is None else str(label), type(stream) is int and stream != -1


def _arguments(args: _Args) -> Arguments:
    if args.collective is None and args.size is None:
        return _NO_ARGUMENTS
    values = (getattr(args, name) for name in Arguments._fields)
    return Arguments(*(value if value is None or type(value) in (int, str) else str(value) for value in values))


_NO_ARGUMENTS = Arguments()
_NO_ARGS = _Args()


def _event(value: dict[str, Any]) -> _Event:
    args = value.get("args")
    names = zip(_Args.__struct_fields__, _Args.__struct_encode_fields__, strict=True)
    own = _Args(**{name: args.get(key) for name, key in names}) if isinstance(args, dict) else None
    if own is not None:
        own.stream, own.device = _label(own.stream), _label(own.device)
    texts = {name: value[name] for name in ("ph", "cat", "name") if isinstance(value.get(name), str)}
    return _Event(**texts, ts=value.get("ts"), dur=value.get("dur"), tid=_label(value.get("tid")), args=own)


def _label(value: Any) -> int | str | None:
    return value if type(value) in (int, str) else None
