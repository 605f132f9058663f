from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.internal import decoder

from explane.export import protobuf
from explane.export.columns import Part, fields, joined, little_endian, message, padded_varints

SOME = [0, 1, 127, 128, 300, 2**32, 2**63 - 1, -1, -(2**63)]


def decoded(raw: bytes) -> tuple[int, int]:
    """A varint as protobuf's own reader has it, and how many bytes it took."""
    value, end = decoder._DecodeVarint(raw, 0)  # type: ignore[attr-defined]
    return int(value), int(end)


@pytest.mark.parametrize("value", SOME)
def test_varint_is_what_protobuf_reads(value: int) -> None:
    raw = protobuf.varint(value)
    assert decoded(raw) == (value % 2**64, len(raw))


def test_varints_of_known_bytes() -> None:
    assert protobuf.varint(300) == b"\xac\x02"  # the example of protobuf's documentation
    assert protobuf.integer(1, 150) == b"\x08\x96\x01"
    assert protobuf.text(2, "testing") == b"\x12\x07testing"
    assert protobuf.integer(1, 0) == b""


def test_padded_varints_have_one_width_and_keep_their_values() -> None:
    matrix = padded_varints(np.array(SOME))
    assert matrix.shape == (len(SOME), 10)
    for value, row in zip(SOME, matrix, strict=True):
        assert decoded(row.tobytes()) == (value % 2**64, 10)
    assert padded_varints(np.array([0, 5])).tolist() == [[0], [5]]
    assert padded_varints(np.array([1, 128])).tolist() == [[0x81, 0], [0x80, 1]]
    assert padded_varints(np.zeros(0, np.int64)).shape == (0, 1)


def test_little_endian() -> None:
    assert little_endian(np.array([1, -2])).tobytes() == (1).to_bytes(8, "little") + (
        2**64 - 2
    ).to_bytes(8, "little")


def test_rows_keep_their_bytes_in_the_order_of_the_parts() -> None:
    always = fields(3, b"<", np.array([[1], [2], [3]], np.uint8))
    some = fields(3, b"?", present=np.array([True, False, True]))
    ragged = Part(np.frombuffer(b"abbc", np.uint8), np.array([1, 2, 1]))
    none = fields(3, b"!", present=np.zeros(3, bool))
    assert joined([always, some, ragged, none]) == b"<\x01?a<\x02bb<\x03?c"


def test_a_message_has_the_length_of_what_is_present() -> None:
    inner = fields(2, b"xyz", present=np.array([True, False]))
    assert joined(message(1, [inner, fields(2, b"-")])) == b"\x0a\x04xyz-\x0a\x01-"
