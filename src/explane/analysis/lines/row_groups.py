"""Rows of a table told apart by some of its columns, and sums over each group, by columns.

For tables with a row per event: a group-by of a data frame makes a key per row of all texts and
numbers, and groups by instruction, GPU and step are nearly as many as the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.distinct import Distinct, Ints, distinct, one_of_each, ranks
from explane.capture.model import I32, I64, Bools


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Groups of rows.

    Attributes:
        number: Group of each row: 0, 1, ….
        first: First row of each group.
    """

    number: I32
    first: I64

    def __len__(self) -> int:
        return len(self.first)

    def sizes(self, rows: Bools | None = None) -> I64:
        """Rows of each group, or how many of some rows."""
        number = self.number if rows is None else self.number[rows]
        return np.bincount(number, minlength=len(self)).astype(np.int64)

    def total(self, values: I64) -> I64:
        """Sum of each group's values."""
        return _sums(self.number, values, len(self))

    def within(self, *columns: pl.Series) -> Distinct:
        """Distinct combinations of group and columns; missing values are -1."""
        return distinct(self.number, *(codes(column) for column in columns))

    def n_distinct(self, *columns: pl.Series) -> I64:
        """How many combinations of values each group has; a missing value is one too."""
        some = one_of_each(self.number, *(codes(column) for column in columns))
        return np.bincount(self.number[some], minlength=len(self)).astype(np.int64)

    def most_frequent(self, column: pl.Series) -> pl.Series:
        """The text that most rows of each group have; of several the first in order."""
        found = self.within(column)
        group, code = found.columns
        counted = pl.DataFrame({"group": group, "code": code, "n": found.counts})
        best = (
            counted.join(texts(column), on="code", how="left")
            .sort("group", "n", "text", descending=[False, True, False])
            .unique("group", keep="first", maintain_order=True)
        )
        return best["text"].alias(column.name)

    def per_step(self, device: pl.Series, step: pl.Series, values: I64) -> pl.DataFrame:
        """Least and most sum of each group in one (device, step), and in how many it has rows.

        Returns:
            low_ps, high_ps, n; missing for a group without a row in any step.
        """
        rows = step.is_not_null().to_numpy()
        number = self.number[rows]
        cell = ranks(number, codes(device)[rows], codes(step)[rows])
        n_cells = int(cell.max(initial=-1)) + 1
        sums = _sums(cell, values[rows], n_cells)
        of_cell = np.zeros(n_cells, dtype=np.int32)
        of_cell[cell] = number
        low = np.full(len(self), np.iinfo(np.int64).max)
        high = np.full(len(self), np.iinfo(np.int64).min)
        np.minimum.at(low, of_cell, sums)
        np.maximum.at(high, of_cell, sums)
        n = np.bincount(of_cell, minlength=len(self)).astype(np.int64)
        frame = pl.DataFrame({"low_ps": low, "high_ps": high, "n": n})
        return frame.select(pl.when(pl.col("n") > 0).then(pl.all()))


def row_groups(frame: pl.DataFrame, keys: list[str]) -> RowGroups:
    """Groups of the rows of a table by columns of whole numbers and categorical texts."""
    number = ranks(*(codes(frame[key]) for key in keys))
    first = np.full(int(number.max(initial=-1)) + 1, len(number))
    np.minimum.at(first, number, np.arange(len(number)))
    return RowGroups(number, first)


def codes(column: pl.Series) -> Ints:
    """A number for each value, -1 for a missing one: the value itself, or that of its text."""
    if column.dtype == pl.Categorical:
        return column.to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
    return column.cast(pl.Int64).fill_null(-1).to_numpy()


def texts(column: pl.Series) -> pl.DataFrame:
    """The distinct values of a categorical column: `code` and `text`."""
    found = column.unique()
    return pl.DataFrame({"code": codes(found), "text": found.cast(pl.String)})


def _sums(group: I32, values: I64, n_groups: int) -> I64:
    total = np.zeros(n_groups, dtype=np.int64)
    np.add.at(total, group, values)
    return total
