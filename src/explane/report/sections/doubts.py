"""Items of the trust list repeated where they matter: at the end of the sections they affect."""

from __future__ import annotations

from typing import Final

from explane.report.claims import sql_text
from explane.report.document import Block, Link, Paragraph, Span, spans
from explane.report.sections.context import Context

_EVERYTHING: Final = ("all totals", "every figure")
_MOST: Final = 4
ITEM_ORDER: Final = "gpu_time_ps DESC NULLS LAST, item, why"
"""Order of the trust list below its severity."""


def doubts(context: Context, *words: str) -> list[Block]:
    """A note with the trust items that name one of these words, or everything, as affected.

    Args:
        context: Claims and tables.
        words: Lower-case words of what the section shows.
    """
    if not context.has("trust"):
        return []
    likes = " OR ".join(
        f"LOWER(affects) LIKE {sql_text(f'%{word}%')}" for word in (*words, *_EVERYTHING)
    )
    severity = context.book.has_columns("trust", "severity")
    order = f"{'severity DESC, ' if severity else ''}{ITEM_ORDER}"
    where = f"FROM trust WHERE {likes}"
    n = context.rows(f"SELECT 1 AS n {where}")
    line: list[str | Span] = ["To be read with doubt: "]
    for i in range(min(n, _MOST)):
        row = f"{where} ORDER BY {order} LIMIT 1 OFFSET {i}"
        line += ["; " if i else "", context.text(f"SELECT item AS value {row}", "prose")]
    if n > _MOST:
        count = context.value(f"SELECT COUNT(*) AS value {where}", "count")
        line += ["; of ", count, " such items these are the first"]
    return [Paragraph(spans(*line, ". See ", Link("why", "trust"), "."), "note")] if n else []
