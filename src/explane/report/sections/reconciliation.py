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
        return Section("reconciliation", "Reconciliation", tuple(blocks))
    counts = {
        word: context.value(
            f"SELECT COUNT(*) AS value FROM checks WHERE holds = '{word}'", "count"
        )
        for word in ("yes", "no", "explained", "not available")
    }
    blocks.append(
        Paragraph(
            spans(
                "Of the checks that this capture allows, ",
                counts["yes"],
                " hold, ",
                counts["no"],
                " do not hold, ",
                counts["explained"],
                " differ for a reason that is on record, and for ",
                counts["not available"],
                " one of the two records is missing.",
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
    sql = (
        f"SELECT {names}, CAST({_RANK} AS BIGINT) AS gravity FROM checks "
        'ORDER BY gravity, host, "check", "left", "right"'
    )
    caption = "Records side by side, disagreements first."
    table = context.table("checks", sql, columns, caption, text_rows=40)
    return Section("reconciliation", "Reconciliation", (*blocks, table))
