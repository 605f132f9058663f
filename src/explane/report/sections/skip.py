"""SKIP figures: launches against kernels, each figure with its definition beside it."""

from __future__ import annotations

from explane.report.document import Block, Paragraph, spans
from explane.report.sections.context import Context

_NEEDED = ("device", "metric", "value", "unit", "low", "high", "n", "definition", "scope")


def skip_figures(context: Context) -> list[Block]:
    """Figures of a step, then of the whole capture; times and counts apart."""
    if not context.has("skip") or not context.book.has_columns("skip", *_NEEDED):
        return list(
            context.reasons(("skip",), "There are no launches to set against the kernels.")
        )
    note = Paragraph(
        spans(
            "SKIP figures set launch calls against kernels. A large `tklqt_ps` made of "
            "`tklqt_queue_ps` means that kernels waited for the GPU, not for their launch."
        ),
        "note",
    )
    blocks: list[Block] = [note]
    for where, caption in (
        (
            "scope = 'step'",
            "of a step: the median GPU's median, with the range over steps and GPUs",
        ),
        ("scope <> 'step' AND device IS NULL", "of the whole capture"),
    ):
        for unit, word in (("ps", "Times"), ("count", "Counts")):
            if context.any(f"SELECT 1 AS n FROM skip WHERE {where} AND unit = '{unit}'"):
                blocks.append(_table(context, where, unit, f"{word} {caption}."))
    return blocks


def _table(context: Context, where: str, unit: str, caption: str) -> Block:
    ranged = where.startswith("scope =")
    columns = [
        context.column("host", "host", "name"),
        context.column("metric", "figure", "word"),
        context.column("figure", "value", unit),
    ]
    if ranged:
        columns += [
            context.column("least", "least", unit),
            context.column("most", "most", unit),
            context.column("number", "steps and GPUs", "count"),
        ]
    columns.append(context.column("definition", "definition", "prose"))
    sql = (
        'SELECT host, "metric", QUANTILE_DISC("value", 0.5) AS figure, MIN(low) AS least, '
        f"MAX(high) AS most, SUM(n) AS number, definition FROM skip WHERE {where} "
        f'AND unit = \'{unit}\' GROUP BY host, "metric", definition ORDER BY host, "metric"'
    )
    return context.table("skip", sql, columns, caption, text_rows=40)
