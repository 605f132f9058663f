"""Reconciliation: independent records set side by side, those that disagree first."""

from __future__ import annotations

from explane.report.document import Block, Paragraph, Section, spans
from explane.report.sections.context import Context

_WORDS = ("checks", "reconciliation", "reconcile")
_RANK = "CASE holds WHEN 'no' THEN 0 WHEN 'explained' THEN 1 WHEN 'yes' THEN 2 ELSE 3 END"


def reconciliation(context: Context) -> Section:
    """What holds, what does not, and which records are not there."""
    blocks: list[Block] = []
    if not context.has("checks"):
        blocks += context.reasons(_WORDS, "No two records of the same work are in this capture.")
        return Section("reconciliation", "Reconciliation", tuple(blocks), "Checks")
    counts = {
        word: context.value(
            f"SELECT COUNT(*) AS value FROM checks WHERE holds = '{word}'", "count"
        )
        for word in ("yes", "no", "explained", "not available")
    }
    blocks.append(
        Paragraph(
            spans(
                "Checks of independent records against each other: ",
                counts["yes"],
                " hold, ",
                counts["no"],
                " fail, ",
                counts["explained"],
                " differ for a known reason, ",
                counts["not available"],
                " can't be made because a record is missing.",
            ),
            "lead",
        )
    )
    columns = [
        context.column("host", "host", "name"),
        context.column("holds", "holds", "word"),
        context.column("check", "check", "prose"),
        context.column("left", "one record", "word"),
        context.column("right", "the other", "word"),
        context.column("note", "note", "prose"),
    ]
    names = ", ".join(f'"{c.name}"' for c in columns)
    for where, caption, text_rows in (
        ("holds <> 'yes'", "Records that differ, or that are missing.", 40),
        ("holds = 'yes'", "Records that agree.", 15),
    ):
        rows = context.detail("checks") if where == "holds = 'yes'" else "checks"
        sql = (
            f"SELECT {names}, CAST({_RANK} AS BIGINT) AS gravity "
            f"FROM {rows} WHERE {where} "
            'ORDER BY gravity, host, "check", "left", "right"'
        )
        if context.any(sql):
            blocks.append(context.table("checks", sql, columns, caption, text_rows=text_rows))
    return Section("reconciliation", "Reconciliation", tuple(blocks), "Checks")
