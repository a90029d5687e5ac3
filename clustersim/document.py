"""A YAML or JSON file read so that every complaint can name the file, the line, the key and what is allowed.

A :class:`Section` is a mapping being read: it refuses unknown keys at once (with the nearest known one) and
each of its methods takes one key, checks it and gives the value in base units.

>>> section = Document({"bandwidth": "200 Gb/s"}, "net.yaml").section("", ("bandwidth", "latency"))
>>> section.quantity("bandwidth", "bandwidth", positive=True), section.quantity("latency", "time", default=0.0)
(25000000000, 0.0)
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from clustersim import units
from clustersim.errors import InputError

MAX_FILE_BYTES = 16_000_000
_MAX_DEPTH = 40
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

    def error(self, path: str, message: str) -> NoReturn:
        raise InputError(f"{self.place(path)}: {path + ': ' if path else ''}{message}")

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
                self.error(join(path, str(key)), f"unknown key{nearest(str(key), keys)}; allowed: {', '.join(keys)}")
        return Section(self, path, value)

    def override(self, assignments: Sequence[str]) -> Document:
        """A copy with each ``path.to.key=value`` of ``--set`` put in; the value is read as YAML."""
        data = _copied(self.data)
        lines = dict(self.lines)
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            place = f"--set {assignment}"
            if not equals or not all(path.split(".")):
                raise InputError(f"{place}: expected path.to.key=value, for example --set strategy.name=mpp")
            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise InputError(f"{place}: the value is not valid YAML: {_yaml_problem(error)}") from None
            target = data
            *parents, last = path.split(".")
            for parent in parents:
                inner = target.get(parent)
                if inner is None:
                    inner = target[parent] = {}
                if not isinstance(inner, dict):
                    raise InputError(f"{place}: {parent} is {shown(inner)}, not a mapping that can hold {last}")
                target = inner
            target[last] = value
            lines = {key: line for key, line in lines.items() if not key.startswith(path + ".")}
            lines[path] = place
        return Document(data, self.source, lines)


@dataclass(frozen=True)
class Section:
    """One mapping of a :class:`Document`; ``path`` is its key path."""

    document: Document
    path: str
    data: Mapping[str, Any]

    def error(self, key: str, message: str) -> NoReturn:
        self.document.error(join(self.path, key), message)

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def section(self, key: str, keys: Sequence[str]) -> Section:
        return self.document.section(join(self.path, key), keys)

    def raw(self, key: str, default: Any = _MISSING) -> Any:
        value = self.data.get(key)
        if value is not None:
            return value
        if default is _MISSING:
            self.error(key if key in self.data else "", f"key {key!r} is missing")
        return default

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self.raw(key, default)
        if value is not default and not isinstance(value, str):
            self.error(key, f"expected a name, got {shown(value)}")
        return value

    def choice(self, key: str, allowed: Sequence[str], default: Any = _MISSING) -> str:
        value = self.text(key, default)
        if value is not default and value not in allowed:
            self.error(key, f"unknown value {value!r}{nearest(value, allowed)}; allowed: {', '.join(allowed)}")
        return value

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        value = self.raw(key, default)
        if value is not default and not isinstance(value, bool):
            self.error(key, f"expected true or false, got {shown(value)}")
        return value

    def integer(self, key: str, default: Any = _MISSING, minimum: int = 1, maximum: int = 10**12) -> int:
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            self.error(key, f"expected a whole number, got {shown(value)}")
        if not minimum <= value <= maximum:
            self.error(key, f"expected a whole number from {minimum} to {maximum:,}, got {value}")
        return value

    def number(self, key: str, default: Any = _MISSING, low: float = 0.0, high: float = 1.0) -> float:
        """A plain number in (low, high]."""
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.error(key, f"expected a number, got {shown(value)}")
        if not low < value <= high:
            self.error(key, f"expected a number above {low:g} and at most {high:g}, got {value:g}")
        return float(value)

    def quantity(self, key: str, dimension: str, default: Any = _MISSING, positive: bool = False) -> int | float:
        """A quantity with a unit, in base units; ``positive`` refuses zero, negative values are refused always."""
        value = self.raw(key, default)
        if value is default:
            return value
        try:
            parsed = units.parse(value, dimension)
        except ValueError as error:
            self.error(key, str(error))
        if parsed < 0 or (positive and parsed == 0):
            allowed = "more than zero" if positive else "zero or more"
            self.error(key, f"must be {allowed}, got {value}; for example {units.EXAMPLES[dimension]}")
        return parsed


def load(path: str | Path) -> Document:
    """Read a YAML (or JSON, its subset) file; InputError with file and line when it is not one mapping."""
    path = Path(path)
    return loads(read_text(path), str(path))


def loads(text: str, source: str) -> Document:
    """Like :func:`load`, from a string."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _refuse_aliases_and_depth(text, source)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 1}" if mark else source
        raise InputError(f"{place}: not valid YAML: {_yaml_problem(error)}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{source}: not valid YAML: {' '.join(str(error).split())[:120]}") from None
    if node is None:
        raise InputError(f"{source}: the file is empty")
    if not isinstance(data, dict):
        raise InputError(f"{source}: expected a mapping of keys to values, got {shown(data)}")
    lines: dict[str, str] = {}
    _note_lines(node, "", source, lines)
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
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: Any) -> str:
    """A value as an error message shows it: short, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def _yaml_problem(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    return " ".join(str(problem).split())[:160]


def _refuse_aliases_and_depth(text: str, source: str) -> None:
    # Aliases let a small file unfold to gigabytes; no file of ours needs them.
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{source}:{event.start_mark.line + 1}: YAML aliases (*name) are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise InputError(f"{source}:{event.start_mark.line + 1}: nested deeper than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _note_lines(node: yaml.Node, path: str, source: str, lines: dict[str, str]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key_node, value_node in node.value:
        key = join(path, str(key_node.value))
        line = f"{source}:{key_node.start_mark.line + 1}"
        if key in seen:
            raise InputError(f"{line}: {key}: the key is given twice")
        seen.add(key)
        lines[key] = line
        _note_lines(value_node, key, source, lines)
