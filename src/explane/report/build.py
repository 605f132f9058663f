"""The report as a document: which tables, which sections, in which order."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from explane.analysis.investigation import Investigation
from explane.options import Options
from explane.report.claims import ClaimBook
from explane.report.document import Block, Bullets, Document, Section, Span, spans
from explane.report.facts import fact_tables, verdict_parts
from explane.report.scopes import scope_table
from explane.report.sections.advice import advice
from explane.report.sections.context import Context
from explane.report.sections.definitions import definition_table, definitions
from explane.report.sections.findings import findings, idle
from explane.report.sections.glance import glance, verdict_and_step
from explane.report.sections.hosts import hosts
from explane.report.sections.ops import attribution, ops
from explane.report.sections.reconciliation import reconciliation
from explane.report.sections.roofline import roofline
from explane.report.sections.skip import skip_figures
from explane.report.sections.streams import streams
from explane.report.sections.swimlanes import swimlanes
from explane.report.sections.trust import new_captures, sources, trust
from explane.report.sections.verdict import verdict
from explane.report.source_lines import line_texts

ATTRIBUTION_TABLES = ("kernels", "ops", "lines", "how", "selfcheck")
"""Tables that are written in `attribution/`."""


def report_tables(investigation: Investigation, options: Options) -> dict[str, pl.DataFrame]:
    """All tables of a report, sorted by file stem.

    Args:
        investigation: All results.
        options: Source folder and whether source lines may be quoted.
    """
    tables = {**investigation.tables, **fact_tables(investigation)}
    if "swimlane" in tables:  # it is for pictures alone
        shown = tables["hosts"].filter("in_detail").select("host")
        tables["swimlane"] = tables["swimlane"].join(shown, on="host", how="semi")
    if "ops" in tables:
        tables["scopes"] = scope_table(tables["ops"])
    if "lines" in tables:
        folder = options.source_dir if options.show_source else None
        tables["line_texts"] = line_texts(tables["lines"], folder)
    if "verdict" in tables:
        tables["verdict_parts"] = verdict_parts(tables["verdict"])
    tables["definitions"] = definition_table()
    return dict(sorted(tables.items()))


def build_report(book: ClaimBook, pictures: Collection[str], pixel_ps: int) -> Document:
    """The whole report.

    Args:
        book: Claims on the written tables.
        pictures: Stems of the charts that could be drawn.
        pixel_ps: Time of one pixel of the swimlanes.
    """
    context = _context(book)
    gpus = book.query("SELECT DISTINCT gpu FROM hosts WHERE gpu IS NOT NULL ORDER BY gpu")
    subtitle: list[str | Span] = [
        *_processes(context),
        "; GPU events on ",
        context.value("SELECT SUM(n_active_devices) AS value FROM hosts", "count"),
        " of ",
        context.value("SELECT SUM(n_devices) AS value FROM hosts", "count"),
        " GPUs in the files",
    ]
    for i in range(min(gpus.height, 3)):
        one = (
            f"SELECT DISTINCT gpu FROM hosts WHERE gpu IS NOT NULL ORDER BY gpu LIMIT 1 OFFSET {i}"
        )
        subtitle += ["; ", context.text(f"SELECT gpu AS value FROM ({one}) AS g", "word")]
    sections: tuple[Section, ...] = (
        findings(context),
        verdict(context),
        *hosts(context),
        reconciliation(context),
        streams(context),
        swimlanes(context, pixel_ps),
        ops(context),
        attribution(context),
        roofline(context, "roofline" in pictures),
        skip_figures(context),
        advice(context),
        trust(context),
        new_captures(context),
        sources(context),
        definitions(context),
    )
    return Document("What this capture says", spans(*subtitle, "."), glance(context), sections)


def _processes(context: Context) -> list[str | Span]:
    """The process by its name, or how many there are."""
    if context.n_hosts == 1 and context.has("hosts"):
        return ["Process ", context.text("SELECT host AS value FROM hosts")]
    return ["Processes: ", context.value("SELECT COUNT(*) AS value FROM hosts", "count")]


def attribution_summary(book: ClaimBook) -> tuple[str, tuple[Block, ...]]:
    """Title and blocks of the summary beside the attribution's tables."""
    context = _context(book)
    section = findings(context)
    return "Attribution", section.blocks


def verdict_blocks(book: ClaimBook) -> tuple[Block, ...]:
    """The verdict, the step and the first idle cause, of tables that hold no more than these."""
    context = _context(book)
    return (*verdict_and_step(context), Bullets(tuple(idle(context))))


def _context(book: ClaimBook) -> Context:
    folders = {stem: "attribution" for stem in ATTRIBUTION_TABLES}
    n_hosts = book.tables["hosts"].height if "hosts" in book.tables else 1
    return Context(book, n_hosts, folders)
