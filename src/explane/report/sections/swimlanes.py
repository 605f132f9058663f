"""Swimlanes of the median step, what its end waits for, and the collectives in it."""

from __future__ import annotations

from explane.report.claims import Label
from explane.report.document import Block, Paragraph, Picture, Section, Spans, Table, spans
from explane.report.sections.context import Context
from explane.report.sections.doubts import doubts
from explane.report.sections.sql import LINE, op_key, ratio

_PICTURE = (
    "Swimlanes of the median step: one lane for each GPU stream and launching thread, kernels "
    "coloured by kind, idle time grey, the critical path underlined"
)


def swimlanes(context: Context, pixel_ps: int) -> Section:
    """The picture, the longest parts of the critical path, and the collectives.

    Args:
        context: Claims and tables.
        pixel_ps: Events shorter than this are drawn merged in the picture.
    """
    blocks: list[Block] = []
    if context.has("swimlane"):
        blocks += _picture(context, pixel_ps)
    else:
        blocks += context.reasons(
            ("swimlane", "swimlanes", "steps"), "No step with GPU work was found to be drawn."
        )
    blocks += _critical_path(context)
    blocks += _collectives(context)
    blocks += doubts(context, "collectives", "critical path")
    return Section("swimlanes", "The median step", tuple(blocks), "Median step")


def _picture(context: Context, pixel_ps: int) -> list[Block]:
    gpu = "FROM swimlane WHERE lane_kind = 'gpu'"
    n_events = context.value(f"SELECT COUNT(*) AS value {gpu}", "count")
    own = " Each process has an axis of its own." if context.n_hosts > 1 else ""
    merged = f"SELECT COUNT(*) AS value {gpu} AND duration_ps < {pixel_ps}"
    caption = spans(
        "GPU events: ",
        n_events,
        ". Those too short for the picture are drawn merged: ",
        context.value(merged, "count"),
        ". Grey is idle; the line under kernels is the critical path. The lanes begin with the "
        "first kernel: idle time of the step before it is only in the tables."
        f"{own}{context.only}",
    )
    return [Picture("swimlanes", _PICTURE, caption)]


def _last(context: Context) -> Spans:
    """Which GPU finishes last, and with what."""
    row = (
        "FROM swimlane WHERE lane_kind = 'gpu' "
        "ORDER BY start_ps + duration_ps DESC, host, device, stream LIMIT 1"
    )
    if not context.any(f"SELECT 1 AS n {row}"):
        return ()
    return spans(
        " GPU ",
        context.value(f"SELECT device AS value {row}", "id", Label.READ),
        " finishes last, with ",
        context.text(f"SELECT COALESCE(hlo_instruction, name) AS value {row}"),
        ".",
    )


def _critical_path(context: Context) -> list[Block]:
    if not context.has("critical_path"):
        return list(
            context.reasons(
                ("critical_path", "critical path"), "The critical path was not analysed."
            )
        )
    paths = context.detail("critical_path")
    columns = [
        context.column("kind", "kind", "word"),
        context.column("device", "GPU", "id"),
        context.column("what", "what", "name"),
        context.column("line", "Python line", "path"),
        context.column("n", "times", "count"),
        context.column("time_ps", "time", "ps"),
    ]
    key = op_key("program_id", "hlo_instruction", "what")
    key = f"CASE WHEN device IS NOT NULL THEN {key} END"
    sql = (
        f"SELECT kind, device, what, {LINE} AS line, COUNT(*) AS n, SUM(duration_ps) AS time_ps, "
        f"{key} AS op FROM {paths} "
        "GROUP BY kind, device, what, source_file, source_line, program_id, hlo_instruction "
        "ORDER BY time_ps DESC, kind, device, what, line, op"
    )
    total = context.value(f"SELECT SUM(duration_ps) AS value FROM {paths}", "ps")
    kinds = [
        context.column("kind", "kind", "word"),
        context.column("n", "times", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("share", "share", "ratio"),
    ]
    share = ratio("SUM(duration_ps)", f"(SELECT SUM(duration_ps) FROM {paths})")
    by_kind = (
        f"SELECT kind, COUNT(*) AS n, SUM(duration_ps) AS time_ps, {share} AS share "
        f"FROM {paths} GROUP BY kind ORDER BY time_ps DESC, kind"
    )
    table = context.table(
        "critical_path",
        sql,
        columns,
        "What the critical path is made of.",
        [("what", "op", "op"), ("line", "line", "line")],
    )
    lead = spans("The critical path is ", total, " long.", *_last(context))
    if context.n_hosts > 1:
        lead = spans("The critical paths of the processes shown add up to ", total, ".")
    return [
        Paragraph(lead),
        context.table("critical_path", by_kind, kinds, "The critical path by kind."),
        table,
    ]


def _collectives(context: Context) -> list[Block]:
    if not context.has("collectives"):
        return list(
            context.reasons(
                ("collectives",), "No collective ran in this capture, or none could be matched."
            )
        )
    columns = [
        context.column("hlo_instruction", "instruction", "name"),
        context.column("n", "kernels", "count"),
        context.column("time_ps", "time", "ps"),
        context.column("wait", "waiting", "ps"),
        context.column("transfer", "transfer", "ps"),
        context.column("exposed", "exposed", "ps"),
    ]
    sql = (
        f"SELECT hlo_instruction, {op_key('program_id', 'hlo_instruction')} AS op, "
        "COUNT(*) AS n, SUM(duration_ps) AS time_ps, "
        "SUM(wait_ps) AS wait, SUM(transfer_ps) AS transfer, SUM(exposed_ps) AS exposed "
        "FROM collectives GROUP BY program_id, hlo_instruction "
        "ORDER BY exposed DESC, time_ps DESC, hlo_instruction, program_id"
    )
    note = Paragraph(
        spans(
            "Waiting is the time from a GPU's own start of a collective to the latest GPU's; "
            "transfer is what follows; exposed is the part during which no compute kernel of "
            "that GPU runs. Sums are over GPUs and occurrences."
        ),
        "note",
    )
    table: Table = context.table(
        "collectives",
        sql,
        columns,
        "Collectives by instruction, most exposed first.",
        [("hlo_instruction", "op", "op")],
    )
    return [note, table, *_stragglers(context)]


def _stragglers(context: Context) -> list[Block]:
    """GPUs that the others waited for."""
    if not context.has("stragglers"):
        return []
    columns = [
        context.column("host", "host", "name"),
        context.column("device", "late GPU", "id"),
        context.column("n_operations", "collectives", "count"),
        context.column("caused_wait_ps", "waiting of the others", "ps"),
        context.column("doing", "meanwhile it ran", "name"),
        context.column("doing_ps", "for", "ps"),
    ]
    sql = (
        "SELECT host, device, n_operations, caused_wait_ps, doing, doing_ps "
        f"FROM {context.detail('stragglers')} "
        "ORDER BY caused_wait_ps DESC, host, device"
    )
    caption = "GPUs that the others waited for."
    return [context.table("stragglers", sql, columns, caption)]
