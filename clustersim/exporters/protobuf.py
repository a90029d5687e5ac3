"""As much of the protocol-buffer encoding as execution traces need (https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from collections.abc import Iterable

_SHORT = [bytes([value]) for value in range(128)]


def varint(value: int) -> bytes:
    """A whole number from 0 to 2**64 - 1; a negative one is written as that plus 2**64, as int64 are.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    if 0 <= value < 128:
        return _SHORT[value]
    value &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """
    >>> number(1, 150).hex()
    '089601'
    """
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes) -> bytes:
    """Bytes, a message, or a text in UTF-8.

    >>> data(2, b"testing").hex()
    '120774657374696e67'
    """
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(field: int, values: Iterable[int]) -> bytes:
    """Repeated numbers; nothing for none.

    >>> packed(6, [3, 270, 86942]).hex(), packed(6, [])
    ('3206038e029ea705', b'')
    """
    text = b"".join(map(varint, values))
    return data(field, text) if text else b""


def delimited(message: bytes) -> bytes:
    """A message in a row of messages: its length first.

    >>> delimited(b"abc")
    b'\\x03abc'
    """
    return varint(len(message)) + message
