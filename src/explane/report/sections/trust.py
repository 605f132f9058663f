"""What can't be trusted, what was left out, and which capture would tell."""

from __future__ import annotations

from explane.report.claims import Column
from explane.report.document import Block, Bullets, Paragraph, Section, Spans, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import ITEM_ORDER


def trust(context: Context) -> Section:
    """The trust list, gravest first, and the parts that were not analysed."""
    blocks: list[Block] = []
    if context.has("trust"):
        severity = context.book.has_columns("trust", "severity")
        order = "severity DESC, " if severity else ""
        columns = [
            context.column("host", "host", "name"),
            context.column("item", "what can't be trusted", "prose"),
            context.column("n", "count", "count"),
            context.column("gpu_time_ps", "GPU time", "ps"),
            context.column("gpu_time_ratio", "share", "ratio"),
            context.column("why", "why", "prose"),
            context.column("affects", "what depends on it", "prose"),
        ]
        host = "host" if context.book.has_columns("trust", "host") else "NULL AS host"
        sql = (
            f'SELECT {host}, item, "count" AS n, gpu_time_ps, gpu_time_ratio, why, affects '
            f"FROM {context.whole('trust')} ORDER BY {order}{ITEM_ORDER}"
        )
        caption = "Gravest first."
        blocks.append(context.table("trust", sql, columns, caption, text_rows=40))
    else:
        blocks += context.reasons(("trust",), "Nothing was found that can't be trusted.")
    blocks += _not_analysed(context)
    return Section("trust", "What can't be trusted", tuple(blocks), "Trust")


def _not_analysed(context: Context) -> list[Block]:
    """Parts of the report that have no result here."""
    if not context.has("not_analysed"):
        return []
    columns = [
        context.column("section", "part", "word"),
        context.column("reason", "why it is not analysed", "prose"),
    ]
    sql = "SELECT section, reason FROM not_analysed ORDER BY section, reason"
    return [context.table("not_analysed", sql, columns, "Parts of the report without a result.")]


_ANSWERED = "FROM new_captures WHERE capture IS NOT NULL AND capture <> ''"
"""Questions for which a capture is known that would answer them."""


def new_captures(context: Context) -> Section:
    """Open questions, each with the capture that would answer it."""
    title = "Needs a new capture"
    if not context.has("new_captures") or not context.any(f"SELECT question {_ANSWERED}"):
        reasons = context.reasons(
            ("new_captures",), "No question stays open that another capture would answer."
        )
        return Section("captures", title, tuple(reasons), "New capture")
    inner = f"(SELECT DISTINCT question, capture {_ANSWERED}) AS q"
    n = context.rows(f"SELECT question FROM {inner}")
    items: list[Spans] = []
    for i in range(n):
        row = f"FROM {inner} ORDER BY question, capture LIMIT 1 OFFSET {i}"
        question = context.text(f"SELECT question AS value {row}", "prose")
        capture = context.text(f"SELECT capture AS value {row}", "prose")
        items.append(spans(question, " → ", capture))
    return Section("captures", title, (Bullets(tuple(items)),), "New capture")


def sources(context: Context) -> Section:
    """Files that were read, files that were left out, and the hosts in them."""
    blocks: list[Block] = []
    if context.has("hosts"):
        columns: list[Column] = [
            context.column("host", "process", "name"),
            context.column("source", "main record", "word"),
            context.column("gpu", "GPU", "name"),
            context.column("n_devices", "GPUs in the file", "count"),
            context.column("n_active_devices", "GPUs with events", "count"),
            context.column("versions", "versions", "prose"),
        ]
        named = [Column("process", "process", "name", columns[0].label), *columns[1:]]
        sql = (
            "SELECT host AS process, source, gpu, n_devices, n_active_devices, versions "
            "FROM hosts ORDER BY host"
        )
        blocks.append(context.table("hosts", sql, named, "Processes in this report."))
    if context.has("sources"):
        files = [
            context.column("path", "file", "path"),
            context.column("state", "read", "word"),
            context.column("note", "process, or why not", "prose"),
        ]
        sql = (
            "SELECT path, CASE used WHEN 1 THEN 'yes' ELSE 'no' END AS state, note FROM sources "
            "ORDER BY used DESC, path, note"
        )
        blocks.append(context.table("sources", sql, files, "Files that were looked at."))
    if not blocks:
        blocks.append(Paragraph(spans("The files are not on record.")))
    return Section("sources", "What was read", tuple(blocks), "Files")
