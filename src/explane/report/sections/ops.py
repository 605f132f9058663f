"""Where GPU time goes by HLO instruction, Python line and named scope."""

from __future__ import annotations

from explane.report.claims import Column
from explane.report.document import Block, Paragraph, Picture, Section, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts
from explane.report.sections.sql import LINE, op_key, ratio

_WORDS = ("ops", "lines", "attribution", "kernels")
_NO_LINE = "'(no Python line)'"


def ops(context: Context) -> Section:
    """Top instructions and lines, with the time that belongs to none."""
    title = "Operations and Python lines"
    if not context.has("ops"):
        reasons = context.reasons(_WORDS, "There are no GPU events to attribute.")
        return Section("ops", title, tuple(reasons), "Operations")
    blocks: list[Block] = [_ops_table(context)]
    if context.has("lines"):
        blocks.append(
            Picture(
                "lines",
                "Bars of GPU time by Python line, the longest first",
                spans("Sum of kernel time over all GPUs and steps of the capture."),
            )
        )
        blocks.append(_lines_table(context))
    else:
        blocks += context.reasons(("lines",), "No kernel could be given a Python line.")
    if context.has("scopes"):
        blocks.append(
            Picture(
                "scopes",
                "Icicle of GPU time by named scope: each bar spans the bars inside it",
                spans(
                    "GPU time by named scope (the path in `op_name`), outermost on top. Names "
                    "inside a jitted function come from `jax.named_scope`; a `TraceAnnotation` "
                    "there runs when the function is traced and does not reach the GPU."
                ),
            )
        )
    blocks += doubts(context, "ops", "lines", "time by line")
    return Section("ops", title, tuple(blocks), "Operations")


def _ops_table(context: Context) -> Block:
    columns = [
        context.column("host", "host", "name"),
        context.column("hlo_instruction", "instruction", "name"),
        context.column("duration_ps", "time", "ps"),
        context.column("share", "share", "ratio"),
        context.column("n_kernels", "kernels", "count"),
        context.column("kind", "kind", "word"),
        context.column("match", "match", "word"),
        context.column("line", "Python line", "path"),
        context.column("op_name", "op name", "scope"),
        *_range_columns(context, "ops"),
    ]
    extra = "".join(f", {c.name}" for c in columns if c.name in ("low_ps", "high_ps", "n"))
    has_kernel = context.book.has_columns("ops", "unattributed_kernel")
    names = ("hlo_instruction", "unattributed_kernel") if has_kernel else ("hlo_instruction",)
    name = f"COALESCE({', '.join(names)})"
    total = "(SELECT SUM(duration_ps) FROM ops)"
    sql = (
        f'SELECT host, {name} AS hlo_instruction, kind, "match", op_name, {LINE} AS line, '
        f"n_kernels, duration_ps, {ratio('duration_ps', total)} AS share{extra}, "
        f"{op_key('program_id', *names)} AS op FROM {context.whole('ops')} "
        "ORDER BY duration_ps DESC, host, program_id, hlo_instruction"
    )
    return context.table(
        "ops",
        sql,
        columns,
        "GPU time by HLO instruction; kernels without one stand under their own name.",
        [
            ("hlo_instruction", "op", "op"),
            ("line", "line", "line"),
            ("op_name", "scope", "op_name"),
        ],
    )


def _range_columns(context: Context, table: str) -> list[Column]:
    """Range over steps and GPUs, where the table has it."""
    if not context.book.has_columns(table, "low_ps", "high_ps", "n"):
        return []
    return [
        context.column("low_ps", "least per step", "ps"),
        context.column("high_ps", "most per step", "ps"),
        context.column("n", "steps and GPUs", "count"),
    ]


def _lines_table(context: Context) -> Block:
    has_text = context.has("line_texts")
    columns = [
        context.column("host", "host", "name"),
        context.column("line", "Python line", "path"),
        context.column("duration_ps", "time", "ps"),
        context.column("share", "share", "ratio"),
        context.column("n_kernels", "kernels", "count"),
        context.column("function", "function", "name"),
        *([context.column("code", "source", "name")] if has_text else []),
        *_range_columns(context, "lines"),
    ]
    extra = "".join(f", lines.{c.name}" for c in columns if c.name in ("low_ps", "high_ps", "n"))
    total = "(SELECT SUM(duration_ps) FROM lines)"
    line = "lines.source_file || ':' || CAST(lines.source_line AS VARCHAR)"
    code = ", line_texts.code AS code" if has_text else ""
    join = (
        " LEFT JOIN line_texts ON lines.source_file = line_texts.source_file "
        "AND lines.source_line = line_texts.source_line"
        if has_text
        else ""
    )
    sql = (
        f"SELECT lines.host AS host, COALESCE({line}, {_NO_LINE}) AS line, "
        f"lines.function AS function{code}, lines.n_kernels AS n_kernels, "
        f"lines.duration_ps AS duration_ps, {ratio('lines.duration_ps', total)} AS share{extra} "
        f"FROM {context.whole('lines')}{join} ORDER BY duration_ps DESC, host, line, function"
    )
    return context.table(
        "lines",
        sql,
        columns,
        "GPU time by Python line: the innermost one of yours on the operation's stack.",
        [("line", "line", "line")],
    )


def attribution(context: Context) -> Section:
    """How kernels got their instructions, and how far that can be trusted."""
    title = "How kernels were attributed"
    if not context.has("how"):
        reasons = context.reasons(_WORDS, "There are no GPU events to attribute.")
        return Section("attribution", title, tuple(reasons), "Attribution")
    total = "SELECT SUM(duration_ps) FROM how"
    columns = [
        context.column("match", "match", "word"),
        context.column("kind", "kind", "word"),
        context.column("reason", "how", "prose"),
        context.column("n", "kernels", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("share", "share", "ratio"),
    ]
    share = ratio("SUM(duration_ps)", f"({total})")
    rank = "CASE \"match\" WHEN 'exact' THEN 0 WHEN 'name' THEN 1 WHEN 'order' THEN 2 ELSE 3 END"
    sql = (
        'SELECT "match", kind, reason, SUM(n_kernels) AS n, SUM(duration_ps) AS time_ps, '
        f"{share} AS share, MIN(CAST({rank} AS BIGINT)) AS doubt FROM how "
        'GROUP BY "match", kind, reason ORDER BY doubt, time_ps DESC, kind, reason'
    )
    note = Paragraph(
        spans(
            "`exact`: the tracer's own label. `name`: the only candidate of that name in its "
            "window. `order`: matched in the order of the program's schedule. `none`: no "
            "instruction, with the reason; its time is shown as such and not spread."
        ),
        "note",
    )
    table = context.table("how", sql, columns, "Kernels by how their instruction was found.")
    return Section("attribution", title, (note, table, *_selfcheck(context)), "Attribution")


def _selfcheck(context: Context) -> tuple[Block, ...]:
    if not context.has("selfcheck"):
        return context.reasons(
            ("selfcheck", "self-check"),
            "No self-check: it needs kernels with labels whose label can be hidden.",
        )
    columns = [
        context.column("match", "match", "word"),
        context.column("n_tested", "tested", "count"),
        context.column("n_right", "right", "count"),
        context.column("share", "right by count", "ratio"),
        context.column("time_share", "right by time", "ratio"),
    ]
    by_count, by_time = (
        ratio('SUM("right")', "SUM(tested)"),
        ratio("SUM(right_ps)", "SUM(tested_ps)"),
    )
    sql = (
        'SELECT "match", SUM(tested) AS n_tested, SUM("right") AS n_right, '
        f"{by_count} AS share, {by_time} AS time_share FROM selfcheck "
        'GROUP BY "match" ORDER BY "match"'
    )
    note = Paragraph(
        spans(
            "Self-check: labels of kernels of this very capture were hidden, in runs as long as "
            "its graphs, and their instructions found without them."
        ),
        "note",
    )
    return (note, context.table("selfcheck", sql, columns, "Hidden labels that came back right."))
