"""The wire format field by field: what protobuf allows, and what is no message."""

from __future__ import annotations

import pytest

from explane.capture.wire import FIXED32, FIXED64, LENGTH, VARINT, WireError, fields, signed
from tests.builders import bytes_field, int_field, varint


def test_fields_of_all_wire_types_with_their_places() -> None:
    message = int_field(1, -3) + bytes_field(2, "ab") + varint(3 << 3 | 5) + b"\x01\x00\x00\x80"
    message += varint(300 << 3 | 1) + b"\x02" + bytes(7) + bytes_field(4, "")
    found = list(fields(message, 0, len(message)))
    assert [(f.number, f.wire) for f in found] == [
        (1, VARINT),
        (2, LENGTH),
        (3, FIXED32),
        (300, FIXED64),
        (4, LENGTH),
    ]
    assert signed(found[0].value) == -3
    assert message[found[1].start : found[1].end] == b"ab"
    assert found[2].value == 0x80000001
    assert found[3].value == 2
    assert found[4].start == found[4].end == len(message)


def test_a_message_inside_a_file_has_offsets_of_the_file() -> None:
    (found,) = fields(b"xxx" + int_field(1, 5) + b"yyy", 3, 5)
    assert (found.start, found.end, found.value) == (4, 5, 5)


@pytest.mark.parametrize(
    ("message", "offset", "reason"),
    [
        (int_field(1, 5) + b"\x80", 2, "cut off"),
        (b"\x08", 0, "cut off"),
        (b"\x08" + b"\xff" * 10, 0, "never ends"),
        (b"\x02\x01a", 0, "number 0"),
        (int_field(1, 5) + b"\x0b", 2, "wire type 3"),
        (b"\x0f\x01", 0, "wire type 7"),
        (int_field(1, 5) + b"\x12\x05abcd", 2, "says 5 bytes where 4 are left"),
        (b"\x12" + varint(2**63) + b"abc", 0, f"says {2**63} bytes where 3"),
        (b"\x12" + varint(2**31 + 5) + b"abc", 0, f"says {2**31 + 5} bytes"),
        (b"\x09abcdefg", 0, "says 8 bytes where 7"),
    ],
)
def test_what_is_no_message_is_named_with_its_offset(
    message: bytes, offset: int, reason: str
) -> None:
    with pytest.raises(WireError, match=reason) as damage:
        list(fields(message, 0, len(message)))
    assert damage.value.offset == offset


def test_fields_before_the_damage_are_given() -> None:
    walk = fields(int_field(1, 5) + b"\x0f", 0, 3)
    assert next(walk).value == 5
    with pytest.raises(WireError):
        next(walk)


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_signed(value: int) -> None:
    assert signed(value & (1 << 64) - 1) == value
