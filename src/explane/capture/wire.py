"""The protobuf wire format, one field at a time: for everything of which a file holds few.

Events and their stats, of which a file holds millions, go through `events` instead. Lengths in a
file are never trusted: every span is checked against the span that holds it, and nothing is
allocated by a length. Encoding: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Final, NamedTuple

Buffer = bytes | mmap.mmap

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

_MASK64: Final = (1 << 64) - 1
_MAX_VARINT_BYTES: Final = 10
_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """The bytes are not a protobuf message.

    Attributes:
        offset: Byte offset in the file where reading stopped.
        reason: One clause.
    """

    def __init__(self, offset: int, reason: str):
        super().__init__(f"{reason} at byte {offset}")
        self.offset = offset
        self.reason = reason


class Span(NamedTuple):
    """A range of bytes in the file, end exclusive."""

    start: int
    end: int


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Field number.
        wire: Wire type.
        start: Where its content begins (after tag and length).
        end: Where its content ends, exclusive.
        value: The unsigned number of a VARINT, FIXED32 or FIXED64 field; 0 for LENGTH.
    """

    number: int
    wire: int
    start: int
    end: int
    value: int


def read_varint(
    buffer: Buffer, position: int, end: int, field: int | None = None
) -> tuple[int, int]:
    """A base-128 varint and the position after it.

    Args:
        buffer: The file.
        position: First byte of the varint.
        end: End of the message that holds it.
        field: Offset to name in an error; by default that of the varint.

    Returns:
        The value modulo 2**64 (unsigned) and the position of the next byte.

    Raises:
        WireError: It runs over `end` or is longer than ten bytes.
    """
    value = shift = 0
    for at in range(position, min(end, position + _MAX_VARINT_BYTES)):
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at + 1
        shift += 7
    reason = "a number is cut off" if end - position < _MAX_VARINT_BYTES else "a number never ends"
    raise WireError(position if field is None else field, reason)


def fields(buffer: Buffer, start: int, end: int) -> Iterator[Field]:
    """All fields of the message in `buffer[start:end]`, known or not, in file order.

    Raises:
        WireError: At the first byte that can't be a field of this message.
    """
    position = start
    while position < end:
        tag, at = read_varint(buffer, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError(position, "a field has number 0")
        value = 0
        if wire == VARINT:
            begin = at
            value, at = read_varint(buffer, at, end, position)
        else:
            size, begin = _content(buffer, position, at, end, wire)
            at = begin + size
            if size > end - begin:
                room = end - begin
                raise WireError(position, f"a field says {size} bytes where {room} are left")
            if wire != LENGTH:
                value = int.from_bytes(buffer[begin:at], "little")
        yield Field(number, wire, begin, at, value)
        position = at


def _content(buffer: Buffer, position: int, at: int, end: int, wire: int) -> tuple[int, int]:
    """Size and start of the content of a field that is not a varint."""
    if wire == LENGTH:
        return read_varint(buffer, at, end, position)
    if wire not in _FIXED_SIZES:
        raise WireError(position, f"wire type {wire} does not occur in this format")
    return _FIXED_SIZES[wire], at


def signed(value: int) -> int:
    """An unsigned 64-bit number read as int64 (negative int64 are stored as ten-byte varints)."""
    return value - (1 << 64) if value >> 63 else value
