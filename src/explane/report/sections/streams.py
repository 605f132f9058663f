"""Per GPU and stream: the budget of the span, and how even the GPUs are."""

from __future__ import annotations

from explane.report.document import Block, Paragraph, Picture, Section, spans
from explane.report.sections.context import Context
from explane.report.sections.sql import ratio

_WORDS = ("streams", "budget", "devices", "verdict")
_PARTS = ("compute", "collective", "memcpy", "memset", "idle")


def streams(context: Context) -> Section:
    """Budget of every stream; its parts add up to its span exactly."""
    title = "GPUs and streams"
    if not context.has("streams"):
        reasons = context.reasons(_WORDS, "The capture has no GPU events, so no stream has work.")
        return Section("streams", title, tuple(reasons))
    columns = [
        context.column("host", "host", "name"),
        context.column("device", "GPU", "id"),
        context.column("stream", "stream", "id"),
        context.column("span_ps", "span", "ps"),
        *(context.column(f"{part}_ps", part, "ps") for part in _PARTS),
        context.column("idle_ratio", "idle share", "ratio"),
        context.column("n_kernels", "kernels", "count"),
    ]
    parts = ", ".join(f"{part}_ps" for part in _PARTS)
    sql = (
        f"SELECT host, device, stream, span_ps, {parts}, n_kernels, "
        f"{ratio('idle_ps', 'span_ps')} AS idle_ratio FROM streams ORDER BY host, device, stream"
    )
    n_gpus = context.value(
        "SELECT COUNT(*) AS value FROM (SELECT DISTINCT host, device FROM streams) AS gpus",
        "count",
    )
    n_streams = context.value("SELECT COUNT(*) AS value FROM streams", "count")
    blocks: list[Block] = [
        Paragraph(
            spans(
                n_streams,
                " streams on ",
                n_gpus,
                " GPUs have events. Each span runs from the stream's first kernel to the end of "
                "its last; compute, collectives, copies, fills and idle time add up to it "
                "exactly. Idle is the time in which nothing of the stream runs.",
            )
        ),
        Picture(
            "budget",
            "Stacked bars of every GPU stream: compute, collectives, copies, fills and idle time",
            spans("Where the time of each stream goes; the same numbers as in the table."),
        ),
        context.table("streams", sql, columns, "Budget of every stream."),
    ]
    return Section("streams", title, tuple(blocks))
