"""A YAML or JSON file read so that every complaint can name the file, the line, the key and what is allowed.

A :class:`Section` is a mapping being read: it refuses unknown keys at once (with the nearest known one) and
each of its methods takes one key, checks it and gives the value in base units.

>>> section = Document({"bandwidth": "200 Gb/s"}, "net.yaml").section("", ("bandwidth", "latency"))
>>> section.quantity("bandwidth", "bandwidth", positive=True), section.quantity("latency", "time", default=0.0)
(25000000000, 0.0)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, overload

import yaml
from yaml.reader import ReaderError

from clustersim import units
from clustersim.errors import InputError, InvalidValueError

MAX_FILE_BYTES = 500_000  # some seconds of reading; no file of this kind is near it
_MAX_DEPTH = 40
_MAX_PATH = 200
_MAX_SHOWN = 60
_MAX_TEXT = 1000
_MISSING: Any = object()


@dataclass(frozen=True)
class Document:
    """Nested plain data, where it came from, and the line of each key path."""

    data: Mapping[str, Any]
    source: str
    lines: Mapping[str, str] = field(default_factory=dict)

    def place(self, path: str) -> str:
        """``file.yaml:12`` for the key at ``path``, or the nearest enclosing key that has a line."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return self.source

    def error(self, path: str, message: str, kind: type[InputError] = InputError) -> NoReturn:
        raise kind(f"{self.place(path)}: {_clipped_path(path) + ': ' if path else ''}{message}")

    def section(self, path: str, keys: Sequence[str]) -> Section:
        """The mapping at ``path`` (``""`` for the whole file); absent reads as empty."""
        value: Any = self.data
        for part in path.split(".") if path else ():
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            self.error(path, f"expected a mapping with keys {', '.join(keys)}, got {shown(value)}")
        for key in value:
            if key not in keys:
                message = f"unknown key{nearest(str(key), keys)}; allowed: {', '.join(keys)}"
                raise InputError(f"{self.place(join(path, str(key)))}: {join(_clipped_path(path), clipped(str(key)))}: {message}")
        return Section(self, path, value)

    def override(
        self, assignments: Sequence[str], short_forms: Mapping[str, str] = MappingProxyType({}), option: str = "--set"
    ) -> Document:
        """A copy with each ``path.to.key=value`` of an ``option`` put in; the value is read as YAML, none removes the key.

        ``short_forms`` maps a path at which plain text stands for a mapping to the key that the text is then the value of.
        """
        data = _copied(self.data)
        lines = dict(self.lines)
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            place = f"{option} {clipped(assignment)}"
            if not equals or not all(path.split(".")):
                raise InputError(f"{place}: expected path.to.key=value, for example {option} strategy.name=mpp")

            def here(_: int, place: str = place) -> str:
                return place

            value, value_lines = _read_yaml(text, here, path)
            lines = {key: line for key, line in lines.items() if not key.startswith(path + ".")}
            target, reached = data, ""
            *parents, last = path.split(".")
            for parent in parents:
                reached = join(reached, parent)
                inner = target.get(parent)
                if isinstance(inner, str) and reached in short_forms:
                    inner = target[parent] = {short_forms[reached]: inner}
                if inner is None:
                    inner = target[parent] = {}
                    lines[reached] = place
                if not isinstance(inner, dict):
                    raise InputError(f"{place}: {reached} is {shown(inner)}, not a mapping that can hold {clipped(last)}")
                target = inner
            target[last] = value
            lines |= {path: place, **value_lines}
        return Document(data, self.source, lines)


@dataclass(frozen=True)
class Section:
    """One mapping of a :class:`Document`; ``path`` is its key path."""

    document: Document
    path: str
    data: Mapping[str, Any]

    def error(self, key: str, message: str) -> NoReturn:
        self.document.error(join(self.path, key), message)

    def refuse(self, key: str, message: str) -> NoReturn:
        """As :meth:`error`, for a value that the key can never have."""
        self.document.error(join(self.path, key), message, InvalidValueError)

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def section(self, key: str, keys: Sequence[str]) -> Section:
        return self.document.section(join(self.path, key), keys)

    def raw(self, key: str, default: Any = _MISSING, expected: str = "") -> Any:
        """The value as it stands; ``expected`` says in an error what should be there."""
        value = self.data.get(key)
        if value is not None:
            return value
        if default is _MISSING:
            hint = f"; expected {expected}" if expected else ""
            self.error(key if key in self.data else "", f"key {key!r} is missing{hint}")
        return default

    def text(self, key: str, default: Any = _MISSING, expected: str = "a name") -> str:
        value = self.raw(key, default, expected)
        if value is default:
            return value
        if not isinstance(value, str) or not value:
            self.refuse(key, f"expected {expected}, got {shown(value)}")
        if len(value) > _MAX_TEXT or not value.isprintable():
            self.refuse(key, f"expected at most {_MAX_TEXT} printable characters, got {shown(value)}")
        return value

    def choice(self, key: str, allowed: Sequence[str], default: Any = _MISSING) -> str:
        value = self.text(key, default, f"one of {', '.join(allowed)}")
        if value is not default and value not in allowed:
            self.refuse(key, f"unknown value {shown(value)}{nearest(value, allowed)}; allowed: {', '.join(allowed)}")
        return value

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        value = self.raw(key, default, "true or false")
        if value is not default and not isinstance(value, bool):
            self.refuse(key, f"expected true or false, got {shown(value)}")
        return value

    def integer(self, key: str, default: Any = _MISSING, *, minimum: int = 1, maximum: int = 10**12) -> int:
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"expected a whole number, got {shown(value)}")
        if not minimum <= value <= maximum:
            self.refuse(key, f"expected a whole number from {minimum} to {maximum:,}, got {shown(value)}")
        return value

    def number(self, key: str, default: Any = _MISSING, low: float = 0.0, high: float = 1.0, closed: bool = False) -> float:
        """A plain number in (low, high], or in [low, high] when ``closed``."""
        expected = f"a number from {low:g} to {high:g}" if closed else f"a number above {low:g} and at most {high:g}"
        value = self.raw(key, default, expected)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(key, f"expected a number, got {shown(value)}")
        if not (low < value <= high or (closed and value == low)):
            self.refuse(key, f"expected {expected}, got {shown(value)}")
        return float(value)

    @overload
    def quantity(self, key: str, dimension: units.Whole, default: Any = _MISSING, positive: bool = False) -> int: ...
    @overload
    def quantity(self, key: str, dimension: units.Real, default: Any = _MISSING, positive: bool = False) -> float: ...
    @overload
    def quantity(self, key: str, dimension: str, default: Any = _MISSING, positive: bool = False) -> int | float: ...
    def quantity(self, key: str, dimension: str, default: Any = _MISSING, positive: bool = False) -> int | float:
        """A quantity with a unit, in base units; ``positive`` refuses zero, negative values are refused always."""
        value = self.raw(key, default, f"a quantity with a unit, for example {units.EXAMPLES[dimension]}")
        if value is default:
            return value
        try:
            parsed = units.parse(value, dimension)
        except ValueError as error:
            self.refuse(key, str(error))
        if parsed < 0 or (positive and parsed == 0):
            allowed = "more than zero" if positive else "zero or more"
            self.refuse(key, f"must be {allowed}, got {value}; for example {units.EXAMPLES[dimension]}")
        return parsed


def load(path: str | Path) -> Document:
    """Read a YAML (or JSON, its subset) file; InputError with file and line when it is not one mapping."""
    path = Path(path)
    return loads(read_text(path), str(path))


def loads(text: str, source: str) -> Document:
    """Like :func:`load`, from a string."""
    data, lines = _read_yaml(text, lambda line: f"{source}:{line + 1}", "")
    if data is None:
        raise InputError(f"{source}: the file is empty; expected a mapping of keys to values")
    if not isinstance(data, dict):
        raise InputError(f"{source}: expected a mapping of keys to values, got {shown(data)}")
    return Document(data, source, lines)


def read_text(path: Path) -> str:
    """The text of an input file; InputError when it cannot be read or is too large."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {units.decimal_size_text(MAX_FILE_BYTES)}, the limit for such a file")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key


def nearest(word: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?`` or nothing."""
    close = difflib.get_close_matches(word[:_MAX_SHOWN], known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def clipped(text: str) -> str:
    """Text as an error message can hold it."""
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _clipped_path(path: str) -> str:
    """Names that a file gives, such as those of links, can be of any length."""
    return path if len(path) <= _MAX_PATH else f"{path[: _MAX_PATH // 2 - 3]}...{path[-_MAX_PATH // 2 :]}"


def shown(value: Any) -> str:
    """A value as an error message shows it: short, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return clipped(" ".join(repr(value).split()))


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


class _Loader(yaml.SafeLoader):
    """YAML without what surprises in a file of settings: 010 is ten and 1:20 text (YAML 1.1 has octal and base 60), 1e3 is a
    number, dates are text, ``<<`` is a key like any other."""


_INTEGER, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_SURPRISES = (_INTEGER, _FLOAT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _SURPRISES]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_FLOAT_PATTERN = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
_Loader.add_implicit_resolver(_INTEGER, re.compile(r"[-+]?[0-9]{1,100}(_[0-9]{1,100})*$"), list("-+0123456789"))
_Loader.add_implicit_resolver(_FLOAT, re.compile(_FLOAT_PATTERN), list("-+.0123456789"))


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


_Loader.add_constructor(_INTEGER, _integer)


def _read_yaml(text: str, place: Callable[[int], str], path: str) -> tuple[Any, dict[str, str]]:
    """The value of a YAML text, and the place of each key below ``path``; ``place`` makes one from a line, counted from 0."""
    lines: dict[str, str] = {}
    try:
        _refuse_events(text, place)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, lines
        _note_lines(node, path, place, lines)
        return loader.construct_document(node), lines
    except (ReaderError, yaml.MarkedYAMLError) as error:
        if isinstance(error, ReaderError):
            line, problem = text.count("\n", 0, error.position), f"character {chr(error.character)!r} is not allowed"
        else:
            line = error.problem_mark.line if error.problem_mark else 0
            problem = " ".join(f"{error.context or ''} {error.problem}".split())[:160]
        raise InvalidValueError(f"{place(line)}: not valid YAML: {problem}") from None


def _refuse_events(text: str, place: Callable[[int], str]) -> None:
    # Aliases let a small file unfold to gigabytes, tags make values that no key of ours takes.
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            problem = "YAML aliases (*name) are not allowed"
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            if event.tag is not None:
                problem = f"YAML tags ({clipped(event.tag)}) are not allowed"
            elif depth > _MAX_DEPTH:
                problem = f"nested deeper than {_MAX_DEPTH} levels"
        if problem:
            raise InputError(f"{place(event.start_mark.line if event.start_mark else 0)}: {problem}")


def _note_lines(node: yaml.Node, path: str, place: Callable[[int], str], lines: dict[str, str]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _note_lines(item, join(path, str(position)), place, lines)
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key_node, value_node in node.value:
        where = place(key_node.start_mark.line)
        if not isinstance(key_node, yaml.ScalarNode):
            raise InputError(f"{where}: a key must be a name, not a list or a mapping")
        key = join(path, key_node.value)
        if not key_node.tag.endswith(":str"):
            raise InputError(f"{where}: {clipped(key)}: a key must be a name; {clipped(key_node.value)!r} reads as something else")
        if key in seen:
            raise InputError(f"{where}: {clipped(key)}: the key is given twice")
        seen.add(key)
        lines[key] = where
        _note_lines(value_node, key, place, lines)
