"""The head of the report: what bounds the step, what to change, and how sure that is."""

from __future__ import annotations

from typing import Final

from explane.report.claims import Label
from explane.report.document import Block, Bullets, Link, Paragraph, Span, Spans, spans
from explane.report.sections.advice import causes, of_what, seen
from explane.report.sections.causes import action
from explane.report.sections.context import Context
from explane.report.sections.doubts import ITEM_ORDER
from explane.report.sections.sql import ratio
from explane.report.sections.verdict import step_line, verdict_lines

Estimate = list[int]
"""Step as it is, least and most without the cause, in picoseconds."""

_MOST_CHANGES: Final = 3
_SAME_RATIO: Final = 0.01
"""Estimates that differ by no more of the step are taken as the same."""

_OF_THE_HEAD: Final = ("every figure", "all totals", "verdict", "what to change", "step time")
"""What the head of the report rests on, as the trust list names it."""


def glance(context: Context) -> tuple[Block, ...]:
    """Verdict, step, the first changes with what they could bring, and the gravest doubt."""
    sure = _how_sure(context)
    changes = _changes(context)
    return (
        *(Paragraph(line) for line in _not_measured(context)),
        *verdict_and_step(context),
        *([Bullets(tuple(changes))] if changes else []),
        *([Paragraph(sure)] if sure else []),
    )


def verdict_and_step(context: Context) -> tuple[Block, ...]:
    """The verdict of each process and the step's length."""
    blocks: list[Block] = [Paragraph(line, "lead") for line in verdict_lines(context)]
    step = step_line(context)
    return (*blocks, Paragraph(step)) if step else tuple(blocks)


def _not_measured(context: Context) -> list[Spans]:
    """Simulated and damaged captures are named before anything else."""
    lines = []
    for column, text in (
        ("simulated", "Simulated, with invented times: "),
        ("partial", "Damaged, so that only a part could be read: "),
    ):
        sql = f"SELECT SUM({column}) AS value FROM hosts"
        if context.has("hosts") and context.book.query(sql)["value"][0]:
            count = context.value(sql, "count", Label.READ)
            total = context.value("SELECT COUNT(*) AS value FROM hosts", "count")
            lines.append(spans(text, count, " of ", total, " processes."))
    return lines


def _changes(context: Context) -> list[Spans]:
    """The first causes with what the step could come to.

    Of causes that share their time and save the same, as a late host and the read-back that made
    it late, only the first is shown.
    """
    lines: list[Spans] = []
    if _withheld(context):
        why = " The estimates below rest on records that can't carry a verdict."
        better = Link("take a better capture", "captures")
        end = f".{why}" if context.has("advice") else "."
        lines.append(spans("Before you change anything, ", better, end))
    if not context.has("advice"):
        return lines
    shown: list[tuple[str, Estimate]] = []
    for row in causes(context):
        *estimate, cause, overlaps = context.book.query(
            f"SELECT step_ps, low_ps, high_ps, cause, overlaps_with {row}"
        ).row(0)
        shared = str(overlaps).split("; ")
        if any(other in shared and _same(estimate, saved) for other, saved in shown):
            continue
        shown.append((str(cause), estimate))
        lines.append(_change(context, row, estimate))
        if len(shown) == _MOST_CHANGES:
            break
    return lines


def _same(estimate: Estimate, other: Estimate) -> bool:
    """Whether two causes save the same, as far as it matters."""
    limit_ps = estimate[0] * _SAME_RATIO
    return all(abs(a - b) <= limit_ps for a, b in zip(estimate, other, strict=True))


def _withheld(context: Context) -> bool:
    return context.has("verdict") and not context.any(
        "SELECT 1 AS n FROM verdict WHERE verdict <> 'withheld'"
    )


def _change(context: Context, row: str, estimate: Estimate) -> Spans:
    """What to change, what a step would take then, and how much less that is."""
    step_ps, _, high_ps = estimate
    cause = context.text(f"SELECT cause AS value {row}", "word")
    low, high = (
        context.value(f"SELECT {name} AS value {row}", "ps", Label.INFERRED)
        for name in ("low_ps", "high_ps")
    )
    most, least = (
        context.value(
            f"SELECT {ratio(f'(step_ps - {name})', 'step_ps')} AS value {row}",
            "ratio",
            Label.INFERRED,
        )
        for name in ("low_ps", "high_ps")
    )
    now = context.value(f"SELECT step_ps AS value {row}", "ps")
    line: list[str | Span] = [
        "To change: ",
        Link(action(cause.raw), "advice"),
        " (",
        cause,
        *of_what(context, row),
        "). ",
    ]
    if high_ps < step_ps:
        line += ["A step would take ", low, " to ", high, " instead of ", now, ", that is ", least]
        line += [" to ", most, " less (inferred, not run)."]
    else:
        line += ["A step would take ", low, " at best instead of ", now, ", that is ", most]
        line += [" less; perhaps nothing is gained (inferred, not run)."]
    evidence = seen(context, row)
    if evidence:
        line += [" Seen: ", evidence, "."]
    return spans(*line)


def _how_sure(context: Context) -> Spans:
    """How many checks hold, and the gravest items of the trust list."""
    line: list[str | Span] = []
    if context.has("checks"):
        count = "SELECT COUNT(*) AS value FROM checks WHERE holds"
        line += [
            "of the checks between independent records ",
            context.value(f"{count} = 'yes'", "count"),
            " hold and ",
            context.value(f"{count} = 'no'", "count"),
            " fail (",
            Link("reconciliation", "reconciliation"),
            "). ",
        ]
    if context.has("trust"):
        trust = f"FROM {context.whole('trust')}"
        line += [
            "Doubts: ",
            context.value(f"SELECT COUNT(*) AS value {trust}", "count"),
            " (",
            Link("what can't be trusted", "trust"),
            "), first of all: ",
            context.text(f"SELECT item AS value {trust} ORDER BY {_gravity(context)}", "prose"),
            ".",
        ]
    return spans("How sure: ", *line) if line else ()


def _gravity(context: Context) -> str:
    """Order of the trust list, before others what the head itself rests on."""
    severity = context.book.has_columns("trust", "severity")
    likes = " OR ".join(f"LOWER(affects) LIKE '%{word}%'" for word in _OF_THE_HEAD)
    ours = f"CAST(CASE WHEN {likes} THEN 0 ELSE 1 END AS BIGINT)"
    return f"{'severity DESC, ' if severity else ''}{ours}, {ITEM_ORDER} LIMIT 1"
