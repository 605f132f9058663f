"""A document as one page: no network, no code of others run, hostile names shown and not obeyed.

Everything is inside the file: style, our scripts, Vega, the data of the charts. The content
security policy names each script by its digest, so nothing else can run, whatever a kernel's
name holds; the template engine escapes every text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, Final

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from explane.report.claims import Column
from explane.report.document import (
    Block,
    Document,
    Mark,
    Picture,
    Printed,
    Section,
    Spans,
    Table,
    cell_of,
)
from explane.report.text import visible

ROWS_SHOWN: Final = 200
"""Most rows of a table on the page; the file holds all."""

FEW_ROWS: Final = 8
"""Tables with no more rows have no field to filter them."""

PAPER_ROWS: Final = 30
"""Rows of a table that are printed on paper; the style sheet hides the others."""

SWIMLANES: Final = "swimlanes"
"""Stem of the picture that the page draws with its own zoom."""

_SCRIPTS: Final = ("marks.js", "theme.js", "charts.js", "swimlanes.js", "tables.js")


@dataclass(frozen=True, slots=True)
class PageCharts:
    """What the page draws: compiled Vega by stem, and the swimlanes of each host."""

    charts: Mapping[str, Any] = field(default_factory=dict)
    swimlanes: Sequence[Mapping[str, Any]] = ()


def to_html(document: Document, charts: PageCharts) -> str:
    """The whole page.

    Args:
        document: What to show.
        charts: Data of its pictures; a picture without data is left to its caption.
    """
    from explane.report.charts.render import vega_library  # loads the converter: for pages only

    scripts = [vega_library(), *(_static(name) for name in _SCRIPTS)]
    style = _static("page.css")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            few_rows=FEW_ROWS,
            paper_rows=PAPER_ROWS,
            page=_page(document, len(charts.swimlanes)),
            policy=_policy(scripts),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
            data=_embedded({"charts": charts.charts, "swimlanes": charts.swimlanes}),
        )
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """A table cell; `pick` is the kind of thing that a click on it picks."""

    span: Printed
    pick: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[_Cell, ...]
    marks: tuple[tuple[str, str], ...]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("explane.report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=False,
    )
    environment.filters["prose"] = _prose
    environment.filters["breakable"] = _breakable
    return environment


def _prose(text: str) -> Markup:
    """Our prose, with what stands between backticks set as code."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def _breakable(text: str) -> Markup:
    """A path that may be broken after its slashes rather than anywhere."""
    return Markup("/<wbr>").join(escape(part) for part in text.split("/"))


def _page(document: Document, n_swimlanes: int) -> dict[str, Any]:
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "summary": [_block(block, "glance", n_swimlanes) for block in document.summary],
        "sections": [_section(section, n_swimlanes) for section in document.sections],
    }


def _section(section: Section, n_swimlanes: int) -> dict[str, Any]:
    blocks = [
        _block(block, f"{section.anchor}-{'i' * number}", n_swimlanes)
        for number, block in enumerate(section.blocks)
    ]
    return {
        "anchor": section.anchor,
        "title": section.title,
        "short": section.short or section.title,
        "blocks": blocks,
    }


def _block(block: Block, anchor: str, n_swimlanes: int) -> SimpleNamespace:
    """A block as the template reads it; `anchor` is unique and free of digits."""
    if isinstance(block, Table):
        return SimpleNamespace(kind="Table", anchor=anchor, **_table(block))
    kind, fields = type(block).__name__, type(block).__slots__
    known = {name: getattr(block, name) for name in fields}
    if isinstance(block, Picture):
        known["swimlanes"] = list(range(n_swimlanes)) if block.stem == SWIMLANES else []
    return SimpleNamespace(kind=kind, **known)


def _table(block: Table) -> dict[str, Any]:
    grid, marks = block.grid, {mark.column: mark for mark in block.marks}
    n_rows = min(len(grid.values), ROWS_SHOWN)
    columns: Sequence[Column] = grid.columns
    rows = []
    for row in range(n_rows):
        spans = [cell_of(grid, row, column) for column in range(len(columns))]
        picks = [_pick(marks.get(column.name), row) for column in columns]
        cells = tuple(
            _Cell(span, kind, key) for span, (kind, key) in zip(spans, picks, strict=True)
        )
        rows.append(_Row(cells, tuple((kind, key) for kind, key in picks if kind)))
    rest: Spans = block.rest(n_rows)
    return {
        "caption": block.caption,
        "columns": columns,
        "columns_label": _common_label(columns),
        "rows": rows,
        "rest": rest,
    }


def _common_label(columns: Sequence[Column]) -> str:
    """The label of all numbers of a table; empty when they differ and each must say its own."""
    numbers = {c.label for c in columns if c.is_number and c.unit != "id"}
    words = {c.label for c in columns if not c.is_number and c.label != "read"}
    return numbers.pop() if len(numbers) == 1 and not words else ""


def _pick(mark: Mark | None, row: int) -> tuple[str, str]:
    """Kind and key of what a cell names; nothing where it can't be picked."""
    key = mark.keys[row] if mark else None
    return (mark.kind, visible(key)) if mark and key else ("", "")


def _policy(scripts: Sequence[str]) -> str:
    """The content security policy: our scripts by digest, inline style, nothing from outside."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _embedded(data: Mapping[str, Any]) -> Markup:
    """Data as JSON that no markup can end: `<`, `>` and `&` are written as escapes."""
    text = orjson.dumps(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _static(name: str) -> str:
    return (files("explane.report") / "static" / name).read_text(encoding="utf-8")
