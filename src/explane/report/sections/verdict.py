"""Verdict and cause: what bounds the step, its length, and why the GPU is idle."""

from __future__ import annotations

from explane.report.claims import sql_text
from explane.report.document import Block, Paragraph, Section, Span, Spans, spans
from explane.report.sections.context import Context
from explane.report.sections.skip import skip_figures
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
    if context.has("verdict") and context.book.has_columns("verdict", "rule"):
        sql = "SELECT rule AS value FROM verdict ORDER BY host, verdict LIMIT 1"
        blocks.append(Paragraph(spans("Rule: ", context.text(sql, "prose"), "."), "note"))
    blocks += [*_shares(context), *_steps(context), *_idle(context), *skip_figures(context)]
    return Section("verdict", "Verdict and cause", tuple(blocks))


def _shares(context: Context) -> list[Block]:
    """The shares that decided, one row for each process."""
    if not context.has("verdict"):
        return []
    frame = context.book.tables["verdict"]
    shares = [name for name in frame.columns if name.endswith("_ratio")]
    if not shares:
        return []
    columns = [
        context.column("process", "process", "name"),
        context.column("verdict", "verdict", "word"),
        *(
            context.column(name, name.removesuffix("_ratio").replace("_", " "), "ratio")
            for name in shares
        ),
    ]
    sql = (
        f"SELECT host AS process, verdict, {', '.join(shares)} FROM verdict ORDER BY host, verdict"
    )
    return [context.table("verdict", sql, columns, "The shares of time that decided.")]


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


def idle_share(context: Context) -> Spans:
    """Share of a step in which a GPU runs nothing, over complete steps and GPUs."""
    whole = "FROM step_budgets WHERE complete = 1 AND duration_ps > 0"
    if not context.has("step_budgets") or not context.any(f"SELECT 1 AS n {whole}"):
        return ()
    inner = f"SELECT {ratio('idle_ps', 'duration_ps')} AS r {whole}"
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
