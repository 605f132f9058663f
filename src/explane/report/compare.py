"""A comparison as a document, and the files in which it is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from explane.analysis.compare.compare import Comparison
from explane.progress import NULL, Progress
from explane.report.charts.compare import line_chart, step_chart
from explane.report.charts.render import Convert, converted
from explane.report.claims import ClaimBook
from explane.report.claims_file import Written
from explane.report.document import Document, spans
from explane.report.drawable import why_not_drawable
from explane.report.factcheck.page import read_page
from explane.report.html import PageCharts, to_html
from explane.report.markdown import to_markdown
from explane.report.output import OutputFolder
from explane.report.plain import plain_lines, to_plain_text
from explane.report.sections.comparison import (
    changed_work,
    comparable,
    compared_findings,
    compared_glance,
    compared_lines,
    compared_ops,
    compared_steps,
    predictions,
)
from explane.report.sections.context import Context
from explane.report.table_files import TableWriter
from explane.report.tables import all_written
from explane.report.write import write_texts


def build_comparison(book: ClaimBook, pictures: Collection[str]) -> Document:
    """The whole comparison.

    Args:
        book: Claims on the written tables.
        pictures: Stems of the charts that could be drawn.
    """
    context = Context(book, 1, {})
    a = context.text("SELECT path AS value FROM sides WHERE side = 'A'", "path")
    b = context.text("SELECT path AS value FROM sides WHERE side = 'B'", "path")
    sections = (
        compared_findings(context),
        comparable(context),
        compared_steps(context, "steps" in pictures),
        compared_ops(context),
        compared_lines(context, "lines" in pictures),
        changed_work(context),
        predictions(context),
    )
    subtitle = spans("A is ", a, "; B is ", b, ".")
    return Document("Two captures compared", subtitle, compared_glance(context), sections)


def write_comparison(
    comparison: Comparison,
    folder: OutputFolder,
    convert: Convert = converted,
    progress: Progress = NULL,
) -> tuple[str, ...]:
    """Writes compare.md, compare.html, summary.txt, claims.json, tables and pictures.

    Args:
        comparison: Two captures side by side.
        folder: Where to; it must have been entered.
        convert: Makes Vega and SVG of the charts' descriptions.
        progress: Told what is being done.

    Returns:
        The summary as lines for a terminal.

    Raises:
        OSError: When a file can't be written.
    """
    tables = all_written(dict(sorted(comparison.tables.items())))
    record, book = Written(), ClaimBook(tables)
    places = {stem: f"tables/{stem}" for stem in tables}
    with TableWriter(folder, progress=progress) as writer:
        writer.begin(tables, places)
        with progress.stage("draw: pictures"):
            described = _charts(tables)
            drawn = convert([(description, True) for description in described.values()])
        document = build_comparison(book, described.keys())
        record.tables = writer.finished(places)
    charts = dict(zip(described, drawn, strict=True))
    for stem, (_, svg) in charts.items():
        name = f"pictures/{stem}.svg"
        folder.write_text(name, svg)
        record.files[name] = folder.digest(name)
    summary = (*document.summary, *document.sections[0].blocks)
    record.texts["compare.md"] = to_markdown(document)
    record.texts["summary.txt"] = to_plain_text(document.title, summary)
    page = to_html(document, PageCharts({stem: vega for stem, (vega, _) in charts.items()}))
    folder.write_text("compare.html", page)
    record.page = read_page("compare.html", page)
    write_texts(folder, record, book, progress)
    return plain_lines(summary)


def _charts(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, object]]:
    charts: dict[str, dict[str, object]] = {}
    if why_not_drawable():
        return charts
    if tables["differences"].filter(pl.col("measure") == "idle").height:
        charts["steps"] = step_chart(tables["differences"])
    if tables["compared_lines"].height:
        charts["lines"] = line_chart(tables["compared_lines"])
    return charts
