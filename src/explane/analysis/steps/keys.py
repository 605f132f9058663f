"""Rows told apart by several columns at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explane.capture.model import I64

_MOST_GAPS = 4
"""Values are ranked by counting, not by sorting, when their range is at most so many times their
number."""


def dense_key(*columns: npt.ArrayLike) -> I64:
    """One number per row, equal where all columns are equal: 0, 1, … without holes.

    The numbers are in the order of the rows by their columns, the first column first.

    Args:
        columns: Integer or boolean columns of one length; at least one.
    """
    key = np.zeros(np.shape(columns[0]), dtype=np.int64)
    for column in columns:
        codes = ranks(np.asarray(column))
        key = ranks(key * (int(codes.max(initial=0)) + 1) + codes)
    return key


def ranks(values: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> I64:
    """The place of each value among the distinct ones: `np.unique(…, return_inverse=True)[1]`."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    low = int(values.min())
    reach = int(values.max()) - low + 1
    if reach > _MOST_GAPS * len(values) + 64:
        sorted_ranks: I64 = np.unique(values, return_inverse=True)[1].astype(np.int64)
        return sorted_ranks
    place: I64 = values.astype(np.int64)
    place -= low
    seen = np.zeros(reach, dtype=np.bool_)
    seen[place] = True
    if seen.all():
        return place
    counted: I64 = (np.cumsum(seen) - 1)[place]
    return counted
