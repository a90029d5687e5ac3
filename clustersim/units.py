"""Quantities at the border: strings with a suffix in, strings with a suffix out.

Inside the product everything is bytes, bytes/s (one direction, payload), FLOP, FLOP/s and seconds;
the engine counts integer picoseconds. This is the only place that knows suffixes.

>>> parse("200 Gb/s", "bandwidth"), parse("80 GiB", "size"), parse("5 us", "time")
(25000000000, 85899345920, 5e-06)
>>> bandwidth_text(25e9), size_text(85899345920), time_text(0.00125)
('25 GB/s', '85.9 GB (80 GiB)', '1.25 ms')
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, overload

PS_PER_S = 10**12

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_PREFIX = {**_DECIMAL, **_BINARY}
_BYTES = {"B": Fraction(1), "b": Fraction(1, 8)}
_TIME = {
    "ps": Fraction(1, 10**12),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
}
_FACTORS: dict[str, dict[str, Fraction]] = {
    "bandwidth": {f"{p}{u}/s": f * v for p, f in _PREFIX.items() for u, v in _BYTES.items()},
    "size": {f"{p}B": Fraction(f) for p, f in _PREFIX.items()},
    "time": _TIME,
    "compute": {f"{p}{u}": Fraction(f) for p, f in _DECIMAL.items() for u in ("FLOP/s", "FLOPS")},
}
EXAMPLES = {"bandwidth": "200 Gb/s or 25 GB/s", "size": "80 GiB or 25 MB", "time": "5 us or 1.5 s", "compute": "312 TFLOP/s"}
_WHOLE = {"bandwidth", "size"}
# Possessive (++): else a long text that does not match takes the square of its length.
_NUMBER = re.compile(r"\s*+([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]{1,3})?)\s*+(\S*+)\s*+")
_MAX_DIGITS, _MAX_SHOWN = 60, 40
# Far beyond any machine, and small enough that a run of many such times still fits the clock (64 bits of picoseconds).
_LARGEST = {"bandwidth": "1 EB/s", "size": "1000 PB", "time": "1000 h", "compute": "1000 EFLOP/s"}


Whole = Literal["bandwidth", "size"]
"""Dimensions in whole bytes/s or bytes."""
Real = Literal["time", "compute"]
"""Dimensions in s or FLOP/s."""


@overload
def parse(text: object, dimension: Whole) -> int: ...
@overload
def parse(text: object, dimension: Real) -> float: ...
@overload
def parse(text: object, dimension: str) -> int | float: ...
def parse(text: object, dimension: str) -> int | float:
    """The value of ``text`` in base units: int for bandwidth (B/s) and size (B), float for time (s) and compute (FLOP/s).

    Raises ValueError, with an example of the right form, for a bare number, an unknown suffix, no number at all, or one beyond
    any machine.
    """
    value = _value(text, dimension)
    largest = _LARGEST[dimension]
    if abs(value) > _value(largest, dimension):
        raise ValueError(f"{_shown(text)} is out of range; allowed: at most {largest}")
    return round(value) if dimension in _WHOLE else float(value)


def _value(text: object, dimension: str) -> Fraction:
    example = f"write for example {EXAMPLES[dimension]}"
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        raise ValueError(f"expected a quantity with a unit, {example}")
    match = _NUMBER.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{_shown(text)} is not a number with a unit; {example}")
    number, suffix = match.groups()
    if len(number) > _MAX_DIGITS:
        raise ValueError(f"{_shown(text)} has too many digits; {example}")
    if not suffix:
        raise ValueError(f"{text} has no unit; {example}")
    factor = _FACTORS[dimension].get(suffix)
    if factor is None:
        raise ValueError(f"unknown unit {_shown(suffix)} in {_shown(text)}; {example}")
    return Fraction(number) * factor


def _shown(text: object) -> str:
    return repr(str(text)[:_MAX_SHOWN])


def to_ps(seconds: float) -> int:
    """Seconds as the engine's integer picoseconds, rounded to nearest."""
    return round(seconds * PS_PER_S)


def transfer_ps(volume_bytes: Fraction | int, capacity_bytes_s: int) -> int:
    """Time of ``volume_bytes`` at ``capacity_bytes_s``, in ps, rounded once (half up) so that it is exact to 1 ps."""
    volume = Fraction(volume_bytes)
    return (2 * volume.numerator * PS_PER_S + volume.denominator * capacity_bytes_s) // (
        2 * volume.denominator * capacity_bytes_s
    )


def _scaled(value: float, prefixes: dict[str, int], unit: str) -> str:
    best = ""
    for prefix, factor in prefixes.items():
        if prefix != "K" and abs(value) >= factor:
            best = prefix
    return f"{value / prefixes.get(best, 1):.4g} {best}{unit}"


def bandwidth_text(bytes_s: float) -> str:
    """``25 GB/s``."""
    return _scaled(bytes_s, _DECIMAL, "B/s")


def size_text(size_bytes: float) -> str:
    """Both conventions, since tools mix them: ``85.9 GB (80 GiB)``."""
    if abs(size_bytes) < 1000:
        return f"{size_bytes:.4g} B"
    return f"{decimal_size_text(size_bytes)} ({_scaled(size_bytes, {'': 1, **_BINARY}, 'B')})"


def decimal_size_text(size_bytes: float) -> str:
    """``85.9 GB``."""
    return _scaled(size_bytes, _DECIMAL, "B")


def flops_text(flop_s: float) -> str:
    """``139.8 TFLOP/s``."""
    return _scaled(flop_s, _DECIMAL, "FLOP/s")


def time_text(seconds: float) -> str:
    """The largest of s, ms, us, ns, ps in which the number is at least one: ``1.25 ms``."""
    if seconds == 0:
        return "0 s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if abs(seconds) >= factor * 0.9999995:
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds / 1e-12:.4g} ps"
