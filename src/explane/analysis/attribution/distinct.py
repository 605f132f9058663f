"""Distinct rows of integer columns, counted without sorting rows where their ranges allow.

`numpy.unique` over several columns compares rows as bytes, which costs more than everything else
that attribution does to a large capture. Columns with small ranges are packed into one key here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]

_ROOM: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct rows.

    Attributes:
        columns: One array per column, values of the m distinct rows in ascending order.
        code: For each row, the index of its value among the distinct ones.
        counts: How often each occurs.
    """

    columns: tuple[Ints, ...]
    code: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.counts)

    def rows(self) -> list[tuple[int, ...]]:
        """The distinct rows as tuples."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def distinct(*columns: AnyInts) -> Distinct:
    """Distinct rows of columns of equal length."""
    n = len(columns[0])
    if not n:
        none = np.empty(0, dtype=np.int64)
        return Distinct(tuple(none for _ in columns), none, none)
    limit = 4 * n + _ROOM
    key, size = _dense(columns[0], limit)
    for column in columns[1:]:
        other, width = _dense(column, limit)
        size *= width
        key *= width
        key += other
        if size > limit:
            key, size = _dense(key, limit)
    present = np.zeros(size, dtype=np.bool_)
    present[key] = True
    rank = np.cumsum(present, dtype=np.int32)  # many times longer than there are rows
    code = rank[key].astype(np.int64)
    code -= 1
    m = int(rank[-1])
    row = np.empty(m, dtype=np.int64)
    row[code] = np.arange(n)
    values = tuple(column[row].astype(np.int64) for column in columns)
    return Distinct(values, code, np.bincount(code, minlength=m))


def _dense(values: AnyInts, limit: int) -> tuple[Ints, int]:
    """Values as numbers from 0 that keep their order, a new array; how many numbers there are."""
    low, high = int(values.min()), int(values.max())
    if high - low < limit:
        return np.subtract(values, low, dtype=np.int64), high - low + 1
    unique, code = np.unique(values, return_inverse=True)
    return np.asarray(code, dtype=np.int64).reshape(-1), len(unique)


def order_by(*columns: AnyInts) -> Ints:
    """Stable order by columns, the first one counting most; cheap where few values occur."""
    n = len(columns[0])
    if not n:
        return np.empty(0, dtype=np.int64)
    key = distinct(*columns).code
    small = key.astype(np.uint16) if int(key.max()) < 1 << 16 else key
    return np.argsort(small, kind="stable")
