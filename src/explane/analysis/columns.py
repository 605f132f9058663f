"""Frozen columns to polars columns: the one place where text codes become text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from explane.capture.model import I32, I64


def text_column(name: str, codes: I32 | I64, strings: Sequence[str]) -> pl.Series:
    """A text column from codes into a pool; a negative code gives null.

    Args:
        name: Name of the column.
        codes: Shape (n,), index into `strings` or negative.
        strings: The pool.
    """
    pool = pl.Series(name, [*strings, None], dtype=pl.String)
    return pool.gather(np.where(codes < 0, len(strings), codes).astype(np.uint32))


def id_column(name: str, values: I64) -> pl.Series:
    """An integer column where a missing id (-1) is null."""
    series = pl.Series(name, values)
    return series.set(series == -1, None)
