"""Writes results into an output folder: the report, the attribution, the verdict's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

import orjson
import polars as pl

from explane.analysis.investigation import Investigation, NotAnalysed, ProgramFile
from explane.options import Options
from explane.progress import NULL, Progress
from explane.report import claims_file
from explane.report.build import (
    ATTRIBUTION_TABLES,
    attribution_summary,
    build_report,
    report_tables,
    verdict_blocks,
)
from explane.report.charts.render import Convert, converted
from explane.report.claims import ClaimBook
from explane.report.claims_file import Written
from explane.report.drawable import why_not_drawable
from explane.report.factcheck.page import read_page
from explane.report.facts import fact_tables
from explane.report.filenames import safe_file_name
from explane.report.markdown import to_markdown
from explane.report.output import OutputFolder
from explane.report.plain import plain_lines, to_plain_text
from explane.report.table_files import TableWriter
from explane.report.tables import all_written, written
from explane.timings import timings_of

Result = TypeVar("Result")
VERDICT_TABLES = ("rows", "steps", "streams", "idle")
"""Tables that `verdict -o` writes as CSV; `skip` is written as JSON."""


def write_report(
    investigation: Investigation,
    folder: OutputFolder,
    options: Options | None = None,
    convert: Convert = converted,
    writer: TableWriter | None = None,
    progress: Progress = NULL,
) -> tuple[str, ...]:
    """Writes report.md, report.html, summary.txt, claims.json, tables, pictures, attribution.

    Args:
        investigation: All results.
        folder: Where to; it must have been entered.
        options: Source folder and whether source lines may be quoted.
        convert: Makes Vega and SVG of the charts' descriptions.
        writer: Writes the tables, and may have begun some (`begin_table`).
        progress: Told what is being done.

    Returns:
        The summary as lines for a terminal.

    Raises:
        OSError: When a file can't be written.
    """
    from explane.report.drawings import DRAWN, describe, draw  # only a report has pictures
    from explane.report.html import to_html

    not_drawn = why_not_drawable()
    if not_drawn:
        left_out = (*investigation.not_analysed, NotAnalysed("pictures", not_drawn))
        investigation = replace(investigation, not_analysed=left_out)
    writer = writer or TableWriter(folder, progress=progress)
    found = report_tables(investigation, options or Options())
    record, places = Written(), {stem: _place(stem) for stem in found}
    with ThreadPoolExecutor(1) as pool, writer:
        # What takes long by itself begins first: drawing, then the tables.
        with progress.stage("draw: descriptions"):
            shown = all_written({stem: found[stem] for stem in DRAWN if stem in found})
            charts = describe(shown)
        drawn = pool.submit(_staged, progress, "draw: pictures", partial(draw, charts, convert))
        tables = all_written(found, {**writer.tables, **shown})
        writer.begin(tables, places)
        book = ClaimBook(tables)
        with progress.stage("hlo: modules as text"):
            for name in _write_programs(investigation.programs, folder, "attribution/"):
                record.files[name] = folder.digest(name)
        document = build_report(book, charts.pictures.keys(), charts.pixel_ps)
        summary = (*document.summary, *document.sections[0].blocks)
        record.texts["report.md"] = to_markdown(document)
        record.texts["summary.txt"] = to_plain_text(document.title, summary)
        title, blocks = attribution_summary(book)
        record.texts["attribution/summary.txt"] = to_plain_text(title, blocks)
        with progress.stage("draw: waiting for pictures"):
            drawings = drawn.result()
        for stem, svg in drawings.pictures.items():
            name = f"pictures/{stem}.svg"
            folder.write_text(name, svg)
            record.files[name] = folder.digest(name)
        with progress.stage("write: page"):
            page = to_html(document, drawings.page)
            folder.write_text("report.html", page)
            record.page = read_page("report.html", page)
        with progress.stage("write: waiting for tables"):
            record.tables = writer.finished(places)
    write_texts(folder, record, book, progress)
    return plain_lines(summary)


def _staged(progress: Progress, name: str, work: Callable[[], Result]) -> Result:
    """Does some work as a stage, on the thread that calls this."""
    with progress.stage(name):
        return work()


def begin_table(writer: TableWriter, stem: str, table: pl.DataFrame) -> None:
    """Begins to write one table of a report before the others are known.

    Args:
        writer: The one that `write_report` gets.
        stem: The table.
        table: Its rows; nothing that comes later may change them.
    """
    writer.begin({stem: written(table)}, {stem: _place(stem)})


def _place(stem: str) -> str:
    return f"attribution/{stem}" if stem in ATTRIBUTION_TABLES else f"tables/{stem}"


def write_attribution(
    investigation: Investigation,
    folder: OutputFolder,
    options: Options | None = None,
    progress: Progress = NULL,
) -> tuple[str, ...]:
    """Writes kernels, ops, lines, how, self-check, summary and the HLO modules.

    Args:
        investigation: Results of the attribution.
        folder: Where to; it must have been entered.
        options: As for the report.
        progress: Told what is being done.

    Returns:
        The summary as lines for a terminal.
    """
    tables = all_written(report_tables(investigation, options or Options()))
    record = Written()
    stems = [stem for stem in ATTRIBUTION_TABLES if stem in tables]
    places = {stem: stem for stem in stems}
    with TableWriter(folder, parquet=False, progress=progress) as writer:
        writer.begin(tables, places)
        with progress.stage("hlo: modules as text"):
            for name in _write_programs(investigation.programs, folder, ""):
                record.files[name] = folder.digest(name)
        book = ClaimBook({stem: tables[stem] for stem in stems})
        title, blocks = attribution_summary(book)
        with progress.stage("write: waiting for tables"):
            record.tables = writer.finished(places)
    record.texts["summary.txt"] = to_plain_text(title, blocks)
    write_texts(folder, record, book, progress)
    return plain_lines(blocks)


def write_verdict(
    investigation: Investigation,
    folder: OutputFolder,
    options: Options | None = None,
    progress: Progress = NULL,
) -> tuple[str, ...]:
    """Writes rows.csv, steps.csv, streams.csv, idle.csv and skip.json.

    Args:
        investigation: Results of the verdict.
        folder: Where to; it must have been entered.
        options: Not used; the writers take the same arguments.
        progress: Told what is being done.

    Returns:
        The verdict as lines for a terminal.
    """
    del options
    stems = [stem for stem in VERDICT_TABLES if stem in investigation.tables]
    tables = all_written({stem: investigation.tables[stem] for stem in stems})
    places = {stem: stem for stem in stems}
    with TableWriter(folder, parquet=False, progress=progress) as writer:
        writer.begin(tables, places)
        rows = written(investigation.tables.get("skip", pl.DataFrame())).to_dicts()
        style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        folder.write_bytes("skip.json", orjson.dumps(rows, option=style))
        lines = verdict_summary(investigation, tables)
        writer.finished(places)
    return lines


def verdict_summary(
    investigation: Investigation, known: Mapping[str, pl.DataFrame] = MappingProxyType({})
) -> tuple[str, ...]:
    """The verdict and its cause as lines for a terminal.

    Args:
        investigation: Results of the verdict, at least.
        known: Those of its tables that are in their written form already.
    """
    tables = {**investigation.tables, **fact_tables(investigation)}
    book = ClaimBook(all_written(tables, known))
    return plain_lines(verdict_blocks(book))


def _write_programs(
    programs: Sequence[ProgramFile], folder: OutputFolder, place: str
) -> Iterable[str]:
    """Writes each HLO module once, as text and as its exact bytes; the names written."""
    seen: dict[str, bytes] = {}
    alike = Counter(dict((p.program_id, p.hlo_proto) for p in programs).values())
    bodies: dict[bytes, list[str]] = {}
    for program in programs:
        name = safe_file_name(f"{program.name}({program.program_id})")
        if name in seen and seen[name] != program.hlo_proto:
            name = safe_file_name(f"{program.name}({program.program_id})@{program.host}")
        if name in seen:
            continue
        seen[name] = program.hlo_proto
        folder.write_bytes(f"{place}{name}.hlo_proto.pb", program.hlo_proto)
        yield f"{place}{name}.hlo_proto.pb"
        if program.readable:
            parts = program.parts()
            if alike[program.hlo_proto] > 1:  # stored under several ids, which the header tells
                header = next(parts)
                if program.hlo_proto not in bodies:
                    bodies[program.hlo_proto] = list(parts)
                parts = chain([header], bodies[program.hlo_proto])
            folder.write_parts(f"{place}{name}.hlo.txt", parts)
            yield f"{place}{name}.hlo.txt"


def write_texts(
    folder: OutputFolder, record: Written, book: ClaimBook, progress: Progress = NULL
) -> None:
    """Writes the texts and, last, the claims that they print, and what took how long till then."""
    for name, text in record.texts.items():
        folder.write_text(name, text.text)
    record.timings = timings_of(progress)
    folder.write_bytes(claims_file.NAME, claims_file.to_json(book, record))
