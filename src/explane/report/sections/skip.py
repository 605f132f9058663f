"""SKIP figures: launches against kernels, each figure with its definition beside it."""

from __future__ import annotations

from collections.abc import Iterator

from explane.report.document import Block, Paragraph, Section, spans
from explane.report.sections.context import Context

_NEEDED = ("device", "metric", "value", "unit", "low", "high", "n", "definition", "scope")
_OF_CAPTURE = "scope <> 'step' AND device IS NULL"


def skip_figures(context: Context) -> Section:
    """Figures of a step beside those of the whole capture; times and counts apart."""
    title, short = "Launches against kernels", "Launches"
    if not context.has("skip") or not context.book.has_columns("skip", *_NEEDED):
        reasons = context.reasons(("skip",), "There are no launches to set against the kernels.")
        return Section("skip", title, tuple(reasons), short)
    note = Paragraph(
        spans(
            "The figures of SKIP. TKLQT is the time from launch calls to the start of their "
            "kernels: where most of it is `tklqt_queue`, kernels waited for the GPU, not for "
            "their launch. Figures of a step are the median GPU's median, with the range over "
            "steps and GPUs."
        ),
        "note",
    )
    blocks: list[Block] = [note]
    for unit, caption in (("ps", "Times."), ("count", "Counts.")):
        if context.any(f"SELECT 1 AS n FROM ({_figures(context, unit)}) AS figures"):
            blocks.append(_table(context, unit, caption))
    blocks += _top_kernels(context)
    return Section("skip", title, tuple(blocks), short)


def _figures(context: Context, unit: str) -> str:
    """One row per figure: of a step, and of the whole capture where it has one."""
    return (
        "SELECT host, REPLACE(\"metric\", '_ps', '') AS figure, "
        "QUANTILE_DISC(CASE WHEN scope = 'step' THEN \"value\" END, 0.5) AS of_step, "
        "MIN(CASE WHEN scope = 'step' THEN low END) AS least, "
        "MAX(CASE WHEN scope = 'step' THEN high END) AS most, "
        "SUM(CASE WHEN scope = 'step' THEN n END) AS number, "
        f'MAX(CASE WHEN {_OF_CAPTURE} THEN "value" END) AS whole, definition '
        f"FROM {context.detail('skip')} "
        f"WHERE unit = '{unit}' AND (scope = 'step' OR ({_OF_CAPTURE})) "
        'GROUP BY host, "metric", definition'
    )


def _table(context: Context, unit: str, caption: str) -> Block:
    columns = [
        context.column("host", "host", "name"),
        context.column("figure", "figure", "word"),
        context.column("of_step", "of a step", unit),
        context.column("least", "least", unit),
        context.column("most", "most", unit),
        context.column("number", "steps and GPUs", "count"),
        context.column("whole", "whole capture", unit),
        context.column("definition", "definition", "prose"),
    ]
    sql = f"SELECT * FROM ({_figures(context, unit)}) AS figures ORDER BY host, figure"
    return context.table("skip", sql, columns, caption, text_rows=40)


def _top_kernels(context: Context) -> Iterator[Block]:
    """The kernels with most time, and those with most time from launch call to start."""
    captions = {
        "duration_ps": "Kernels with most time, by name.",
        "t_l_ps": "Kernels with most time from launch call to start, by name.",
    }
    if not context.has("top_kernels"):
        return
    columns = [
        context.column("host", "host", "name"),
        context.column("kernel", "kernel", "name"),
        context.column("kind", "kind", "word"),
        context.column("n_kernels", "kernels", "count"),
        context.column("duration_ps", "kernel time", "ps"),
        context.column("t_l_ps", "launch to start", "ps"),
    ]
    for by, caption in captions.items():
        sql = (
            f"SELECT * FROM {context.detail('top_kernels')} WHERE ranked_by = '{by}' AND {by} > 0 "
            'ORDER BY host, "rank"'
        )
        if context.any(sql):
            yield context.table("top_kernels", sql, columns, caption, text_rows=5)
