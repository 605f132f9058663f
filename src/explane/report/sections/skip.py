"""SKIP figures: launches against kernels, each figure with its definition beside it."""

from __future__ import annotations

from explane.report.document import Block, Paragraph, spans
from explane.report.sections.context import Context

_NEEDED = ("device", "metric", "value", "unit", "low", "high", "n", "definition", "scope")


def skip_figures(context: Context) -> list[Block]:
    """Figures of a step by GPU, then of the whole capture; times and counts apart."""
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
        ("scope = 'step'", "of a step: median over complete steps, with its range"),
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
        *([context.column("device", "GPU", "id")] if ranged else []),
        context.column("value", "value", unit),
        *(
            [
                context.column("low", "least", unit),
                context.column("high", "most", unit),
                context.column("n", "steps", "count"),
            ]
            if ranged
            else []
        ),
        context.column("definition", "definition", "prose"),
    ]
    names = ", ".join(f'"{column.name}"' for column in columns if column.name != "host")
    sql = (
        f"SELECT host, {names} FROM skip WHERE {where} AND unit = '{unit}' "
        'ORDER BY host, "metric", device'
    )
    return context.table("skip", sql, columns, caption)
