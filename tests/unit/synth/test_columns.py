"""Columns of events as protobuf bytes, against one message at a time."""

from __future__ import annotations

import numpy as np

from explane.synth.wire import Columns, varint_lengths
from tests.wire_writer import bytes_field, varint

VALUES = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**35 - 1, 2**35, 2**56, 2**62, 2**63 - 1]


def test_lengths_of_varints() -> None:
    found = varint_lengths(np.array(VALUES, dtype=np.int64))
    assert found.tolist() == [len(varint(value)) for value in VALUES]


def test_rows_equal_messages_written_one_by_one() -> None:
    random = np.random.default_rng(5)
    values = np.concatenate([VALUES, random.integers(0, 2**40, 500)]).astype(np.int64)
    which = random.random(len(values)) < 0.5
    codes = random.integers(0, 3, len(values)).astype(np.int32)
    table = [b"", b"one", b"x" * 300]

    columns = Columns(len(values))
    columns.add_bytes(codes, table)
    columns.add_varints(values)
    columns.add_constant(b"\x2a", which)
    columns.add_varints(values // 3, which)
    columns.add_bytes(codes, table, ~which)

    expected = b""
    for value, chosen, code in zip(values.tolist(), which, codes, strict=True):
        body = table[code] + varint(value)
        body += b"\x2a" + varint(value // 3) if chosen else table[code]
        expected += bytes_field(4, body)
    assert columns.delimited(4).tobytes() == expected


def test_no_rows_give_no_bytes() -> None:
    columns = Columns(0)
    columns.add_varints(np.zeros(0, dtype=np.int64))
    columns.add_bytes(np.zeros(0, dtype=np.int32), [])
    assert columns.delimited(4).tobytes() == b""
