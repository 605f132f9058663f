"""Claims: every value that a report prints, with the query that gives it from the tables.

A text can be written only from spans (see `document`), and a span with a digit can come only from
here. So no number can be printed that is not a claim, and since the value of a claim is the
result of its query on the tables as written, text and tables can't drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from explane.report.formats import NUMBER_FORMATS, Value, printed


class Label(StrEnum):
    """Where a value comes from."""

    MEASURED = "measured"
    """Computed from event times or counts."""
    READ = "read"
    """Copied from metadata or a spec sheet."""
    INFERRED = "inferred"
    """An estimate; its assumptions are listed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One printed value.

    Attributes:
        id: Unique in its report.
        value: As the query gives it; None when there is none.
        unit: Format word (`ps`, `ratio`, `count`, `name`, …; see `formats`).
        label: Where it comes from.
        low, high: Least and most over steps and GPUs, in the same unit; None without a range.
        n: Over how many steps and GPUs; None without a range.
        sql: Query with one row and the columns `value` and, with a range, `low`, `high`, `n`.
        printed: The value as printed.
    """

    id: str
    value: Value
    unit: str
    label: Label
    low: Value
    high: Value
    n: Value
    sql: str
    printed: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a printed table.

    Attributes:
        name: Column of the query's result.
        title: Heading, without digits.
        unit: Format word.
        label: Where the values come from; names are read.
    """

    name: str
    title: str
    unit: str
    label: Label = Label.MEASURED

    @property
    def is_number(self) -> bool:
        """Whether the column is set to the right."""
        return self.unit in NUMBER_FORMATS


@dataclass(frozen=True, slots=True)
class Grid:
    """A printed table: one claim per cell, all from one query.

    Attributes:
        id: Unique in its report; the claim of a cell is `id.row.column` with numbers from 0.
        sql: Query whose rows are the table's, in order.
        columns: What is shown, in order.
        values, printed: Cells by row.
        n_all: Rows that there are; more than shown when the query is limited.
    """

    id: str
    sql: str
    columns: tuple[Column, ...]
    values: tuple[tuple[Value, ...], ...]
    printed: tuple[tuple[str, ...], ...]
    n_all: int


class ClaimBook:
    """Makes claims from tables and keeps them in the order in which they were made.

    Args:
        tables: Tables in their written form (`tables.written`), by file stem.
    """

    def __init__(self, tables: Mapping[str, pl.DataFrame]):
        self.tables = dict(tables)
        self.claims: list[Claim] = []
        self.grids: list[Grid] = []
        plain = {stem: _plain(frame) for stem, frame in self.tables.items()}
        self._context = pl.SQLContext(frames=plain)
        self._by_query: dict[tuple[str, str, Label], Claim] = {}

    def has_rows(self, *names: str) -> bool:
        """Whether all these tables exist and have rows."""
        return all(name in self.tables and self.tables[name].height > 0 for name in names)

    def has_columns(self, table: str, *columns: str) -> bool:
        """Whether a table exists and has these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table].columns)

    def query(self, sql: str) -> pl.DataFrame:
        """The rows of a query on the tables."""
        # Hundreds of queries on small tables: what divides large ones would take longest.
        return self._context.execute(sql).collect(engine="in-memory")

    def claim(self, sql: str, unit: str, label: Label = Label.MEASURED) -> Claim:
        """A claim from a query of one row; the same query gives the same claim.

        Args:
            sql: Gives the column `value`, and `low`, `high` and `n` for a claim with a range.
            unit: Format word.
            label: Where the value comes from.

        Raises:
            ValueError: When the query does not give one row with a column `value`.
        """
        key = (sql, unit, label)
        if key not in self._by_query:
            row = {k: finite(v) for k, v in one_row(self.query(sql), sql).items()}
            claim = Claim(
                id=f"c{len(self.claims)}",
                value=row["value"],
                unit=unit,
                label=label,
                low=row.get("low"),
                high=row.get("high"),
                n=row.get("n"),
                sql=sql,
                printed=printed(row["value"], unit),
            )
            self.claims.append(claim)
            self._by_query[key] = claim
        return self._by_query[key]

    def grid(self, sql: str, columns: Sequence[Column], limit: int) -> Grid:
        """A printed table from a query, cut at a number of rows.

        Args:
            sql: Query with a total order, without LIMIT.
            columns: Columns to show; those that the query lacks are an error.
            limit: Most rows to show.
        """
        rows = self.query(sql)
        cells = rows.head(limit).select([c.name for c in columns]).rows()
        shown = tuple(tuple(finite(value) for value in row) for row in cells)
        grid = Grid(
            id=f"g{len(self.grids)}",
            sql=f"{sql} LIMIT {limit}",
            columns=tuple(columns),
            values=shown,
            printed=tuple(
                tuple(printed(v, c.unit) for v, c in zip(row, columns, strict=True))
                for row in shown
            ),
            n_all=rows.height,
        )
        self.grids.append(grid)
        return grid


def _plain(frame: pl.DataFrame) -> pl.LazyFrame:
    """A table for queries: categorical columns are text there, made only when a query asks."""
    return frame.lazy().with_columns(pl.col(pl.Categorical).cast(pl.String))


def one_row(frame: pl.DataFrame, sql: str) -> dict[str, Value]:
    """The only row of a query's result.

    Raises:
        ValueError: When there is another number of rows, or no column `value`.
    """
    if frame.height != 1 or "value" not in frame.columns:
        raise ValueError(f"not one row with a column value: {sql}")
    return frame.row(0, named=True)


def finite(value: Value) -> Value:
    """The value, or None for a number that is not one (a ratio of nothing)."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sql_text(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
