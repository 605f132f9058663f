"""What to change: causes by their share of the step, as estimates with their assumptions."""

from __future__ import annotations

from explane.report.claims import Label, sql_text
from explane.report.document import Block, Bullets, Paragraph, Printed, Section, Spans, spans
from explane.report.sections.causes import action, meaning
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts

_WORDS = ("advice", "what to change", "estimates")
_MOST_CAUSES = 12


def advice(context: Context) -> Section:
    """Causes ranked, each with the step time if it went away, and what to try."""
    title = "What to change"
    if not context.has("advice"):
        reasons = context.reasons(_WORDS, "No cause is large enough to be worth a change.")
        return Section("advice", title, tuple(reasons))
    columns = [
        context.column("host", "host", "name"),
        context.column("rank", "rank", "id"),
        context.column("cause", "cause", "word"),
        context.column("what", "of it", "name"),
        context.column("critical_path_ps", "time on the path", "ps"),
        context.column("critical_path_ratio", "share", "ratio"),
        context.column("step_ps", "step now", "ps"),
        context.column("low_ps", "without it, least", "ps", Label.INFERRED),
        context.column("high_ps", "without it, most", "ps", Label.INFERRED),
        context.column("overlaps_with", "overlaps with", "prose"),
    ]
    columns = [c for c in columns if context.book.has_columns("advice", c.name)]
    names = ", ".join(f'"{c.name}"' for c in columns)
    host = ", host" if context.book.has_columns("advice", "host") else ""
    rows = context.detail("advice") if host else "advice"
    sql = f'SELECT {names} FROM {rows} ORDER BY "rank", cause{host}'
    note = Paragraph(
        spans(
            "Estimates: nothing was run. Each range spans two methods (the step played again "
            "without the cause, and the cause's time taken off the critical path) and how much "
            "steps differ anyway. A range that reaches the step as it is means that the gain is "
            "not sure. Causes that overlap share time: their savings don't add up."
        )
    )
    blocks: list[Block] = [
        note,
        context.table("advice", sql, columns, "Causes, those with a sure gain first."),
        *(block for row in causes(context)[:_MOST_CAUSES] for block in _one(context, row)),
    ]
    blocks += doubts(context, "estimates", "what to change", "verdict")
    return Section("advice", title, tuple(blocks))


def causes(context: Context) -> list[str]:
    """One row of the table for each cause, the highest in rank, as the end of a query."""
    hosted = context.book.has_columns("advice", "host")
    host = "host" if hosted else "NULL"
    rows = context.book.query(
        f'SELECT "rank", cause, {host} AS host FROM advice ORDER BY "rank", cause, host'
    ).rows()
    first: dict[str, str] = {}
    for rank, cause, name in rows:
        where = f'FROM advice WHERE "rank" = {rank} AND cause = {sql_text(str(cause))}'
        owner = f" AND host = {sql_text(str(name))}" if hosted else ""
        first.setdefault(str(cause), f"{where}{owner} LIMIT 1")
    return list(first.values())


def of_what(context: Context, row: str) -> Spans:
    """What a cause is about, where that is known: `, next_batch`."""
    if not context.book.has_columns("advice", "what"):
        return ()
    what = context.text(f'SELECT "what" AS value {row}')
    return spans(", ", what) if what.raw else ()


def seen(context: Context, row: str) -> Printed | None:
    """What was seen of a cause, unless that is no more than what it is about."""
    if not context.book.has_columns("advice", "evidence"):
        return None
    evidence = context.text(f"SELECT evidence AS value {row}", "prose")
    what = "".join(span.raw for span in of_what(context, row) if isinstance(span, Printed))
    repeats = what != "" and evidence.raw.endswith(what)
    return evidence if evidence.raw and not repeats else None


def _one(context: Context, row: str) -> list[Block]:
    """What to try, evidence, assumption and proof of one cause."""
    cause = context.text(f"SELECT cause AS value {row}", "word")
    items: list[Spans] = []
    for column, word, unit in (
        ("knob", "To try: ", "advice"),
        ("evidence", "Seen: ", "prose"),
        ("assumption", "Assumes: ", "prose"),
        ("proof", "It worked if: ", "prose"),
    ):
        text = seen(context, row) if column == "evidence" else None
        if column != "evidence" and context.book.has_columns("advice", column):
            text = context.text(f"SELECT {column} AS value {row}", unit)
        if text and text.raw:
            items.append(spans(word, text))
    words = action(cause.raw)
    head = f"{words[0].upper()}{words[1:]} ("
    title = spans(head, cause, *of_what(context, row), f"{meaning(cause.raw)})")
    return [Paragraph(title, "head"), Bullets(tuple(items))]
