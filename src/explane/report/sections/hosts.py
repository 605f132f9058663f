"""Several processes beside each other: results, clocks, who is late, equal programs."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Link, Paragraph, Section, Span, Spans, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts

_ALIGNED = "FROM clocks WHERE aligned = 1"
_FITTED = f"{_ALIGNED} AND residual_ps IS NOT NULL"


def hosts(context: Context) -> list[Section]:
    """The section on processes; none when there is only one."""
    if context.n_hosts < 2:
        return []
    blocks: list[Block] = [_programs(context), *_clocks(context), _table(context)]
    blocks += [*_operations(context), *_in_detail(context)]
    blocks += doubts(context, "across processes")
    return [Section("hosts", "Processes", tuple(blocks), "Processes")]


def _programs(context: Context) -> Block:
    """How many distinct programs the processes ran."""
    n = context.value("SELECT COUNT(*) AS value FROM hosts", "count")
    if not context.has("programs"):
        return Paragraph(spans("Processes: ", n, ". None of them stores its programs."))
    different = "FROM programs WHERE n_versions > 1"
    line: list[str | Span] = [
        "Processes: ",
        n,
        ". Distinct programs, compared by structure: ",
        context.value("SELECT COUNT(*) AS value FROM programs", "count"),
    ]
    if context.any(f"SELECT 1 AS n {different}"):
        line += [
            "; of these are stored in several versions that differ in bytes only: ",
            context.value(f"SELECT COUNT(*) AS value {different}", "count"),
        ]
    return Paragraph(spans(*line, ". Operations of equal programs are added up."))


def _clocks(context: Context) -> list[Block]:
    """How many clocks could be aligned, how far they are apart, and what is left."""
    if not context.has("clocks"):
        reason = "no collective was found that two of them have"
        return [Paragraph(spans(f"Clocks: {reason}. Each process has an axis of its own."))]
    line: list[str | Span] = [
        "Clocks: on matched collectives, processes aligned with a reference: ",
        context.value(f"SELECT COUNT(*) AS value {_FITTED}", "count", Label.INFERRED),
        " of ",
        context.value(
            "SELECT COUNT(*) AS value FROM clocks WHERE host <> reference", "count", Label.MEASURED
        ),
    ]
    if context.any(f"SELECT 1 AS n {_FITTED}"):
        line += _agreement(context)
    else:
        line += [". Nothing is compared across processes; each has an axis of its own."]
    return [Paragraph(spans(*line), "lead")]


def _agreement(context: Context) -> list[str | Span]:
    """Offsets, drifts and the worst residual of the clocks that were aligned."""
    reference = context.text(f"SELECT MIN(reference) AS value {_FITTED}")

    def value(what: str, unit: str) -> Span:
        return context.value(f"SELECT {what} AS value {_FITTED}", unit, Label.INFERRED)

    return [
        ". Against ",
        reference,
        " they are off by ",
        value("MIN(offset_ps)", "ps"),
        " to ",
        value("MAX(offset_ps)", "ps"),
        " and drift by ",
        value("MIN(drift_ppm)", "number"),
        " to ",
        value("MAX(drift_ppm)", "number"),
        " parts per million. What the fit leaves is at most ",
        value("MAX(residual_ps)", "ps"),
        " in the median of a process: nothing shorter can be told across processes.",
    ]


def _table(context: Context) -> Block:
    columns = [
        context.column("process", "process", "name"),
        context.column("verdict", "verdict", "verdict"),
        context.column("step_ps", "step", "ps"),
        context.column("idle_ratio", "idle share", "ratio"),
        context.column("kernel_time_ps", "kernel time", "ps"),
        context.column("late_operations", "last in", "count", Label.INFERRED),
        context.column("caused_wait_ps", "waiting of the others", "ps", Label.INFERRED),
        context.column("clock_offset_ps", "clock offset", "ps", Label.INFERRED),
        context.column("clock_drift_ppm", "drift, ppm", "number", Label.INFERRED),
        context.column("clock_residual_ps", "residual", "ps", Label.INFERRED),
    ]
    names = ", ".join(c.name for c in columns[1:])
    sql = (
        f"SELECT host AS process, {names} FROM hosts "
        "ORDER BY caused_wait_ps DESC NULLS LAST, step_ps DESC NULLS LAST, host"
    )
    caption = "Processes, those that the others waited for longest first."
    return context.table("hosts", sql, columns, caption)


def _operations(context: Context) -> list[Block]:
    """Collectives across processes by instruction: how unevenly they are joined, and by whom."""
    if not context.has("host_collectives"):
        return []
    columns = [
        context.column("hlo_instruction", "instruction", "name"),
        context.column("n", "collectives", "count", Label.INFERRED),
        context.column("n_hosts", "processes", "count"),
        context.column("spread", "spread of joining, median", "ps", Label.INFERRED),
        context.column("waited", "waiting of all", "ps", Label.INFERRED),
        context.column("late", "last to join, most often", "name", Label.INFERRED),
        context.column("late_n", "times", "count", Label.INFERRED),
    ]
    by_host = (
        "SELECT program, hlo_instruction, late_host, COUNT(*) AS late_n FROM host_collectives "
        "WHERE late_host IS NOT NULL GROUP BY program, hlo_instruction, late_host"
    )
    most = (
        "SELECT program, hlo_instruction, MAX(late_n) AS late_n "
        f"FROM ({by_host}) AS by_host GROUP BY program, hlo_instruction"
    )
    usual = (
        "SELECT most.program AS program, most.hlo_instruction AS hlo_instruction, "
        "most.late_n AS late_n, MIN(by_host.late_host) AS late "
        f"FROM ({most}) AS most JOIN ({by_host}) AS by_host ON most.program = by_host.program "
        "AND most.hlo_instruction = by_host.hlo_instruction AND most.late_n = by_host.late_n "
        "GROUP BY most.program, most.hlo_instruction, most.late_n"
    )
    sums = (
        "SELECT program, hlo_instruction, COUNT(*) AS n, MAX(n_hosts) AS n_hosts, "
        "QUANTILE_DISC(spread_ps, 0.5) AS spread, SUM(caused_wait_ps) AS waited "
        "FROM host_collectives GROUP BY program, hlo_instruction"
    )
    sql = (
        "SELECT sums.hlo_instruction AS hlo_instruction, sums.n AS n, sums.n_hosts AS n_hosts, "
        "sums.spread AS spread, sums.waited AS waited, usual.late AS late, "
        f"usual.late_n AS late_n FROM ({sums}) AS sums LEFT JOIN ({usual}) AS usual "
        "ON sums.program = usual.program AND sums.hlo_instruction = usual.hlo_instruction "
        "ORDER BY waited DESC, hlo_instruction, n"
    )
    caption = "Collectives across processes, those with most waiting first."
    return [context.table("host_collectives", sql, columns, caption)]


def _in_detail(context: Context) -> list[Block]:
    """Which of many processes are shown one by one."""
    if not context.many:
        return []
    shown = "FROM hosts WHERE in_detail = 1"
    n = context.rows(f"SELECT host {shown}")
    names: list[str | Span] = []
    for i in range(n):
        row = f"SELECT host AS value {shown} ORDER BY host LIMIT 1 OFFSET {i}"
        names += [", " if i else "", context.text(row)]
    line: Spans = spans(
        "Tables and pictures by GPU are of these processes only: ",
        *names,
        " (the one waited for longest, the slowest, the median one and the one that is idle most, "
        "or the first). Left out of them: ",
        context.value("SELECT COUNT(*) AS value FROM hosts WHERE in_detail = 0", "count"),
        "; the table files have all, and ",
        Link("operations and lines", "ops"),
        " are summed over all.",
    )
    return [Paragraph(line, "note")]
