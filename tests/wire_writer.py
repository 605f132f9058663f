"""The protobuf wire format, as little of it as the builders need."""

from __future__ import annotations

from collections.abc import Sequence


def varint(number: int) -> bytes:
    """A base-128 varint; negative numbers take ten bytes, as int64 fields do."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """A varint field, written even when its value is 0."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """A length-delimited field; text is encoded so that surrogate escapes give bad UTF-8."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def packed_field(number: int, values: Sequence[int]) -> bytes:
    """A packed repeated integer field; nothing when empty."""
    return bytes_field(number, b"".join(map(varint, values))) if values else b""


def entry(key: int, value: bytes) -> bytes:
    """One entry of a map field."""
    return int_field(1, key) + bytes_field(2, value)
