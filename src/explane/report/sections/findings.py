"""Findings first: what the report found, one line each, each leading to its section."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Bullets, Link, Section, Span, Spans, spans
from explane.report.sections.advice import causes, of_what
from explane.report.sections.causes import meaning
from explane.report.sections.context import Context
from explane.report.sections.doubts import ITEM_ORDER
from explane.report.sections.sql import LINE, ratio
from explane.report.sections.verdict import idle_share, top_cause

_MOST_ADVICE = 3
_MOST_TRUST = 3


def findings(context: Context) -> Section:
    """The most important results of every section."""
    lines = [
        *_not_measured(context),
        *_idle(context),
        *_top(context),
        *_attributed(context),
        *_advice(context),
        *_trust(context),
    ]
    if not lines:
        lines = [spans("Nothing could be measured; see ", Link("why", "trust"), ".")]
    blocks: tuple[Block, ...] = (Bullets(tuple(lines)),)
    return Section("findings", "Findings", blocks)


def _not_measured(context: Context) -> list[Spans]:
    """Simulated and damaged captures are named before anything else."""
    lines = []
    for column, text in (
        ("simulated", "Simulated captures, with invented times: "),
        ("partial", "Damaged captures, of which only a part could be read: "),
    ):
        sql = f"SELECT SUM({column}) AS value FROM hosts"
        if context.has("hosts") and context.book.query(sql)["value"][0]:
            lines.append(spans(text, context.value(sql, "count", Label.READ), "."))
    return lines


def _idle(context: Context) -> list[Spans]:
    lines = []
    share = idle_share(context)
    if share:
        lines.append(
            spans(
                "In a step a GPU runs nothing for ",
                *share,
                " of the time; see ",
                Link("GPUs and streams", "streams"),
                ".",
            )
        )
    cause = top_cause(context)
    if cause:
        lines.append(spans(*cause, " See ", Link("verdict and cause", "verdict"), "."))
    return lines


def _top(context: Context) -> list[Spans]:
    """The instruction and the line with most GPU time."""
    lines = []
    if context.has("ops"):
        row = (
            "FROM ops WHERE hlo_instruction IS NOT NULL "
            "ORDER BY duration_ps DESC, hlo_instruction LIMIT 1"
        )
        if context.book.query(f"SELECT 1 AS n {row}").height:
            share = ratio("duration_ps", "(SELECT SUM(duration_ps) FROM ops)")
            lines.append(
                spans(
                    "The operation with most GPU time is ",
                    context.text(f"SELECT hlo_instruction AS value {row}"),
                    " with ",
                    context.value(f"SELECT duration_ps AS value {row}", "ps"),
                    ", ",
                    context.value(f"SELECT {share} AS value {row}", "ratio"),
                    " of all kernel time; see ",
                    Link("operations and lines", "ops"),
                    ".",
                )
            )
    if context.has("lines"):
        row = (
            "FROM lines WHERE source_file IS NOT NULL "
            "ORDER BY duration_ps DESC, source_file, source_line LIMIT 1"
        )
        if context.book.query(f"SELECT 1 AS n {row}").height:
            share = ratio("duration_ps", "(SELECT SUM(duration_ps) FROM lines)")
            lines.append(
                spans(
                    "The Python line with most GPU time is ",
                    context.text(f"SELECT {LINE} AS value {row}", "path"),
                    " with ",
                    context.value(f"SELECT {share} AS value {row}", "ratio"),
                    " of all kernel time.",
                )
            )
    return lines


def _attributed(context: Context) -> list[Spans]:
    """Kernel time by match class."""
    if not context.has("how"):
        return []
    line: list[str | Span] = ["Kernel time by how its instruction was found: "]
    for i, word in enumerate(("exact", "name", "order", "none")):
        part = f"SUM(CASE WHEN \"match\" = '{word}' THEN duration_ps ELSE 0 END)"
        share = context.value(
            f"SELECT {ratio(part, 'SUM(duration_ps)')} AS value FROM how", "ratio"
        )
        line += [", " if i else "", f"`{word}` ", share]
    return [spans(*line, "; see ", Link("how kernels were attributed", "attribution"), ".")]


def _advice(context: Context) -> list[Spans]:
    """The first causes with what the step could come to."""
    if not context.has("advice"):
        return []
    lines = []
    for row in causes(context)[:_MOST_ADVICE]:
        low = context.value(f"SELECT low_ps AS value {row}", "ps", Label.INFERRED)
        high = context.value(f"SELECT high_ps AS value {row}", "ps", Label.INFERRED)
        cause = context.text(f"SELECT cause AS value {row}", "word")
        lines.append(
            spans(
                "To change: without ",
                cause,
                *of_what(context, row),
                f"{meaning(cause.raw)} a step of ",
                context.value(f"SELECT step_ps AS value {row}", "ps"),
                " would take ",
                low,
                " to ",
                high,
                " (inferred, not run); see ",
                Link("what to change", "advice"),
                ".",
            )
        )
    return lines


def _trust(context: Context) -> list[Spans]:
    """The gravest reasons to doubt the above."""
    if not context.has("trust"):
        return []
    grave = context.book.has_columns("trust", "severity")
    where = "WHERE severity >= 2" if grave else ""
    order = "severity DESC, " if grave else ""
    n = int(context.book.query(f"SELECT COUNT(*) AS n FROM trust {where}")["n"][0])
    lines = []
    for i in range(min(n, _MOST_TRUST)):
        row = f"FROM trust {where} ORDER BY {order}{ITEM_ORDER} LIMIT 1 OFFSET {i}"
        item = context.text(f"SELECT item AS value {row}", "prose")
        lines.append(spans("Don't trust blindly: ", item, "; see ", Link("why", "trust"), "."))
    return lines
