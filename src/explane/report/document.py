"""The report as a document: sections of blocks of spans, the same for every writer.

A span is either fixed prose, which may hold no digit, or a printed claim. That is how "every
number is a claim" holds by construction: there is no other way to put a digit into a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from explane.report.claims import Claim, Grid
from explane.report.formats import NUMBER_FORMATS, Value, printed
from explane.report.text import has_digit

CODE_FORMATS = frozenset({"name", "path", "scope", "code"})
"""Formats that are set as code: they are names, not prose."""


@dataclass(frozen=True, slots=True)
class Text:
    """Fixed prose of ours, without digits.

    Raises:
        ValueError: When it holds a digit: numbers must be claims.
    """

    text: str

    def __post_init__(self) -> None:
        if has_digit(self.text):
            raise ValueError(f"a number outside a claim: {self.text!r}")


@dataclass(frozen=True, slots=True)
class Printed:
    """A claimed value in a text.

    Attributes:
        text: As printed, not escaped for any format.
        ref: Which claim: `c3`, a part of its range `c3.low`, or a cell `g2.0.4`.
        unit: Format word of the claim.
        label: Word of its label.
        raw: The value as text: what is searched, sorted and marked by.
    """

    text: str
    ref: str
    unit: str
    label: str
    raw: str

    @property
    def is_code(self) -> bool:
        """Whether it is a name to be set as code."""
        return self.unit in CODE_FORMATS

    @property
    def is_number(self) -> bool:
        """Whether it is a number with its unit."""
        return self.unit in NUMBER_FORMATS


@dataclass(frozen=True, slots=True)
class Link:
    """Prose that leads to a section."""

    text: str
    anchor: str

    def __post_init__(self) -> None:
        if has_digit(self.text + self.anchor):
            raise ValueError(f"a number outside a claim: {self.text!r}")


Span = Text | Printed | Link
Spans = tuple[Span, ...]


def spans(*parts: str | Span) -> Spans:
    """Spans of a line; plain strings become prose.

    Raises:
        ValueError: When two claims touch, since their digits would run into one number.
    """
    line = tuple(Text(p) if isinstance(p, str) else p for p in parts if p != "")
    for left, right in pairwise(line):
        if isinstance(left, Printed) and isinstance(right, Printed):
            raise ValueError(f"two claims without prose between: {left.text!r} {right.text!r}")
    return line


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text. `role` is `normal`, `lead` (the answer of a section) or `note` (small)."""

    line: Spans
    role: str = "normal"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list without order."""

    items: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A column of a table that names a thing which other tables and charts show too.

    Attributes:
        column: The column that names it.
        kind: `op`, `line` or `scope`.
        keys: What tells it from others of the kind, by row; None where there is nothing to pick.
    """

    column: str
    kind: str
    keys: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A printed table.

    Attributes:
        grid: Its claims.
        caption: What it shows; no digits.
        file: Path of the table that holds all rows, without digits.
        total: Claim of the number of rows that there are; writers that show fewer print it.
        marks: What a click on a cell picks on the page, and what marks a row there.
        text_rows: Most rows in the Markdown; the page shows more, the file all.
    """

    grid: Grid
    caption: str
    file: str
    total: Printed
    marks: tuple[Mark, ...] = ()
    text_rows: int = 15

    def labels(self) -> str:
        """Which numbers are measured, which read and which inferred."""
        by_label: dict[str, list[str]] = {}
        for column in self.grid.columns:
            if column.is_number and column.unit != "id":
                by_label.setdefault(column.label, []).append(column.title)
        return "; ".join(f"{label}: {', '.join(titles)}" for label, titles in by_label.items())

    def rest(self, n_shown: int) -> Spans:
        """Says how many rows there are and where, when a writer shows fewer."""
        if self.grid.n_all <= n_shown:
            return ()
        return spans("The first of ", self.total, f" rows; all of them are in `{self.file}`.")


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, stored as `pictures/<stem>.svg` and drawn on the page from the same description."""

    stem: str
    alt: str
    caption: Spans


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be typed or written by the user, each a span of its own."""

    lines: tuple[Printed, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a section, or a part of it, is empty."""

    line: Spans


Block = Paragraph | Bullets | Table | Picture | Code | Reason


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report; `anchor` is a short word, unique in the document.

    `short` is its title where room is scarce; empty when that is the title itself.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""

    def __post_init__(self) -> None:
        if has_digit(self.title + self.anchor + self.short):
            raise ValueError(f"a number in the title of a section: {self.title!r}")


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report: `summary` is what stands at its head, `sections` what follows."""

    title: str
    subtitle: Spans
    summary: tuple[Block, ...]
    sections: tuple[Section, ...]


def value_of(claim: Claim) -> Printed:
    """The span of a claim's value."""
    return Printed(claim.printed, claim.id, claim.unit, claim.label, _raw(claim.value))


def part_of(claim: Claim, part: str) -> Printed:
    """The span of `low`, `high` or `n` of a claim's range."""
    value: Value = {"low": claim.low, "high": claim.high, "n": claim.n}[part]
    unit = "count" if part == "n" else claim.unit
    return Printed(printed(value, unit), f"{claim.id}.{part}", unit, claim.label, _raw(value))


def cell_of(grid: Grid, row: int, column: int) -> Printed:
    """The span of a cell of a table."""
    shape = grid.columns[column]
    return Printed(
        grid.printed[row][column],
        f"{grid.id}.{row}.{column}",
        shape.unit,
        shape.label,
        _raw(grid.values[row][column]),
    )


def _raw(value: Value) -> str:
    return "" if value is None else str(value)
