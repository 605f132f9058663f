"""Per GPU and stream: the budget of the span, and how even the GPUs are."""

from __future__ import annotations

from explane.report.document import Block, Paragraph, Picture, Section, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts
from explane.report.sections.sql import ratio

_WORDS = ("streams", "budget", "devices", "verdict")
_PARTS = ("compute", "collective", "memcpy", "memset", "idle")


def streams(context: Context) -> Section:
    """Where the step goes on each GPU, then the budget of every stream."""
    title = "GPUs and streams"
    if not context.has("streams"):
        reasons = context.reasons(_WORDS, "The capture has no GPU events, so no stream has work.")
        return Section("streams", title, tuple(reasons), "GPUs")
    blocks = [*_steps(context), *_devices(context), *_streams(context)]
    blocks += doubts(context, "per-gpu", "averages")
    return Section("streams", title, tuple(blocks), "GPUs")


def _steps(context: Context) -> list[Block]:
    """Parts of the complete steps of each GPU."""
    whole = "FROM step_budgets WHERE complete = 1"
    if not context.has("step_budgets") or not context.any(f"SELECT 1 AS n {whole}"):
        return list(
            context.reasons(("steps",), "No complete step, so no budget of a step can be given.")
        )
    parts = ", ".join(f"{_mean(part)} AS {part}" for part in _PARTS)
    columns = [
        context.column("host", "host", "name"),
        context.column("device", "GPU", "id"),
        context.column("n", "steps", "count"),
        context.column("mean", "mean step", "ps"),
        *(context.column(part, part, "ps") for part in _PARTS),
        context.column("idle_ratio", "idle share", "ratio"),
    ]
    sql = (
        f"SELECT host, device, COUNT(*) AS n, {_mean('duration')} AS mean, {parts}, "
        f"{ratio('SUM(idle_ps)', 'SUM(duration_ps)')} AS idle_ratio "
        f"FROM {context.detail('step_budgets')} WHERE complete = 1 "
        "GROUP BY host, device ORDER BY host, device"
    )
    return [
        Picture(
            "steps",
            "Stacked bars of where the step of each GPU goes",
            spans(
                "Where the mean step goes on each GPU. Compute beside communication counts as "
                f"compute: what is drawn as a collective or copy is exposed.{context.only}"
            ),
        ),
        context.table(
            "step_budgets",
            sql,
            columns,
            "The mean complete step of each GPU, all streams together.",
        ),
    ]


def _mean(part: str) -> str:
    """Mean over steps of a time, in whole picoseconds."""
    return f"CAST(ROUND(AVG({part}_ps)) AS BIGINT)"


def _devices(context: Context) -> list[Block]:
    """What collectives and copies cost on each GPU, over the whole capture."""
    needed = ("collective_time_ps", "exposed_collective_ps", "copy_time_ps", "exposed_copy_ps")
    if not context.has("devices") or not context.book.has_columns("devices", *needed):
        return []
    columns = [
        context.column("host", "host", "name"),
        context.column("device", "GPU", "id"),
        context.column("n_streams", "streams", "count"),
        context.column("span_ps", "span", "ps"),
        context.column("busy_ps", "busy", "ps"),
        context.column("collective_time_ps", "collectives", "ps"),
        context.column("exposed_collective_ps", "of it exposed", "ps"),
        context.column("copy_time_ps", "copies and fills", "ps"),
        context.column("exposed_copy_ps", "exposed copies", "ps"),
    ]
    names = ", ".join(column.name for column in columns)
    sql = f"SELECT {names} FROM {context.detail('devices')} ORDER BY host, device"
    return [context.table("devices", sql, columns, "Each GPU over the whole capture.")]


def _streams(context: Context) -> list[Block]:
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
        f"{ratio('idle_ps', 'span_ps')} AS idle_ratio "
        f"FROM {context.detail('streams')} ORDER BY host, device, stream"
    )
    gpus = "(SELECT DISTINCT host, device FROM streams) AS gpus"
    text = Paragraph(
        spans(
            "Streams with events: ",
            context.value("SELECT COUNT(*) AS value FROM streams", "count"),
            ", on GPUs: ",
            context.value(f"SELECT COUNT(*) AS value FROM {gpus}", "count"),
            ". A stream's span runs from its first kernel to the end of its last; compute, "
            "collectives, copies, fills and idle time add up to it exactly.",
        )
    )
    picture = Picture(
        "budget",
        "Stacked bars of every GPU stream: compute, collectives, copies, fills and idle time",
        spans(f"Where the span of each stream goes, over the whole capture.{context.only}"),
    )
    return [text, picture, context.table("streams", sql, columns, "Budget of every stream.")]
