"""Protobuf's wire format, written: the few field types that the exports use.

Messages of other tools are small and fixed, so they are written by field number and need no
generated code. https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
_64_BITS: Final = (1 << 64) - 1


def varint(value: int) -> bytes:
    """A base-128 varint; a negative int64 takes ten bytes, as protobuf wants it."""
    rest = value & _64_BITS
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """What stands before a field's value."""
    return varint(number << 3 | wire_type)


def integer(number: int, value: int) -> bytes:
    """An int64, uint64, enum or bool field; 0 is protobuf's default and is left out."""
    return tag(number, VARINT) + varint(value) if value else b""


def content(number: int, *parts: bytes) -> bytes:
    """A field with a length: a message of its encoded fields, or bytes."""
    body = b"".join(parts)
    return tag(number, LENGTH) + varint(len(body)) + body


def text(number: int, value: str) -> bytes:
    """A string field."""
    return content(number, value.encode("utf-8", "replace"))


def packed(number: int, values: Iterable[int]) -> bytes:
    """A repeated integer field in packed form; nothing without values."""
    body = b"".join(varint(value) for value in values)
    return content(number, body) if body else b""
