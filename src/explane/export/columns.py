"""Protobuf messages for many rows at once: bytes as columns, without a Python object per event.

Every row is one message; a `Part` holds the bytes that a field has in each row. Numbers of one
column are written with as many bytes as the largest of them needs: protobuf readers accept varints
that are padded with empty groups (`0x81 0x00` is 1), and a fixed width makes the column a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explane.capture.model import I64, U8, Bools
from explane.export.protobuf import LENGTH, tag

U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of every row.

    Attributes:
        data: The bytes of row 0, then those of row 1, and so on.
        lengths: How many bytes each row has; shape (n_rows,).
    """

    data: U8
    lengths: I64


def padded_varints(values: I64) -> U8:
    """Varints of equal width; shape (n_rows, width). Negative numbers as protobuf's int64."""
    numbers: U64 = np.asarray(values, np.int64).view(np.uint64)
    largest = int(numbers.max(initial=0))
    width = max(-(-largest.bit_length() // 7), 1)
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = (numbers[:, None] >> shifts) & np.uint64(0x7F)
    groups[:, :-1] |= np.uint64(0x80)
    return groups.astype(np.uint8)


def little_endian(values: I64) -> U8:
    """Fixed 64-bit numbers; shape (n_rows, 8)."""
    return np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(len(values), 8)


def fields(n_rows: int, *items: bytes | U8, present: Bools | None = None) -> Part:
    """Bytes of equal width in every row, or none in the rows that are not present.

    Args:
        n_rows: Number of rows.
        items: Bytes that are the same in every row, or a matrix of shape (n_rows, width).
        present: Rows that have these bytes; None for all.
    """
    columns = [
        np.broadcast_to(np.frombuffer(item, np.uint8), (n_rows, len(item)))
        if isinstance(item, bytes)
        else item
        for item in items
    ]
    matrix = np.hstack(columns)
    if present is None:
        return Part(matrix.reshape(-1), np.full(n_rows, matrix.shape[1], np.int64))
    return Part(matrix[present].reshape(-1), np.where(present, matrix.shape[1], 0))


def message(number: int, parts: Sequence[Part]) -> list[Part]:
    """The parts of a message field: its tag and length in front of those of its content."""
    lengths: I64 = np.array([part.lengths for part in parts], np.int64).sum(axis=0)
    return [fields(len(lengths), tag(number, LENGTH), padded_varints(lengths)), *parts]


def joined(parts: Sequence[Part]) -> bytes:
    """All rows, each with its bytes of every part in order."""
    lengths = np.array([part.lengths for part in parts])
    ends = np.cumsum(lengths.T.reshape(-1)).reshape(lengths.shape[1], lengths.shape[0]).T
    out = np.empty(int(lengths.sum()), np.uint8)
    for part, end in zip(parts, ends, strict=True):
        start_here = np.cumsum(part.lengths) - part.lengths
        place = np.repeat(end - part.lengths - start_here, part.lengths)
        out[place + np.arange(len(part.data))] = part.data
    return out.tobytes()
