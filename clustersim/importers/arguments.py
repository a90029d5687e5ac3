"""Command-line words as options with values, each read and checked on its own line.

>>> from clustersim.importers.shell import Word
>>> arguments = Arguments.of([Word("--num-layers", 1), Word("24", 1), Word("--bf16", 2)], "run.sh")
>>> arguments.whole("--num-layers"), arguments.flag("--bf16"), arguments.unused()
(24, True, [])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, overload

from clustersim.document import shown
from clustersim.errors import InputError
from clustersim.importers.shell import UNKNOWN, Word, shown_unknown


@dataclass(frozen=True)
class Option:
    """One option as it was given last, the one that counts."""

    values: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Arguments:
    """Options by name; ``stray`` are unknown words in their place. What is asked for counts as used, as ``flags``
    where it has no value.

    Unless ``strict``, what follows the first value of an option is nobody's, as behind a launcher's last option.
    """

    source: str
    options: dict[str, Option]
    stray: tuple[str, ...] = ()
    strict: bool = True
    used: set[str] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)

    @staticmethod
    def of(words: Sequence[Word], source: str, strict: bool = True) -> Arguments:
        """Options with the values that follow them; ``--name=value`` too."""
        values: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        stray: list[str] = []
        name = ""
        for word in words:
            if word.text.startswith("--") and len(word.text) > 2:
                name, equals, value = word.text.partition("=")
                stray += [shown_unknown(before) for before in values.get(name, ()) if before.startswith(UNKNOWN)]
                values[name], lines[name] = [value] if equals else [], word.line
            elif word.text.startswith(UNKNOWN) and (not name or values[name]):
                stray.append(shown_unknown(word.text))
            elif name:
                values[name].append(word.text)
        options = {option: Option(tuple(given), lines[option]) for option, given in values.items()}
        return Arguments(source, options, tuple(stray), strict)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def place(self, name: str) -> str:
        line = self.options[name].line if name in self.options else 0
        return f"{self.source}:{line}: {name}" if line else f"{self.source}: {name}"

    def fail(self, name: str, message: str) -> NoReturn:
        raise InputError(f"{self.place(name)}: {message}")

    def flag(self, name: str) -> bool:
        """Whether an option without a value is given; unknown words behind it belong to nobody."""
        self.used.add(name)
        self.flags.add(name)
        for value in self.options[name].values if name in self.options else ():
            if not value.startswith(UNKNOWN):
                self.fail(name, f"expected no value, got {shown(value)}")
        return name in self.options

    @overload
    def text(self, name: str, default: str) -> str: ...
    @overload
    def text(self, name: str, default: None = None) -> str | None: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """The one value of an option."""
        self.used.add(name)
        if name not in self.options:
            return default
        values = self.options[name].values
        if values and UNKNOWN in values[0]:
            unknown = shown_unknown(values[0])
            self.fail(name, f"{unknown} is known only when the script runs; write the value there, or give --env NAME=VALUE")
        if not values or (self.strict and len(values) > 1):
            self.fail(name, f"expected one value, got {len(values) or 'none'}")
        return values[0]

    @overload
    def whole(self, name: str, default: int, maximum: int = 10**9, minimum: int = 1) -> int: ...
    @overload
    def whole(self, name: str, default: None = None, maximum: int = 10**9, minimum: int = 1) -> int | None: ...
    def whole(self, name: str, default: int | None = None, maximum: int = 10**9, minimum: int = 1) -> int | None:
        """The value of an option as a whole number."""
        text = self.text(name)
        if text is None:
            return default
        value = int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None
        if value is None or not minimum <= value <= maximum:
            self.fail(name, f"expected a whole number from {minimum} to {maximum:,}, got {shown(text)}")
        return value

    def required(self, name: str, maximum: int = 10**9) -> int:
        """Like :meth:`whole`, but it must be given."""
        if name not in self.options:
            raise InputError(f"{self.source}: {name} is missing; expected it with a whole number from 1 to {maximum:,}")
        return self.whole(name, 0, maximum)

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        text = self.text(name)
        if text is not None and text not in allowed:
            self.fail(name, f"unknown value {shown(text)}; allowed: {', '.join(allowed)}")
        return text

    def unknown(self) -> list[str]:
        """Words that only running would tell, and that are not the value of an option that is used: they may hold anything."""
        behind = [
            f"{shown_unknown(value)} (after {name})"
            for name, option in self.options.items()
            if name in self.flags or name not in self.used
            for value in option.values
            if UNKNOWN in value
        ]
        return [*self.stray, *behind]

    def unused(self) -> list[str]:
        """Names of the options that nobody asked for, in the order given."""
        return [name for name in self.options if name not in self.used]
