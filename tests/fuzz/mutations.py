"""Damage to a file: what the network, an editor or an enemy does to bytes. The same seed does the same damage."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_WORD = re.compile(rb"[A-Za-z_][\w.-]*|-?\d[\w.+-]*|\"[^\"\n]*\"|[^\s\w]")
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
NUMBERS = [
    b"nan",
    b"inf",
    b"-inf",
    b".nan",
    b".inf",
    b"1e400",
    b"-1e400",
    b"1e308",
    b"5e-324",
    b"-0",
    b"0",
    b"-1",
    b"0.0",
    b"1.5",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"9" * 30,
    b"9" * 5000,
    b"1e3",
    b"0x10",
    b"1_000",
    b"1,000",
    "٣".encode(),
    "²".encode(),
    b"NaN",
    b"Infinity",
    b"true",
    b"null",
    b"''",
    b'""',
    b"[]",
    b"{}",
]
PIECES = [
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\t",
    b"\x1b[31m",
    "é".encode(),
    "模型".encode(),
    "\u2028".encode(),
    "\u202e".encode(),
    b"\xed\xa0\x80",
    b'"',
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"<",
    b">",
    b"<!--",
    b"]]>",
    b"&amp;",
    b"&x;",
    b",",
    b";",
    b":",
    b": ",
    b"- ",
    b"#",
    b"*a",
    b"&a ",
    b"!!python/name:os.system ",
    b"%",
    b"$",
    b"$(",
    b"`",
    b"|",
    b"../../",
    b"/dev/zero",
    b"/etc/passwd",
    b"~",
    b"NV99999",
    b"=",
    b"--",
]
DEPTHS = (60, 2_000, 100_000)


def mutated(data: bytes, seed: int) -> bytes:
    """The bytes after one to four mutations."""
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randint(0, len(data))


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    begin = _place(data, chance)
    return begin, begin + chance.choice((1, 2, 5, 20, 100, 1000))


def _token(data: bytes, chance: random.Random, pattern: re.Pattern[bytes] = _WORD) -> tuple[int, int]:
    """A token near a random place; nothing at all where there is none behind it."""
    found = pattern.search(data, _place(data, chance))
    return found.span() if found else (len(data), len(data))


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 16)) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def delete(data: bytes, chance: random.Random) -> bytes:
    begin, end = _span(data, chance)
    return data[:begin] + data[end:]


def truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def duplicate(data: bytes, chance: random.Random) -> bytes:
    begin, end = _span(data, chance)
    return data[:end] + data[begin:end] * chance.choice((1, 1, 2, 50)) + data[end:]


def swap_tokens(data: bytes, chance: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_token(data, chance), _token(data, chance)))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:] if b <= c else data


def copy_token(data: bytes, chance: random.Random) -> bytes:
    """A token in the place of another: what is right elsewhere in the file."""
    (a, b), (c, d) = _token(data, chance), _token(data, chance)
    return data[:a] + data[c:d] + data[b:]


def drop_token(data: bytes, chance: random.Random) -> bytes:
    begin, end = _token(data, chance)
    return data[:begin] + data[end:]


def extreme_number(data: bytes, chance: random.Random) -> bytes:
    begin, end = _token(data, chance, _NUMBER)
    return data[:begin] + chance.choice(NUMBERS) + data[end:]


def insert_piece(data: bytes, chance: random.Random) -> bytes:
    place = _place(data, chance)
    return data[:place] + chance.choice(PIECES) + data[place:]


def replace_token(data: bytes, chance: random.Random) -> bytes:
    begin, end = _token(data, chance)
    return data[:begin] + chance.choice(NUMBERS + PIECES) + data[end:]


def swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if lines:
        a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def nest(data: bytes, chance: random.Random) -> bytes:
    begin, end = _token(data, chance)
    depth, (opening, closing) = (
        chance.choice(DEPTHS),
        chance.choice(((b"[", b"]"), (b"{a: ", b"}"), (b'{"a":', b"}"), (b"<a>", b"</a>"), (b"(", b")"))),
    )
    return data[:begin] + opening * depth + data[begin:end] + closing * depth + data[end:]


def long_line(data: bytes, chance: random.Random) -> bytes:
    place = _place(data, chance)
    return (
        data[:place] + chance.choice((b"x", b" ", b"9", b",", b"-", "模".encode())) * chance.choice((200, 70_000, 300_000)) + data[place:]
    )


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    delete,
    truncate,
    duplicate,
    swap_tokens,
    copy_token,
    copy_token,
    copy_token,
    drop_token,
    extreme_number,
    extreme_number,
    extreme_number,
    extreme_number,
    insert_piece,
    replace_token,
    swap_lines,
    nest,
    long_line,
)
