"""Roofline: what each instruction reaches against the peaks of the GPU."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Paragraph, Picture, Section, spans
from explane.report.sections.context import Context

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
                    "One point for each modelled instruction, sized by time. The roofs are dense "
                    "peaks of the whole GPU from its spec sheet, or as you gave them."
                ),
            )
        )
    blocks.append(_coverage(context))
    blocks.append(_table(context))
    return Section("roofline", title, tuple(blocks))


def _coverage(context: Context) -> Block:
    known = "FROM roofline WHERE flops IS NOT NULL AND bytes IS NOT NULL AND duration_ps > 0"
    return Paragraph(
        spans(
            context.value(f"SELECT COUNT(*) AS value {known}", "count"),
            " of ",
            context.value("SELECT COUNT(*) AS value FROM roofline", "count"),
            " instructions have FLOPs and bytes that follow from their shapes; the others are "
            "unknown, not zero. Work and time are of one execution. A share above the peak is "
            "shown as it is: then the model or the peak is wrong.",
        )
    )


def _table(context: Context) -> Block:
    columns = [
        context.column("hlo_instruction", "instruction", "name"),
        context.column("n_executions", "executions", "count"),
        context.column("flops", "work", "flop", Label.INFERRED),
        context.column("bytes", "bytes", "bytes", Label.INFERRED),
        context.column("duration_ps", "time", "ps"),
        context.column("rate", "rate", "flop_per_s", Label.INFERRED),
        context.column("peak_flops_per_s", "peak", "flop_per_s", Label.READ),
        context.column("peak_bytes_per_s", "memory peak", "byte_per_s", Label.READ),
        context.column("peak_ratio", "share of roof", "ratio", Label.INFERRED),
        context.column("bound", "bound", "word", Label.INFERRED),
    ]
    sql = (
        "SELECT hlo_instruction, n_executions, flops, bytes, duration_ps, "
        "CAST(flops AS DOUBLE) / NULLIF(duration_ps, 0) * 1e12 AS rate, peak_flops_per_s, "
        "peak_bytes_per_s, peak_ratio, bound FROM roofline WHERE flops IS NOT NULL "
        "ORDER BY n_executions * duration_ps DESC, program_id, hlo_instruction"
    )
    return context.table(
        "roofline",
        sql,
        columns,
        "Modelled instructions, most time first.",
        [("hlo_instruction", "op")],
    )
