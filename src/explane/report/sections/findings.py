"""Findings first: what the report found, one line each, each leading to its section."""

from __future__ import annotations

from explane.report.document import Block, Bullets, Link, Section, Span, Spans, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import ITEM_ORDER
from explane.report.sections.sql import LINE, ratio
from explane.report.sections.verdict import idle_share, top_cause

_MOST_TRUST = 3


def findings(context: Context) -> Section:
    """The most important results of every section."""
    lines = [*idle(context), *_top(context), *_attributed(context), *_trust(context)]
    if not lines:
        lines = [spans("Nothing could be measured; see ", Link("why", "trust"), ".")]
    blocks: tuple[Block, ...] = (Bullets(tuple(lines)),)
    return Section("findings", "Findings", blocks)


def idle(context: Context) -> list[Spans]:
    """How much of a step the GPUs run nothing, and above all why."""
    lines = []
    share = idle_share(context)
    if share:
        where = Link("GPUs and streams", "streams")
        lines.append(
            spans("In a step a GPU runs nothing for ", *share, " of the time (", where, ").")
        )
    cause = top_cause(context)
    if cause:
        lines.append(spans(*cause, " (", Link("verdict and cause", "verdict"), ")."))
    return lines


def _top(context: Context) -> list[Spans]:
    """The instruction and the line with most GPU time."""
    lines = []
    for table, words, name, unit, known, order in (
        ("ops", "operation", "hlo_instruction", "name", "hlo_instruction", "hlo_instruction"),
        ("lines", "Python line", LINE, "path", "source_file", "source_file, source_line"),
    ):
        if not context.has(table):
            continue
        rows = f"FROM {context.whole(table)} WHERE {known} IS NOT NULL"
        row = f"{rows} ORDER BY duration_ps DESC, {order} LIMIT 1"
        if not context.any(f"SELECT 1 AS n {row}"):
            continue
        share = ratio("duration_ps", f"(SELECT SUM(duration_ps) FROM {table})")
        lines.append(
            spans(
                f"The {words} with most GPU time is ",
                context.text(f"SELECT {name} AS value {row}", unit),
                ": ",
                context.value(f"SELECT {share} AS value {row}", "ratio"),
                " of all kernel time (",
                Link("operations and lines", "ops"),
                ").",
            )
        )
    return lines


def _attributed(context: Context) -> list[Spans]:
    """Kernel time by match class."""
    if not context.has("how"):
        return []
    line: list[str | Span] = ["How the instruction of each kernel is known, by kernel time: "]
    for i, (word, meaning) in enumerate(
        (
            ("exact", "the tracer's label"),
            ("name", "by name"),
            ("order", "by order"),
            ("none", "not known"),
        )
    ):
        part = f"SUM(CASE WHEN \"match\" = '{word}' THEN duration_ps ELSE 0 END)"
        share = context.value(
            f"SELECT {ratio(part, 'SUM(duration_ps)')} AS value FROM how", "ratio"
        )
        line += [", " if i else "", f"{meaning} (`{word}`) ", share]
    return [spans(*line, " (", Link("how kernels were attributed", "attribution"), ").")]


def _trust(context: Context) -> list[Spans]:
    """The grave reasons to doubt the above: those by which conclusions may be wrong."""
    if not context.has("trust") or not context.book.has_columns("trust", "severity"):
        return []
    where = f"FROM {context.whole('trust')} WHERE severity >= 2"
    n = context.rows(f"SELECT 1 AS n {where}")
    line: list[str | Span] = ["Conclusions may be wrong because of this: "]
    for i in range(min(n, _MOST_TRUST)):
        row = f"{where} ORDER BY severity DESC, {ITEM_ORDER} LIMIT 1 OFFSET {i}"
        line += ["; " if i else "", context.text(f"SELECT item AS value {row}", "prose")]
    if n > _MOST_TRUST:
        count = context.value(f"SELECT COUNT(*) AS value {where}", "count")
        line += ["; these are the first of ", count]
    return [spans(*line, " (", Link("what can't be trusted", "trust"), ").")] if n else []
