"""Distinct rows of integer columns, counted without sorting rows where their ranges allow.

`numpy.unique` over several columns compares rows as bytes, which costs more than everything else
that is done to a large capture. Columns with small ranges are packed into one key here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from explane.capture.model import I32, I64, Bools

Ints = npt.NDArray[np.signedinteger[Any]]
"""Whole numbers of any width: rows, codes and places take 32 bits, times and ids 64."""

AnyInts = npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]

_ROOM: Final = 1 << 20
_ROOM_PER_ROW: Final = 64
"""Few rows are sorted faster than a table of all values is walked."""

_BLOCK: Final = 1 << 18
_NARROW: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct rows.

    Attributes:
        columns: One array per column, values of the m distinct rows in ascending order.
        code: For each row, the index of its value among the distinct ones.
        counts: How often each occurs.
    """

    columns: tuple[I64, ...]
    code: I32
    counts: I64

    def __len__(self) -> int:
        return len(self.counts)

    def rows(self) -> list[tuple[int, ...]]:
        """The distinct rows as tuples."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def distinct(*columns: AnyInts) -> Distinct:
    """Distinct rows of columns of equal length."""
    code, n_codes = _numbered(columns)
    row = _some_row(code, n_codes)
    values = tuple(column[row].astype(np.int64) for column in columns)
    return Distinct(values, code, np.bincount(code, minlength=n_codes))


def one_of_each(*columns: AnyInts) -> I32:
    """A row of each distinct combination of values, in their order."""
    return _some_row(*_numbered(columns))


def ranks(*columns: AnyInts) -> I32:
    """The place of each row among the distinct ones, as `numpy.unique` has it: 0, 1, … no holes.

    Args:
        columns: Columns of one length, the first one counting most.
    """
    return _numbered(columns)[0]


def all_or_some(chosen: Bools) -> slice | I64:
    """Index of the chosen rows, one that copies nothing where all are."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def order_by(*columns: AnyInts) -> I64:
    """Stable order by columns, the first one counting most; cheap where few values occur."""
    key, n_keys = _numbered(columns)
    small = key.astype(np.uint16) if n_keys < 1 << 16 else key
    return np.argsort(small, kind="stable")


def _numbered(columns: tuple[AnyInts, ...]) -> tuple[I32, int]:
    """Number of each row among the distinct ones, and how many these are."""
    n = len(columns[0])
    if not n:
        return np.empty(0, dtype=np.int32), 0
    limit = 4 * n + min(_ROOM, _ROOM_PER_ROW * n)
    key: Ints = np.zeros(n, dtype=np.int32)
    size = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if high - low >= limit:
            column = np.unique(column, return_inverse=True)[1].reshape(-1)
            low, high = 0, int(column.max())
        size *= high - low + 1
        if size >= _NARROW:
            key = key.astype(np.int64)
        key *= high - low + 1
        for block in _blocks(n):
            key[block] += np.subtract(column[block], low, dtype=np.int64).astype(key.dtype)
        if size > limit:
            key, size = _closed_up(key, size, limit)
    return _closed_up(key, size, limit)


def _some_row(code: I32, n_codes: int) -> I32:
    """A row for each number."""
    row = np.zeros(n_codes, dtype=np.int32)
    row[code] = np.arange(len(code), dtype=np.int32)
    return row


def _closed_up(key: Ints, size: int, limit: int) -> tuple[I32, int]:
    """Numbers from 0 without those that don't occur, in their order."""
    if size > limit:
        unique, code = np.unique(key, return_inverse=True)
        return code.reshape(-1).astype(np.int32), len(unique)
    present = np.zeros(size, dtype=np.bool_)
    present[key] = True
    if present.all():
        return key.astype(np.int32, copy=False), size
    rank = np.cumsum(present, dtype=np.int32)
    rank -= 1
    return rank[key], int(rank[-1]) + 1


def _blocks(n: int) -> Iterator[slice]:
    """Slices of many rows each: what is worked out for one of them takes little memory."""
    return (slice(first, first + _BLOCK) for first in range(0, n, _BLOCK))
