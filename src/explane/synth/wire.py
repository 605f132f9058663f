"""Protobuf's wire format, for single values and for whole columns of events.

Columns are written without a Python object per event: the length of every part of every event is
known first, which gives its place in the output, and each part is then put there for all events
at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from explane.capture.model import I32, I64, U8, Bools

_MOST_BYTES = 10
VARINT, FIXED64, BYTES = 0, 1, 2


def varint(number: int) -> bytes:
    """A varint; negative numbers take ten bytes, as int64 fields do."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def int_field(field: int, value: int) -> bytes:
    """A varint field."""
    return varint(field << 3 | VARINT) + varint(value)


def bytes_field(field: int, value: bytes | str) -> bytes:
    """A length-delimited field."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | BYTES) + varint(len(raw)) + raw


def varint_lengths(values: I64) -> I64:
    """Bytes that each non-negative value takes."""
    lengths = np.ones(len(values), dtype=np.int64)
    for i in range(1, _MOST_BYTES - 1):
        longer = values >= 1 << 7 * i
        if not longer.any():
            break
        lengths += longer
    return lengths


class Columns:
    """Builds one message per row from parts that are given column by column.

    Parts are laid down in the order in which they are added. `which` leaves a part out of rows.
    """

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._parts: list[tuple[I64, I64 | I32, Sequence[bytes] | None]] = []

    def add_varints(self, values: I64, which: Bools | None = None) -> None:
        """A varint of its own value in every row."""
        lengths = varint_lengths(values)
        self._parts.append((lengths if which is None else lengths * which, values, None))

    def add_bytes(self, codes: I32, table: Sequence[bytes], which: Bools | None = None) -> None:
        """In every row the bytes that its code stands for."""
        sizes = np.array([len(raw) for raw in table], dtype=np.int64)
        lengths = sizes[codes] if len(table) else np.zeros(self._n_rows, dtype=np.int64)
        self._parts.append((lengths if which is None else lengths * which, codes, table))

    def add_constant(self, raw: bytes, which: Bools | None = None) -> None:
        """The same bytes in every row."""
        self.add_bytes(np.zeros(self._n_rows, dtype=np.int32), [raw], which)

    def delimited(self, field: int) -> U8:
        """All rows one after the other, each as a length-delimited field."""
        if not self._n_rows:
            return np.zeros(0, dtype=np.uint8)
        bodies = np.zeros(self._n_rows, dtype=np.int64)
        for lengths, _, _ in self._parts:
            bodies += lengths
        head = varint(field << 3 | BYTES)
        sizes = varint_lengths(bodies)
        totals = bodies + sizes + len(head)
        position = np.cumsum(totals) - totals
        out = np.zeros(int(totals.sum()), dtype=np.uint8)
        _put_same(out, position, head)
        position = position + len(head)
        _put_varints(out, position, bodies, sizes)
        position += sizes
        for lengths, values, table in self._parts:
            if table is None:
                _put_varints(out, position, values.astype(np.int64, copy=False), lengths)
            else:
                _put_table(out, position, values, table, lengths)
            position += lengths
        return out


def _put_same(out: U8, position: I64, raw: bytes) -> None:
    for i, byte in enumerate(raw):
        out[position + i] = byte


def _put_varints(out: U8, position: I64, values: I64, lengths: I64) -> None:
    rows = np.flatnonzero(lengths)
    for i in range(_MOST_BYTES):
        if not len(rows):
            return
        more = lengths[rows] > i + 1
        byte = (values[rows] >> 7 * i) & 0x7F
        out[position[rows] + i] = (byte | np.where(more, 0x80, 0)).astype(np.uint8)
        rows = rows[more]


def _put_table(
    out: U8,
    position: I64,
    codes: npt.NDArray[np.signedinteger],
    table: Sequence[bytes],
    lengths: I64,
) -> None:
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    for code, rows in zip(found, np.split(order, first[1:]), strict=True):
        raw = np.frombuffer(table[int(code)], dtype=np.uint8)
        rows = rows[lengths[rows] > 0]
        if len(raw) and len(rows):
            out[position[rows][:, None] + np.arange(len(raw))] = raw
