"""Items of the trust list repeated where they matter: at the end of the sections they affect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from explane.report.claims import sql_text
from explane.report.document import Block, Link, Paragraph, Span, spans
from explane.report.sections.context import Context

_EVERYTHING: Final = ("all totals", "every figure")
_MOST: Final = 4
ITEM_ORDER: Final = "gpu_time_ps DESC NULLS LAST, item, why"
"""Order of the trust list below its severity."""


def doubts(context: Context, *words: str) -> list[Block]:
    """A note with the trust items that name one of these words as affected, the gravest first.

    Items that affect every figure are only counted: they would be the same in all sections.

    Args:
        context: Claims and tables.
        words: Lower-case words of what the section shows.
    """
    if not context.has("trust"):
        return []
    everything, own = _where(_EVERYTHING), f"{_where(words)} AND NOT ({_where(_EVERYTHING)})"
    severity = context.book.has_columns("trust", "severity")
    order = f"{'severity DESC, ' if severity else ''}{ITEM_ORDER}"
    trust = f"FROM {context.whole('trust')}"
    n = context.rows(f"SELECT 1 AS n {trust} WHERE {own}")
    line: list[str | Span] = []
    for i in range(min(n, _MOST)):
        row = f"{trust} WHERE {own} ORDER BY {order} LIMIT 1 OFFSET {i}"
        line += ["; " if i else "", context.text(f"SELECT item AS value {row}", "prose")]
    if n > _MOST:
        count = context.value(f"SELECT COUNT(*) AS value {trust} WHERE {own}", "count")
        line += ["; of ", count, " such items these are the first"]
    if context.any(f"SELECT 1 AS n {trust} WHERE {everything}"):
        count = context.value(f"SELECT COUNT(*) AS value {trust} WHERE {everything}", "count")
        line += ["; " if n else "", "doubts about every figure: ", count]
    if not line:
        return []
    return [
        Paragraph(
            spans("To be read with doubt: ", *line, ". See ", Link("why", "trust"), "."), "note"
        )
    ]


def _where(words: Sequence[str]) -> str:
    """Condition on items that name one of these words as affected."""
    likes = [f"LOWER(affects) LIKE {sql_text(f'%{word}%')}" for word in words]
    return f"({' OR '.join(likes)})"
