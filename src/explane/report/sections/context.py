"""What every section is built with: claims from queries, and phrases made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explane.analysis.hosts.table import MOST_IN_DETAIL
from explane.report.claims import Claim, ClaimBook, Column, Label, sql_text
from explane.report.document import (
    Mark,
    Printed,
    Reason,
    Span,
    Spans,
    Table,
    part_of,
    spans,
    value_of,
)
from explane.report.sections.sql import added_up

PAGE_ROWS = 200
"""Rows of a table that are claimed; the files hold all."""


_DETAIL: Final = "SELECT host FROM hosts WHERE in_detail = 1"


@dataclass(frozen=True, slots=True)
class Context:
    """Claims and the tables that they come from.

    Attributes:
        book: Makes claims.
        n_hosts: Processes in the investigation; with several, tables show the host.
        folder_of: Folder in which a table is written, by file stem.
    """

    book: ClaimBook
    n_hosts: int
    folder_of: dict[str, str]

    def has(self, *tables: str) -> bool:
        """Whether all these tables have rows."""
        return self.book.has_rows(*tables)

    def any(self, sql: str) -> bool:
        """Whether a query has rows."""
        return self.book.query(sql).height > 0

    def rows(self, sql: str) -> int:
        """How many rows a query has."""
        return self.book.query(sql).height

    @property
    def many(self) -> bool:
        """Whether there are more processes than are shown one by one."""
        return self.n_hosts > MOST_IN_DETAIL

    @property
    def only(self) -> str:
        """What captions of tables and pictures of some processes end with."""
        return " Processes in detail only." if self.many else ""

    def detail(self, table: str) -> str:
        """A table to select from, of many processes those that are shown in detail."""
        if not self.many:
            return table
        return f"(SELECT * FROM {table} WHERE host IN ({_DETAIL})) AS {table}"

    def whole(self, table: str) -> str:
        """`ops`, `lines` or `trust` to select from, the rows of several processes added up."""
        return table if self.n_hosts < 2 else added_up(table, self.book.tables[table].columns)

    def value(self, sql: str, unit: str, label: Label = Label.MEASURED) -> Printed:
        """A claimed value; `sql` gives one row with the column `value`."""
        return value_of(self.book.claim(sql, unit, label))

    def text(self, sql: str, unit: str = "name") -> Printed:
        """A name or sentence from a table."""
        return value_of(self.book.claim(sql, unit, Label.READ))

    def ranged(self, sql: str, unit: str, label: Label = Label.MEASURED) -> Spans:
        """A value with its range: `sql` gives `value`, `low`, `high` and `n`."""
        return with_range(self.book.claim(sql, unit, label))

    def column(self, name: str, title: str, unit: str, label: Label | None = None) -> Column:
        """A column; names are read and numbers measured unless said otherwise."""
        column = Column(name, title, unit)
        default = Label.MEASURED if column.is_number and unit != "id" else Label.READ
        return Column(name, title, unit, label or default)

    def table(
        self,
        stem: str,
        sql: str,
        columns: Sequence[Column],
        caption: str,
        marks: Sequence[tuple[str, str, str]] = (),
        text_rows: int = 15,
    ) -> Table:
        """A printed table from a query with a total order.

        Args:
            stem: Table whose file holds all rows.
            sql: The query, without LIMIT.
            columns: Columns to show; `host` is left out when there is one host only.
            caption: What it shows, without digits.
            marks: Columns that name an `op`, a `line` or a `scope`: column, kind, and the column
                of the query that tells it from others.
            text_rows: Most rows in the Markdown.
        """
        shown = [c for c in columns if c.name != "host" or self.n_hosts > 1]
        grid = self.book.grid(sql, shown, PAGE_ROWS)
        if _DETAIL in sql:
            caption += self.only
        count = f"SELECT COUNT(*) AS value FROM ({sql}) AS counted"
        return Table(
            grid=grid,
            caption=caption,
            file=f"{self.folder_of.get(stem, 'tables')}/{stem}.csv",
            total=self.value(count, "count"),
            marks=self._marks(sql, marks),
            text_rows=text_rows,
        )

    def _marks(self, sql: str, marks: Sequence[tuple[str, str, str]]) -> tuple[Mark, ...]:
        if not marks:
            return ()
        rows = self.book.query(sql).head(PAGE_ROWS)
        return tuple(Mark(column, kind, tuple(rows[key])) for column, kind, key in marks)

    def reasons(self, words: Sequence[str], otherwise: str) -> tuple[Reason, ...]:
        """Why a section is empty: what the analyses said of it, else a sentence of ours.

        Args:
            words: Section words under which analyses may have given their reasons.
            otherwise: Said when they gave none.
        """
        if not self.has("not_analysed"):
            return (Reason(spans(otherwise)),)
        listed = ", ".join(sql_text(word) for word in words)
        where = f"FROM not_analysed WHERE section IN ({listed})"
        n = int(self.book.query(f"SELECT COUNT(*) AS n {where}")["n"][0])
        found = [
            self.text(
                f"SELECT reason AS value {where} ORDER BY section, reason LIMIT 1 OFFSET {i}",
                "prose",
            )
            for i in range(n)
        ]
        if not found:
            return (Reason(spans(otherwise)),)
        return tuple(Reason(spans("Not analysed: ", reason, ".")) for reason in found)


def with_range(claim: Claim) -> Spans:
    """A value, its range over steps and GPUs where it has one, and its label."""
    line: list[str | Span] = [value_of(claim)]
    if claim.n is None or claim.low is None:
        line.append(f" ({claim.label})")
    elif claim.low == claim.high:
        line += [" (the same in all ", part_of(claim, "n"), f", {claim.label})"]
    elif part_of(claim, "low").text == part_of(claim, "high").text:
        line += [" (the same to the last digit shown in all ", part_of(claim, "n")]
        line += [f", {claim.label})"]
    else:
        line += [" (from ", part_of(claim, "low"), " to ", part_of(claim, "high")]
        line += [", n = ", part_of(claim, "n"), f", {claim.label})"]
    return spans(*line)
