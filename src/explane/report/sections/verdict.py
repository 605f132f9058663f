"""Verdict and cause: what bounds the step, its length, and why the GPU is idle."""

from __future__ import annotations

from explane.analysis.hosts.table import MOST_IN_DETAIL
from explane.report.claims import sql_text
from explane.report.document import Block, Paragraph, Section, Span, Spans, spans
from explane.report.sections.causes import meaning
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts
from explane.report.sections.sql import WHOLE_STEPS, ratio, spread


def verdict_lines(context: Context) -> list[Spans]:
    """One line per process, at most a few."""
    if not context.has("verdict"):
        return [spans("Verdict withheld: it was not analysed.")]
    n = int(context.book.query("SELECT COUNT(*) AS n FROM verdict")["n"][0])
    if n > MOST_IN_DETAIL:
        return _by_verdict(context)
    lines = []
    for i in range(n):
        row = f"FROM verdict ORDER BY host, verdict LIMIT 1 OFFSET {i}"
        line: list[str | Span] = ["Verdict"]
        if context.n_hosts > 1:
            line += [" for ", context.text(f"SELECT host AS value {row}")]
        line += [": ", context.text(f"SELECT verdict AS value {row}", "verdict"), ". "]
        reason = context.text(f"SELECT reason AS value {row}", "prose")
        lines.append(spans(*line, *([reason] if reason.raw else [])))
    return lines


def _by_verdict(context: Context) -> list[Spans]:
    """One line per verdict: how many processes have it, and the reason of the first."""
    each = "SELECT verdict, COUNT(*) AS n, MIN(host) AS host FROM verdict GROUP BY verdict"
    total = context.value("SELECT COUNT(*) AS value FROM verdict", "count")
    lines = []
    for i in range(context.rows(each)):
        row = f"({each}) AS each ORDER BY n DESC, verdict LIMIT 1 OFFSET {i}"
        host = context.book.query(f"SELECT host FROM {row}")["host"][0]
        lines.append(
            spans(
                "Verdict for ",
                context.value(f"SELECT n AS value FROM {row}", "count"),
                " of ",
                total,
                " processes: ",
                context.text(f"SELECT verdict AS value FROM {row}", "verdict"),
                ". On ",
                context.text(f"SELECT host AS value FROM {row}"),
                ": ",
                context.text(
                    f"SELECT reason AS value FROM verdict WHERE host = {sql_text(host)}", "prose"
                ),
            )
        )
    return lines


def step_line(context: Context) -> Spans:
    """Length of the step over complete steps and GPUs; nothing without complete steps."""
    if not context.has("steps") or not context.any(WHOLE_STEPS):
        return ()
    marked = not context.any(f"{WHOLE_STEPS} AND source <> 'marker'")
    by_gpu = (
        "SELECT QUANTILE_DISC(end_ps - start_ps, 0.5) AS median, MIN(end_ps - start_ps) AS low, "
        "MAX(end_ps - start_ps) AS high, COUNT(*) AS n FROM steps WHERE complete = 1 "
        "GROUP BY host, device"
    )
    slowest = (
        "SELECT MAX(median) AS value, MIN(low) AS low, MAX(high) AS high, SUM(n) AS n "
        f"FROM ({by_gpu}) AS gpus"
    )
    how = "from step markers" if marked else "inferred from what repeats, not marked"
    aside = "" if _stands_for_steps(context) else " The verdict does not rest on them."
    return spans(
        "A step takes ",
        *context.ranged(slowest, "ps"),
        ": the median on the slowest GPU, with the range over steps and GPUs. "
        f"Steps are {how}.{aside}",
    )


def _stands_for_steps(context: Context) -> bool:
    """Whether a verdict was made over complete steps, not over whole spans of the GPUs."""
    if not context.has("verdict") or not context.book.has_columns("verdict", "window"):
        return True
    made = "verdict <> 'withheld'"
    return context.any(
        f"SELECT 1 AS n FROM verdict WHERE \"window\" = 'complete steps' AND {made}"
    )


def verdict(context: Context) -> Section:
    """The shares that decided, the rule, the steps and the idle causes."""
    blocks: list[Block] = []
    if not context.has("verdict"):
        blocks += context.reasons(("verdict",), "The verdict was not analysed.")
    blocks += _shares(context)
    if context.has("verdict") and context.book.has_columns("verdict", "rule"):
        sql = "SELECT rule AS value FROM verdict ORDER BY host, verdict LIMIT 1"
        blocks.append(Paragraph(spans("Rule: ", context.text(sql, "prose"), "."), "note"))
    blocks += [*_steps(context), *_idle(context)]
    blocks += doubts(context, "verdict", "idle", "launch", "step time")
    return Section("verdict", "Verdict and cause", tuple(blocks), "Verdict")


def _shares(context: Context) -> list[Block]:
    """The shares that decided, the largest first; parts that take no time are left out."""
    shown = f"FROM {context.detail('verdict_parts')} WHERE share > 0"
    if not context.has("verdict_parts") or not context.any(f"SELECT 1 AS n {shown}"):
        return []
    columns = [
        context.column("host", "process", "name"),
        context.column("part", "part", "word"),
        context.column("share", "share of the time", "ratio"),
        context.column("meaning", "in this part", "prose"),
    ]
    sql = f"SELECT host, part, share, meaning {shown} ORDER BY host, share DESC, part"
    caption = "Where the time goes, and what decided."
    return [context.table("verdict_parts", sql, columns, caption)]


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
        f"FROM {context.detail('steps')} GROUP BY host, device ORDER BY host, device"
    )
    return [context.table("steps", sql, columns, "Step length by GPU, over complete steps.")]


_IN_STEPS = (
    "idle JOIN (SELECT DISTINCT host, device, step FROM steps WHERE complete = 1) AS whole "
    "ON idle.host = whole.host AND idle.device = whole.device AND idle.step = whole.step"
)
"""Idle gaps inside complete steps: outside of them the GPU has nothing to do."""


def _idle(context: Context) -> list[Block]:
    """Causes of idle gaps by cause and host event: inside complete steps, and in all."""
    if not context.has("idle"):
        return list(
            context.reasons(
                ("idle", "idle_causes"), "There are no idle gaps on a critical stream."
            )
        )
    tables = []
    whole = "complete steps of all GPUs"
    for gaps, caption in ((_IN_STEPS, whole), ("idle", "whole capture, all GPUs")):
        if context.any(f"SELECT idle.cause FROM {gaps} LIMIT 1"):
            tables.append(_causes(context, gaps, f"Why critical streams are idle: {caption}."))
    return list(tables)


def _causes(context: Context, gaps: str, caption: str) -> Block:
    columns = [
        context.column("cause", "cause", "word"),
        context.column("event", "host event", "name"),
        context.column("n", "gaps", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("share", "share of idle", "ratio"),
    ]
    share = ratio("SUM(idle.duration_ps)", f"(SELECT SUM(idle.duration_ps) FROM {gaps})")
    sql = (
        "SELECT idle.cause AS cause, idle.host_event AS event, COUNT(*) AS n, "
        f"SUM(idle.duration_ps) AS time_ps, {share} AS share FROM {gaps} "
        "GROUP BY idle.cause, idle.host_event ORDER BY time_ps DESC, cause, event"
    )
    return context.table("idle", sql, columns, caption)


def idle_share(context: Context) -> Spans:
    """Share of a step in which a GPU runs nothing, over complete steps and GPUs."""
    whole = "FROM step_budgets WHERE complete = 1 AND duration_ps > 0"
    if not context.has("step_budgets") or not context.any(f"SELECT 1 AS n {whole}"):
        return ()
    inner = f"SELECT {ratio('idle_ps', 'duration_ps')} AS r {whole}"
    return context.ranged(spread(inner, "r"), "ratio")


def top_cause(context: Context) -> Spans:
    """The idle cause with most time inside complete steps, with the host event that it names."""
    if not context.has("idle", "steps") or not context.any(f"SELECT idle.cause FROM {_IN_STEPS}"):
        return ()
    causes = (
        "SELECT idle.cause AS cause, idle.host_event AS event, SUM(idle.duration_ps) AS t "
        f"FROM {_IN_STEPS} GROUP BY idle.cause, idle.host_event"
    )
    row = f"FROM ({causes}) AS causes ORDER BY t DESC, cause, event LIMIT 1"
    cause = context.text(f"SELECT cause AS value {row}", "word")
    event = context.text(f"SELECT event AS value {row}", "name")
    line: list[str | Span] = ["Inside steps GPUs are idle mostly because of ", cause]
    if event.raw:
        line += [" during ", event]
    time = context.value(f"SELECT t AS value {row}", "ps")
    total = context.value(f"SELECT SUM(idle.duration_ps) AS value FROM {_IN_STEPS}", "ps")
    words = meaning(cause.raw).removeprefix(": ")
    return spans(
        *line,
        f" ({words}): " if words else ": ",
        time,
        " of ",
        total,
        " of idle time, all complete steps and GPUs together",
    )
