"""Rows told apart by several columns at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explane.capture.model import I64


def dense_key(*columns: npt.ArrayLike) -> I64:
    """One number per row, equal where all columns are equal: 0, 1, … without holes.

    Args:
        columns: Integer or boolean columns of one length; at least one.
    """
    key = np.zeros(np.shape(columns[0]), dtype=np.int64)
    for column in columns:
        _, codes = np.unique(np.asarray(column), return_inverse=True)
        key = key * (int(codes.max(initial=0)) + 1) + codes
        _, key = np.unique(key, return_inverse=True)
    dense: I64 = key.astype(np.int64)
    return dense
