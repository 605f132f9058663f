"""What to change: causes by their share of the step, as estimates with their assumptions."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Paragraph, Section, Span, spans
from explane.report.sections.context import Context

_WORDS = ("advice", "what to change", "estimates")


def advice(context: Context) -> Section:
    """Causes ranked, each with the step time if it went away, and the knob to try."""
    title = "What to change"
    if not context.has("advice"):
        reasons = context.reasons(_WORDS, "No cause is large enough to be worth a change.")
        return Section("advice", title, tuple(reasons))
    columns = [
        context.column("rank", "rank", "id"),
        context.column("cause", "cause", "word"),
        context.column("critical_path_ps", "time in the step", "ps"),
        context.column("critical_path_ratio", "share", "ratio"),
        context.column("step_ps", "step now", "ps"),
        context.column("low_ps", "step without, least", "ps", Label.INFERRED),
        context.column("high_ps", "step without, most", "ps", Label.INFERRED),
        context.column("overlaps_with", "overlaps with", "word"),
    ]
    names = ", ".join(f'"{c.name}"' for c in columns)
    sql = f'SELECT {names} FROM advice ORDER BY "rank", cause'
    note = Paragraph(
        spans(
            "Estimates, not measurements: nothing was run. The range is what replaying the step "
            "and plain subtraction give; overlapping causes must not be added up. Each knob is a "
            "hypothesis for you to test."
        )
    )
    blocks: list[Block] = [
        note,
        context.table("advice", sql, columns, "Causes by their share of the step."),
    ]
    n = int(context.book.query("SELECT COUNT(*) AS n FROM advice")["n"][0])
    for i in range(min(n, 12)):
        blocks += _one(context, i)
    return Section("advice", title, tuple(blocks))


def _one(context: Context, i: int) -> list[Block]:
    """Assumption and knob of one cause."""
    row = f'FROM advice ORDER BY "rank", cause LIMIT 1 OFFSET {i}'
    cause = context.text(f"SELECT cause AS value {row}", "word")
    assumption = context.text(f"SELECT assumption AS value {row}", "prose")
    knob = context.text(f"SELECT knob AS value {row}", "prose")
    line: list[str | Span] = ["To try against ", cause, ": ", knob]
    if assumption.raw:
        line += [" (assuming: ", assumption, ")"]
    return [Paragraph(spans(*line))]
