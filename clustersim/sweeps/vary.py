"""What a sweep varies: fields of the experiment, by path, and the values that each takes.

>>> field = parse_field("network.bandwidth=10..1000Gb/s:log3")
>>> field.unit, [(value.text, value.number) for value in field.values]
('Gb/s', [('10 Gb/s', 1250000000), ('100 Gb/s', 12500000000), ('1000 Gb/s', 125000000000)])
>>> [value.text for value in parse_field("parallel.tensor=1..8,16").values]
['1', '2', '4', '8', '16']
>>> [value.text for value in parse_field("network.latency=1..4,9us").values]
['1 us', '2 us', '4 us', '9us']
>>> len(combined([field, parse_field("strategy.name=standard,mpp")])), len(combined([field, field], zipped=True))
(6, 3)
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from clustersim import units
from clustersim.document import clipped
from clustersim.errors import InputError

EXAMPLE = "network.bandwidth=10..400Gb/s:log8"
MAX_POINTS = 100_000
_MAX_VALUES = 10_000
_DIGITS = 6  # of a value inside a range, as it is written into the experiment
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_RANGE = re.compile(rf"({_NUMBER})\s*([^\s.0-9][^\s.]*)?\s*\.\.\s*({_NUMBER})\s*([^\s.:0-9][^\s.:]*)?(?::(lin|log)([0-9]{{1,5}}))?")
_QUANTITY = re.compile(rf"({_NUMBER})\s*(\S*)")
_BARE = re.compile(rf"{_NUMBER}(?:\s*\.\.\s*{_NUMBER})?")
_MAX_DIGITS = 40
_WHOLE = re.compile(r"[-+]?[0-9]{1,100}")  # as in a file


@dataclass(frozen=True)
class Value:
    """``text`` goes into the experiment; ``number`` is it in base units (B/s, B, s, FLOP/s), None for what is no number."""

    text: str
    number: int | float | None

    @property
    def plain(self) -> int | float | str:
        """As tables and JSON have it."""
        return self.text if self.number is None else self.number


@dataclass(frozen=True)
class Field:
    """A path of the experiment and its values; ``unit`` is the one that the first value is written in, ``""`` without any."""

    path: str
    values: tuple[Value, ...]
    unit: str

    @property
    def base_unit(self) -> str:
        """Of ``Value.number``: ``B/s``, ``B``, ``s``, ``FLOP/s`` or ``""``."""
        return {"bandwidth": "B/s", "size": "B", "time": "s", "compute": "FLOP/s"}.get(dimension_of(f"1000 {self.unit}") or "", "")

    @property
    def numeric(self) -> bool:
        return all(value.number is not None for value in self.values)

    @property
    def is_bandwidth(self) -> bool:
        """Of all links of a kind: there is an infinitely fast one to compare with."""
        return self.path.endswith(".bandwidth") and self.base_unit == "B/s" and self.numeric

    @property
    def scale(self) -> float:
        """One of its unit, in base units."""
        dimension = dimension_of(f"1000 {self.unit}")
        return units.parse(f"1000 {self.unit}", dimension) / 1000 if dimension else 1.0

    def shown(self, number: float) -> str:
        """A number in base units as text in the unit of the field.

        >>> parse_field("network.bandwidth=10Gb/s").shown(26.5e9)
        '212 Gb/s'
        """
        return f"{self.bare(number)} {self.unit}".strip()

    def bare(self, number: float) -> str:
        """The same without the unit."""
        if not self.unit:
            return f"{number:.15g}"
        amount = number / self.scale
        return f"{amount:.4g}" if abs(amount) < 9999.5 else f"{amount:.0f}"

    def distinct(self) -> Field:
        """Each value once, however it is written.

        >>> [value.text for value in parse_field("network.bandwidth=1Gb/s,1000Mb/s,2Gb/s").distinct().values]
        ['1Gb/s', '2Gb/s']
        """
        first: dict[int | float | str, Value] = {}
        for value in self.values:
            first.setdefault(value.plain, value)
        return replace(self, values=tuple(first.values()))


Point = Mapping[str, Value]
"""For each varied path its value."""


def parse_field(text: str, option: str = "--vary") -> Field:
    """``PATH=VALUES``: a list with commas, of single values and ranges.

    Numbers without a unit have that of the last value. ``a..b`` doubles from a to b, ``a..b:lin5`` and ``a..b:log8`` take so many
    values at equal steps or equal ratios; between whole numbers they are whole. Commas inside brackets and quotes do not
    separate. InputError for what cannot be read.
    """
    place = f"{option} {clipped(text)}"
    path, equals, values = text.partition("=")
    path = path.strip()
    if not equals or not all(path.split(".")):
        raise InputError(f"{place}: expected PATH=VALUES, for example {option} {EXAMPLE}")
    return field_of(path, split(values), place)


def field_of(path: str, parts: Sequence[str], place: str) -> Field:
    """A field from the texts of its values and ranges."""
    if not parts or not all(path.split(".")):
        raise InputError(f"{place}: expected a path and at least one value, for example {EXAMPLE}")
    parts = [part.strip() for part in parts]
    unit = _unit(parts[-1])
    parts = [f"{part} {unit}".strip() if _BARE.fullmatch(part) else part for part in parts]
    values = [value for part in parts for value in _values(part, place)]
    if len(values) > _MAX_VALUES:
        raise InputError(f"{place}: {len(values):,} values; allowed: at most {_MAX_VALUES:,}")
    dimensions = {dimension_of(value.text) for value in values}
    if len(dimensions) > 1 and dimensions & set(units.EXAMPLES):
        raise InputError(f"{place}: the values are not all of one sort; allowed: units of one kind, for example {EXAMPLE}")
    return Field(path, tuple(values), _unit(values[0].text))


def _unit(text: str) -> str:
    """Of a quantity, or of a range of them; ``""`` without any."""
    match = _QUANTITY.fullmatch(text.rpartition("..")[2].partition(":")[0].strip())
    return match[2] if match and dimension_of(f"1 {match[2]}") else ""


def combined(fields: Sequence[Field], zipped: bool = False) -> list[dict[str, Value]]:
    """All combinations, the last field fastest; ``zipped`` takes the first values of all, then the second ones, and so on."""
    lengths = [len(field.values) for field in fields]
    if zipped and len(set(lengths)) > 1:
        counts = ", ".join(f"{field.path} {length}" for field, length in zip(fields, lengths, strict=True))
        raise InputError(f"--zip: the fields have different numbers of values ({counts}); allowed: the same for all")
    points = lengths[0] if zipped else math.prod(lengths)
    if points > MAX_POINTS:
        raise InputError(f"--vary: {points:,} points; allowed: at most {MAX_POINTS:,}; take fewer values")
    walk = zip if zipped else itertools.product
    return [dict(zip((field.path for field in fields), values, strict=True)) for values in walk(*(field.values for field in fields))]


def dimension_of(text: str) -> str | None:
    """``bandwidth``, ``size``, ``time`` or ``compute`` of a quantity with a unit; None for anything else.

    >>> dimension_of("200 Gb/s"), dimension_of("8"), dimension_of("mpp")
    ('bandwidth', None, None)
    """
    for dimension in units.EXAMPLES:
        try:
            units.parse(text, dimension)
        except ValueError:
            continue
        return dimension
    return None


def value_of(text: str) -> Value:
    """A single value: a quantity, a plain number, or text as it stands.

    >>> value_of("5 us"), value_of("0.5"), value_of("true")
    (Value(text='5 us', number=5e-06), Value(text='0.5', number=0.5), Value(text='true', number=None))
    """
    dimension = dimension_of(text)
    if dimension is not None:
        return Value(text, units.parse(text, dimension))
    if re.fullmatch(_NUMBER, text) and math.isfinite(float(text)):
        return Value(text, int(text) if _WHOLE.fullmatch(text) else float(text))
    return Value(text, None)


def split(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "{[") - (character in "}]")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _values(text: str, place: str) -> list[Value]:
    if not text:
        raise InputError(f"{place}: a value is missing; expected for example {EXAMPLE} or strategy.name=standard,lga,mpp")
    match = _RANGE.fullmatch(text)
    if match is None:
        if ".." in text and re.match(_NUMBER, text):
            raise InputError(f"{place}: {clipped(text)} is no range; expected a..b, a..b:lin5 or a..b:log8, for example {EXAMPLE}")
        return [value_of(text)]
    first, first_unit, last, last_unit, spacing, count = match.groups()
    for number in (first, last, count or ""):
        if len(number) > _MAX_DIGITS:
            raise InputError(f"{place}: {clipped(number)} is out of range; allowed: at most {_MAX_DIGITS} digits")
    unit = last_unit or first_unit or ""
    if unit and dimension_of(f"1 {unit}") is None:
        raise InputError(f"{place}: unknown unit {clipped(unit)!r}; expected for example {EXAMPLE}")
    scale = _scale(first_unit or unit, unit, place)
    low, high = Fraction(first) * scale, Fraction(last)
    if low > high:
        raise InputError(f"{place}: the range {first}..{last} is reversed; expected the smaller end first")
    if low <= 0 and spacing != "lin":
        steps = f"equal steps, as {first}..{last}{unit}:lin5"
        raise InputError(f"{place}: a range at equal ratios cannot start at {first}; allowed: a first value above zero, or {steps}")
    whole = not unit and bool(_WHOLE.fullmatch(first)) and bool(_WHOLE.fullmatch(last))
    if spacing and not 2 <= int(count) <= _MAX_VALUES:
        raise InputError(f"{place}: :{spacing}{count} asks for {int(count)} value{'s' * (int(count) != 1)}; allowed: 2 to {_MAX_VALUES:,}")
    numbers = _spaced(low, high, spacing, int(count or 0))
    texts = dict.fromkeys(_written(number, whole) for number in numbers)
    return [value_of(f"{text} {unit}".strip()) for text in texts]


def _scale(of: str, into: str, place: str) -> Fraction:
    if of == into:
        return Fraction(1)
    dimension = dimension_of(f"1 {of}")
    if dimension is None or dimension != dimension_of(f"1 {into}"):
        raise InputError(f"{place}: {clipped(of)!r} and {clipped(into)!r} are not units of one kind; expected for example {EXAMPLE}")
    return Fraction(units.parse(f"1000 {of}", dimension)) / Fraction(units.parse(f"1000 {into}", dimension))


def _spaced(low: Fraction, high: Fraction, spacing: str | None, count: int) -> list[Fraction]:
    if spacing is None:
        doubled = [low]
        while doubled[-1] * 2 < high:
            doubled.append(doubled[-1] * 2)
        return [*doubled, high]
    steps = count - 1
    if spacing == "lin":
        return [low + (high - low) * step / steps for step in range(count)]
    between = (float(low) * (float(high) / float(low)) ** (step / steps) for step in range(1, steps))
    return [low, *map(Fraction, between), high]


def _written(number: Fraction, whole: bool) -> str:
    """At least six digits, never fewer than a whole number has."""
    if whole or number.denominator == 1:
        return str(round(number))
    return f"{float(number):.{_DIGITS}g}"
