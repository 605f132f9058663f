"""What to change: causes by their share of the step, as estimates with their assumptions."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Bullets, Paragraph, Section, Spans, spans
from explane.report.sections.causes import meaning
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts

_WORDS = ("advice", "what to change", "estimates")
_MOST_CAUSES = 12


def advice(context: Context) -> Section:
    """Causes ranked, each with the step time if it went away, and the knob to try."""
    title = "What to change"
    if not context.has("advice"):
        reasons = context.reasons(_WORDS, "No cause is large enough to be worth a change.")
        return Section("advice", title, tuple(reasons))
    order = ordering(context)
    columns = [
        context.column("host", "host", "name"),
        context.column("rank", "rank", "id"),
        context.column("cause", "cause", "word"),
        context.column("critical_path_ps", "time in the step", "ps"),
        context.column("critical_path_ratio", "share", "ratio"),
        context.column("step_ps", "step now", "ps"),
        context.column("low_ps", "step without, least", "ps", Label.INFERRED),
        context.column("high_ps", "step without, most", "ps", Label.INFERRED),
        context.column("overlaps_with", "overlaps with", "word"),
    ]
    if not context.book.has_columns("advice", "host"):
        columns = columns[1:]
    names = ", ".join(f'"{c.name}"' for c in columns)
    sql = f"SELECT {names} FROM advice ORDER BY {order}"
    note = Paragraph(
        spans(
            "Estimates, not measurements: nothing was run. The range is what replaying the steps "
            "and plain subtraction give; overlapping causes must not be added up. Each knob is a "
            "hypothesis for you to test."
        )
    )
    blocks: list[Block] = [
        note,
        context.table("advice", sql, columns, "Causes by their share of the step."),
    ]
    for i in range(min(context.rows("SELECT 1 AS n FROM advice"), _MOST_CAUSES)):
        blocks.append(_one(context, f"FROM advice ORDER BY {order} LIMIT 1 OFFSET {i}"))
    blocks += doubts(context, "estimates", "what to change", "verdict")
    return Section("advice", title, tuple(blocks))


def ordering(context: Context) -> str:
    """The order of causes: by rank, over all hosts."""
    host = ", host" if context.book.has_columns("advice", "host") else ""
    return f'"rank", cause{host}'


def _one(context: Context, row: str) -> Bullets:
    """Evidence, assumption, knob and proof of one cause."""
    cause = context.text(f"SELECT cause AS value {row}", "word")
    items: list[Spans] = [
        spans(
            "Cause ",
            cause,
            f"{meaning(cause.raw)}: ",
            context.text(f"SELECT knob AS value {row}", "advice"),
        )
    ]
    for column, word in (
        ("evidence", "Seen: "),
        ("assumption", "Assumes: "),
        ("proof", "What would prove it: "),
    ):
        if context.book.has_columns("advice", column):
            text = context.text(f"SELECT {column} AS value {row}", "prose")
            if text.raw:
                items.append(spans(word, text))
    return Bullets(tuple(items))
