"""Verdict and cause: what bounds the step, its length, and why the GPU is idle."""

from __future__ import annotations

from explane.report.claims import Column, sql_text
from explane.report.document import Block, Paragraph, Section, Span, Spans, spans
from explane.report.sections.context import Context
from explane.report.sections.sql import WHOLE_STEPS, ratio, spread

_MOST_HOSTS = 4


def glance(context: Context) -> tuple[Block, ...]:
    """What stands at the head of the report: the verdict of each process and the step's length."""
    blocks: list[Block] = [Paragraph(line, "lead") for line in verdict_lines(context)]
    step = step_line(context)
    return (*blocks, Paragraph(step)) if step else tuple(blocks)


def verdict_lines(context: Context) -> list[Spans]:
    """One line per process, at most a few."""
    if not context.has("verdict"):
        return [spans("Verdict withheld: it was not analysed.")]
    n = int(context.book.query("SELECT COUNT(*) AS n FROM verdict")["n"][0])
    lines = []
    for i in range(min(n, _MOST_HOSTS)):
        row = f"FROM verdict ORDER BY host, verdict LIMIT 1 OFFSET {i}"
        line: list[str | Span] = ["Verdict"]
        if context.n_hosts > 1:
            line += [" for ", context.text(f"SELECT host AS value {row}")]
        line += [": ", context.text(f"SELECT verdict AS value {row}", "verdict"), ". "]
        reason = context.text(f"SELECT reason AS value {row}", "prose")
        lines.append(spans(*line, *([reason] if reason.raw else [])))
    if n > _MOST_HOSTS:
        count = context.value("SELECT COUNT(*) AS value FROM verdict", "count")
        lines.append(spans("These are the first of ", count, " processes; the table has all."))
    return lines


def step_line(context: Context) -> Spans:
    """Length of the step over complete steps and GPUs; nothing without complete steps."""
    if not context.has("steps") or context.book.query(WHOLE_STEPS).height == 0:
        return ()
    inferred = "SELECT COUNT(*) AS n FROM steps WHERE complete = 1 AND source <> 'marker'"
    marked = int(context.book.query(inferred)["n"][0]) == 0
    length = context.ranged(spread(WHOLE_STEPS, "d"), "ps")
    how = "from step markers" if marked else "inferred from what repeats, not marked"
    return spans("A step takes ", *length, f"; steps are {how}.")


def verdict(context: Context) -> Section:
    """The verdict with its rule, the steps, the idle causes and the SKIP figures."""
    blocks: list[Block] = [Paragraph(line, "lead") for line in verdict_lines(context)]
    if context.book.has_columns("verdict", "rule") and context.has("verdict"):
        rule = context.text(
            "SELECT rule AS value FROM verdict ORDER BY host, verdict LIMIT 1", "prose"
        )
        blocks.append(Paragraph(spans("Rule: ", rule), "note"))
    blocks += _steps(context)
    blocks += _idle(context)
    blocks += _generic(context, "skip", "SKIP figures; each is defined under Definitions.")
    return Section("verdict", "Verdict and cause", tuple(blocks))


def _steps(context: Context) -> list[Block]:
    if not context.has("steps"):
        return list(
            context.reasons(("steps",), "No steps were found: nothing marks them or repeats.")
        )
    columns = [
        context.column("host", "host", "name"),
        context.column("device", "GPU", "id"),
        context.column("n", "steps", "count"),
        context.column("whole", "complete", "count"),
        context.column("median", "median", "ps"),
        context.column("least", "least", "ps"),
        context.column("most", "most", "ps"),
    ]
    length = "CASE WHEN complete = 1 THEN end_ps - start_ps END"
    sql = (
        f"SELECT host, device, COUNT(*) AS n, SUM(complete) AS whole, "
        f"QUANTILE_DISC({length}, 0.5) AS median, MIN({length}) AS least, MAX({length}) AS most "
        "FROM steps GROUP BY host, device ORDER BY host, device"
    )
    return [context.table("steps", sql, columns, "Step length by GPU, over complete steps.")]


def _idle(context: Context) -> list[Block]:
    """Causes of idle gaps by cause and host event."""
    if not context.has("idle"):
        return list(
            context.reasons(
                ("idle", "idle_causes"), "There are no idle gaps on a critical stream."
            )
        )
    columns = [
        context.column("cause", "cause", "word"),
        context.column("host_event", "host event", "name"),
        context.column("n", "gaps", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("share", "share of idle", "ratio"),
    ]
    share = ratio("SUM(duration_ps)", "(SELECT SUM(duration_ps) FROM idle)")
    sql = (
        f"SELECT cause, host_event, COUNT(*) AS n, SUM(duration_ps) AS time_ps, {share} AS share "
        "FROM idle GROUP BY cause, host_event ORDER BY time_ps DESC, cause, host_event"
    )
    return [context.table("idle", sql, columns, "Why the critical stream is idle.")]


def _generic(context: Context, table: str, caption: str) -> list[Block]:
    """A table as it is, with units by the endings of its columns."""
    if not context.has(table):
        return list(context.reasons((table,), f"There are no figures for {table}."))
    columns = generic_columns(context, table)
    order = ", ".join(str(i + 1) for i in range(len(columns)))
    names = ", ".join(f'"{c.name}"' for c in columns)
    sql = f"SELECT {names} FROM {table} ORDER BY {order}"
    return [context.table(table, sql, columns, caption)]


def generic_columns(context: Context, table: str) -> list[Column]:
    """Columns of any table: the unit is the ending of the name."""
    frame = context.book.tables[table]
    columns = []
    for name, dtype in frame.schema.items():
        unit = next((u for u in ("ps", "ratio", "bytes") if name.endswith(f"_{u}")), "")
        if not unit:
            unit = "count" if dtype.is_integer() else "number" if dtype.is_numeric() else "prose"
        if name in ("device", "stream", "step", "program_id"):
            unit = "id"
        title = name.removesuffix(f"_{unit}").replace("_", " ")
        columns.append(context.column(name, title, unit))
    return columns


def idle_share(context: Context) -> Spans:
    """How much of the GPUs' spans is idle, over streams that compute."""
    if not context.has("streams"):
        return ()
    inner = f"SELECT {ratio('idle_ps', 'span_ps')} AS r FROM streams WHERE compute_ps > 0"
    return context.ranged(spread(inner, "r"), "ratio")


def top_cause(context: Context) -> Spans:
    """The idle cause with most time, with the host event that it names."""
    if not context.has("idle"):
        return ()
    row = (
        "FROM (SELECT cause, host_event, SUM(duration_ps) AS t FROM idle "
        "GROUP BY cause, host_event) AS causes ORDER BY t DESC, cause, host_event LIMIT 1"
    )
    cause = context.text(f"SELECT cause AS value {row}", "word")
    event = context.text(f"SELECT host_event AS value {row}", "name")
    where = f"cause = {sql_text(cause.raw)}"
    time = context.value(f"SELECT SUM(duration_ps) AS value FROM idle WHERE {where}", "ps")
    line: list[str | Span] = ["Most idle time has the cause ", cause, ": ", time, " in all"]
    if event.raw:
        line += [", first of all during ", event]
    return spans(*line, ".")
