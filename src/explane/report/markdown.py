"""A document as Markdown that reads well on GitHub and in a terminal.

Names from the capture are set as code, which needs no escaping but for backticks and pipes; prose
from tables is escaped. Each writer also returns the printed claims in the order in which they
stand in the text, as they were written: the fact check looks for exactly these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from explane.report.document import (
    Block,
    Bullets,
    Code,
    Document,
    Link,
    Paragraph,
    Picture,
    Printed,
    Reason,
    Section,
    Span,
    Spans,
    Table,
    cell_of,
    spans,
)

_SPECIAL = re.compile(r"([\\`*\[\]|~]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=#?\w+;))")
_LEADING = re.compile(r"([#>+=\-]|(?<=\d)[.)](?=\s|$))")


@dataclass(slots=True)
class WrittenText:
    """A text with its claims: `printed` holds (text as written, claim reference) in order."""

    text: str
    printed: list[tuple[str, str]] = field(default_factory=list)


def to_markdown(document: Document) -> WrittenText:
    """The whole document as Markdown."""
    writer = _Writer()
    writer.heading(1, document.title)
    writer.paragraph(document.subtitle)
    for block in document.summary:
        writer.block(block)
    for section in document.sections:
        writer.section(section)
    return WrittenText("\n".join(writer.lines).rstrip("\n") + "\n", writer.printed)


def code_span(text: str, in_table: bool = False) -> str:
    """A name as a Markdown code span: delimiters longer than any run of backticks inside.

    In a table a pipe is escaped even inside code, as GitHub's tables ask.
    """
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * (max(runs, default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    body = text.replace("|", "\\|") if in_table else text
    return f"{fence}{pad}{body}{pad}{fence}"


def escaped(text: str) -> str:
    """Prose with everything that Markdown or HTML would act on made literal."""
    body = _SPECIAL.sub(r"\\\1", text)
    return _LEADING.sub(r"\\\1", body, count=1) if re.match(r"[#>+=\-]|\d+[.)]", body) else body


class _Writer:
    """Collects the lines of one text and the claims printed in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.printed: list[tuple[str, str]] = []

    def heading(self, level: int, title: str) -> None:
        self.lines += [f"{'#' * level} {escaped(title)}", ""]

    def paragraph(self, line: Spans) -> None:
        if line:
            self.lines += [self.inline(line), ""]

    def section(self, section: Section) -> None:
        self.lines += [f'<a id="{section.anchor}"></a>', ""]
        self.heading(2, section.title)
        for block in section.blocks:
            self.block(block)

    def block(self, block: Block) -> None:
        match block:
            case Paragraph(line=line):
                self.paragraph(line)
            case Bullets(items=items):
                self.lines += [*(f"- {self.inline(item)}" for item in items), ""]
            case Table():
                self.table(block)
            case Picture(stem=stem, alt=alt, caption=caption):
                self.lines += [f"![{escaped(alt)}](pictures/{stem}.svg)", ""]
                self.paragraph(caption)
            case Code(lines=lines):
                self.code(lines)
            case Reason(line=line):
                self.paragraph(line)

    def code(self, lines: Sequence[Printed]) -> None:
        """A fenced block; longer fence than any run of backticks in it."""
        body = [self.record(line, line.text) for line in lines]
        runs = [len(run) for run in re.findall(r"`+", "\n".join(body))]
        fence = "`" * max(3, max(runs, default=0) + 1)
        self.lines += [fence, *body, fence, ""]

    def table(self, block: Table) -> None:
        grid = block.grid
        self.paragraph(spans(block.caption))
        rule = ["---:" if column.is_number else "---" for column in grid.columns]
        self.lines += [_row(escaped(c.title) for c in grid.columns), _row(rule)]
        for row in range(min(len(grid.printed), block.text_rows)):
            cells = [cell_of(grid, row, column) for column in range(len(grid.columns))]
            self.lines.append(_row(self.span(cell, in_table=True) for cell in cells))
        self.lines.append("")
        labels = block.labels()
        self.paragraph(spans(f"_{escaped(labels)}._" if labels else ""))
        self.paragraph(block.rest(block.text_rows))

    def inline(self, line: Spans) -> str:
        return "".join(self.span(span) for span in line)

    def span(self, span: Span, in_table: bool = False) -> str:
        if isinstance(span, Printed):
            if span.is_code and span.raw:
                return self.record(span, code_span(span.text, in_table))
            return self.record(span, escaped(span.text) if span.raw else span.text)
        if isinstance(span, Link):
            return f"[{escaped(span.text)}](#{span.anchor})"
        return span.text

    def record(self, span: Printed, written: str) -> str:
        self.printed.append((written, span.ref))
        return written


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
