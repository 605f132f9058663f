"""Roofline: what each instruction reaches against the peaks of the GPU."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Paragraph, Picture, Section, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts
from explane.report.sections.sql import op_key, ratio

_WORDS = ("roofline",)


def roofline(context: Context, drawn: bool) -> Section:
    """Rates and shares of peak of modelled instructions, and what could not be modelled.

    Args:
        context: Claims and tables.
        drawn: Whether there are points to draw.
    """
    title = "Roofline"
    if not context.has("roofline"):
        reasons = context.reasons(_WORDS, "No instruction's work could be counted.")
        return Section("roofline", title, tuple(reasons))
    blocks: list[Block] = []
    if drawn:
        blocks.append(
            Picture(
                "roofline",
                "Scatter of rate over arithmetic intensity with the roofs of the GPU",
                spans(
                    "One point for each modelled instruction with arithmetic, sized by its time. "
                    "Roofs are dense peaks of the whole GPU from its spec sheet, or as you gave "
                    f"them.{context.only}"
                ),
            )
        )
    blocks += [_coverage(context), _table(context), *_left_out(context)]
    blocks += doubts(context, "roofline")
    return Section("roofline", title, tuple(blocks))


def _coverage(context: Context) -> Block:
    known = "FROM roofline WHERE flops IS NOT NULL AND bytes IS NOT NULL AND duration_ps > 0"
    return Paragraph(
        spans(
            context.value(f"SELECT COUNT(*) AS value {known}", "count"),
            " of ",
            context.value("SELECT COUNT(*) AS value FROM roofline", "count"),
            " instructions have FLOPs and bytes that follow from their shapes; the others are "
            "unknown, not zero. Work, bytes and time are of one execution. A share above the "
            "roof is shown as it is: then the model or the peak is wrong.",
        )
    )


def _table(context: Context) -> Block:
    flagged = context.book.has_columns("roofline", "flag")
    flag = ", flag" if flagged else ""
    key = op_key("program_id", "hlo_instruction")
    host = "host, " if context.book.has_columns("roofline", "host") else ""
    columns = [
        *([context.column("host", "host", "name")] if host else []),
        context.column("hlo_instruction", "instruction", "name"),
        context.column("n_executions", "executions", "count"),
        context.column("flops", "work", "flop", Label.INFERRED),
        context.column("bytes", "bytes", "bytes", Label.INFERRED),
        context.column("duration_ps", "time", "ps"),
        context.column("reached", "rate", "flop_per_s", Label.INFERRED),
        context.column("peak_flops_per_s", "peak", "flop_per_s", Label.READ),
        context.column("peak_bytes_per_s", "memory peak", "byte_per_s", Label.READ),
        context.column("peak_ratio", "share of roof", "ratio", Label.INFERRED),
        context.column("bound", "bound", "word", Label.INFERRED),
        *([context.column("flag", "flag", "prose")] if flagged else []),
    ]
    sql = (
        f"SELECT {host}hlo_instruction, n_executions, flops, bytes, duration_ps, "
        "CAST(flops AS DOUBLE) / NULLIF(duration_ps, 0) * 1e12 AS reached, peak_flops_per_s, "
        f"peak_bytes_per_s, peak_ratio, bound{flag}, {key} AS op "
        f"FROM {context.detail('roofline')} WHERE flops IS NOT NULL "
        f"ORDER BY n_executions * duration_ps DESC, {host}program_id, hlo_instruction"
    )
    return context.table(
        "roofline",
        sql,
        columns,
        "Modelled instructions, most time first.",
        [("hlo_instruction", "op", "op")],
    )


def _left_out(context: Context) -> list[Block]:
    """GPU time by why it is in the roofline or not."""
    if not context.has("roofline_coverage"):
        return []
    columns = [
        context.column("reason", "modelled, or why not", "prose"),
        context.column("instructions", "instructions", "count"),
        context.column("kernels", "kernels", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("share", "share", "ratio"),
    ]
    share = ratio("SUM(duration_ps)", "(SELECT SUM(duration_ps) FROM roofline_coverage)")
    sql = (
        "SELECT reason, SUM(n_instructions) AS instructions, SUM(n_kernels) AS kernels, "
        f"SUM(duration_ps) AS time_ps, {share} AS share FROM roofline_coverage "
        "GROUP BY reason ORDER BY time_ps DESC, reason"
    )
    caption = "How much of the kernel time the roofline covers."
    return [context.table("roofline_coverage", sql, columns, caption)]
