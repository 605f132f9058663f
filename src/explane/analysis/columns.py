"""Frozen columns to polars columns: the one place where text codes become text.

Tables with a row per event hold their texts as `Categorical`: a number per row, each text once.
Tables that are made of them by grouping hold plain texts again (`plain_texts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from explane.capture.model import I32, I64, U8


def text_column(name: str, codes: I32 | I64, strings: Sequence[str]) -> pl.Series:
    """A text column from codes into a pool; a negative code gives null.

    Args:
        name: Name of the column.
        codes: Shape (n,), index into `strings` or negative.
        strings: The pool.
    """
    pool = pl.Series(name, [*strings, None], dtype=pl.String)
    return pool.gather(np.where(codes < 0, len(strings), codes).astype(np.uint32))


def coded_column(name: str, codes: I32 | I64 | U8, strings: Sequence[str | None]) -> pl.Series:
    """A categorical column from codes into a pool; -1 gives null.

    Args:
        name: Name of the column.
        codes: Shape (n,), index into `strings` or -1.
        strings: The pool; only texts that occur become categories.
    """
    used = np.zeros(len(strings) + 1, dtype=np.bool_)
    used[codes] = True  # a missing code marks the place behind the last text
    kept = np.flatnonzero(used)
    pool = [strings[code] if code < len(strings) else None for code in kept.tolist()]
    among_kept = np.cumsum(used, dtype=np.uint32)
    among_kept -= 1
    return pl.Series(name, pool, dtype=pl.String).cast(pl.Categorical).gather(among_kept[codes])


def same_text(name: str, text: str, n_rows: int) -> pl.Series:
    """A categorical column that has one text in every row."""
    return coded_column(name, np.zeros(n_rows, dtype=np.uint8), [text])


def plain_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """A table with plain texts in the place of categorical ones."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def id_column(name: str, values: I64) -> pl.Series:
    """An integer column where a missing id (-1) is null."""
    series = pl.Series(name, values)
    return series.set(series == -1, None)
