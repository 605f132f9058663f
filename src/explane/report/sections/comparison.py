"""Sections of a comparison: what differs between two captures, and how far that can be trusted."""

from __future__ import annotations

from typing import Final

from explane.report.claims import Column, Label
from explane.report.document import (
    Block,
    Bullets,
    Link,
    Paragraph,
    Picture,
    Reason,
    Section,
    Span,
    Spans,
    spans,
)
from explane.report.sections.context import Context

NOISE: Final = (
    "CASE WHEN beyond_noise = 1 THEN 'beyond' WHEN beyond_noise = 0 THEN 'within' "
    "ELSE 'unknown' END AS noise"
)
_NOISE_WORDS: Final = (
    "CASE WHEN beyond_noise = 1 THEN 'beyond the noise' WHEN beyond_noise = 0 "
    "THEN 'within the noise' ELSE 'noise unknown' END"
)
_A_LINE: Final = "a_source_file || ':' || CAST(a_source_line AS VARCHAR)"
_B_LINE: Final = "b_source_file || ':' || CAST(b_source_line AS VARCHAR)"
_MOST: Final = 3
_MOST_MEASURES: Final = 4


def compared_glance(context: Context) -> tuple[Block, ...]:
    """What stands at the head: both verdicts and what became of the step."""
    return tuple(Paragraph(line, "lead") for line in (*_verdicts(context), *_step(context)))


def compared_findings(context: Context) -> Section:
    """The most important differences below the step itself, each with its noise."""
    lines = [
        *_qualified(context),
        *_measures(context),
        *_largest(context),
        *_changed_work(context),
        *_outcomes(context),
    ]
    return Section("findings", "Findings", (Bullets(tuple(lines)),))


def _unit(context: Context) -> str:
    """What figures are of: a step, or the whole capture when a side has no whole step."""
    has_steps = context.any("SELECT 1 AS n FROM differences WHERE measure = 'step'")
    return "a step" if has_steps else "the whole capture"


def _qualified(context: Context) -> list[Spans]:
    grave = "FROM comparable WHERE effect = 'qualifies'"
    if not context.any(f"SELECT 1 AS n {grave}"):
        return [spans("Both captures are of the same work, as far as can be told.")]
    count = context.value(f"SELECT COUNT(*) AS value {grave}", "count")
    link = Link("can they be compared", "comparable")
    return [spans("Checks that qualify the comparison: ", count, " (", link, ").")]


def _verdicts(context: Context) -> list[Spans]:
    a, b = (
        context.text(f"SELECT verdict AS value FROM sides WHERE side = '{side}'", "verdict")
        for side in "AB"
    )
    return [spans("Verdict: ", a, " in A, ", b, " in B.")]


def _step(context: Context) -> list[Spans]:
    """Length of the step on both sides."""
    row = "FROM differences WHERE measure = 'step'"
    if not context.any(f"SELECT 1 AS n {row}"):
        return []
    a = context.ranged(f"SELECT a AS value, a_low AS low, a_high AS high, a_n AS n {row}", "ps")
    b = context.ranged(f"SELECT b AS value, b_low AS low, b_high AS high, b_n AS n {row}", "ps")
    difference = context.value(f"SELECT difference AS value {row}", "ps")
    low = context.value(f"SELECT difference_low AS value {row}", "ps")
    high = context.value(f"SELECT difference_high AS value {row}", "ps")
    change = context.value(f"SELECT change_ratio AS value {row}", "ratio")
    noise = context.text(f"SELECT {_NOISE_WORDS} AS value {row}", "word")
    return [
        spans("A step takes ", *a, " in A and ", *b, " in B."),
        spans(
            "Difference of the step: ", difference, " or ", change, " (the ranges allow ", low,
            " to ", high, "), ", noise, " (", Link("steps", "steps"), ").",
        ),
    ]  # fmt: skip


def _measures(context: Context) -> list[Spans]:
    """Parts and counts of a step that differ beyond the noise."""
    where = "FROM differences WHERE measure <> 'step' AND beyond_noise = 1"
    units = context.book.query(f'SELECT unit {where} ORDER BY "rank", measure')["unit"].to_list()
    lines = []
    for i, unit in enumerate(units[:_MOST_MEASURES]):
        row = f'{where} ORDER BY "rank", measure LIMIT 1 OFFSET {i}'
        a, b = (context.value(f"SELECT {side} AS value {row}", unit) for side in ("a", "b"))
        what = context.text(f"SELECT definition AS value {row}", "prose")
        of = f" (of {_unit(context)} on a GPU): "
        lines.append(spans(what, of, b, " in B, ", a, " in A (", Link("steps", "steps"), ")."))
    return lines


def _largest(context: Context) -> list[Spans]:
    """The operations that differ most beyond the noise."""
    where = "FROM compared_ops WHERE status = 'both' AND beyond_noise = 1"
    lines = []
    for i in range(min(context.rows(f"SELECT 1 AS n {where}"), _MOST)):
        row = f"{where} ORDER BY ABS(difference) DESC, op_name, a_op, b_op LIMIT 1 OFFSET {i}"
        name = context.text(f"SELECT COALESCE(op_name, a_op, b_op) AS value {row}")
        a = context.value(f"SELECT a AS value {row}", "ps")
        b = context.value(f"SELECT b AS value {row}", "ps")
        lines.append(
            spans(name, " takes ", b, f" of {_unit(context)} on a GPU in B, ", a, " in A (",
                  Link("operations", "ops"), ").")
        )  # fmt: skip
    return lines


def _changed_work(context: Context) -> list[Spans]:
    lines = []
    for status, side, words in (
        ("new", "b", "New work in B: "),
        ("vanished", "a", "Vanished work of A: "),
    ):
        where = f"FROM compared_ops WHERE status = '{status}'"
        if context.any(f"SELECT 1 AS n {where}"):
            count = context.value(f"SELECT COUNT(*) AS value {where}", "count")
            time = context.value(f"SELECT SUM({side}) AS value {where}", "ps")
            link = Link("new and vanished work", "changed")
            middle = f" of {_unit(context)} on a GPU; operations, by origin: "
            lines.append(spans(words, time, middle, count, " (", link, ")."))
    return lines


def _outcomes(context: Context) -> list[Spans]:
    if not context.has("predictions"):
        return []
    sql = (
        "SELECT outcome, COUNT(*) AS n FROM predictions GROUP BY outcome ORDER BY n DESC, outcome"
    )
    line: list[str | Span] = ["Predictions made on A: "]
    for i in range(context.rows(sql)):
        row = f"FROM ({sql}) AS o LIMIT 1 OFFSET {i}"
        line += [", " if i else "", context.text(f"SELECT outcome AS value {row}", "word"), " "]
        line.append(context.value(f"SELECT n AS value {row}", "count"))
    return [spans(*line, " (", Link("predictions", "predictions"), ").")]


def comparable(context: Context) -> Section:
    """What the two captures are, and every check of whether they can be compared."""
    sides = [
        context.column("side", "side", "word"),
        context.column("path", "capture", "path"),
        context.column("hosts", "hosts", "name"),
        context.column("gpu", "GPU", "name"),
        context.column("verdict", "verdict", "verdict"),
        context.column("n_gpus", "GPUs with kernels", "count"),
        context.column("n_steps", "whole steps", "count"),
        context.column("steps_from", "steps from", "word"),
        context.column("programs", "programs", "name"),
    ]
    checks = [
        context.column("check", "check", "prose"),
        context.column("a", "A", "word"),
        context.column("b", "B", "word"),
        context.column("effect", "effect", "word"),
        context.column("note", "note", "prose"),
    ]
    names = ", ".join(column.name for column in sides)
    order = "CASE effect WHEN 'refuses' THEN 0 WHEN 'qualifies' THEN 1 ELSE 2 END"
    sql = (
        f'SELECT "check", a, b, effect, note, CAST({order} AS BIGINT) AS grade FROM comparable '
        'ORDER BY grade, "check"'
    )
    blocks = (
        context.table("sides", f"SELECT {names} FROM sides ORDER BY side", sides, "The captures."),
        context.table("comparable", sql, checks, "Whether they are of the same work."),
        *_matching(context),
    )
    return Section("comparable", "Can they be compared", blocks)


def _matching(context: Context) -> tuple[Block, ...]:
    columns = [
        context.column("matched_by", "matched by", "word"),
        context.column("n_groups", "groups", "count"),
        context.column("a_ops", "operations in A", "count"),
        context.column("b_ops", "operations in B", "count"),
        context.column("a_ratio", "share of time in A", "ratio"),
        context.column("b_ratio", "share of time in B", "ratio"),
    ]
    sql = (
        "SELECT matched_by, n_groups, a_ops, b_ops, a_ratio, b_ratio FROM matching "
        "ORDER BY a_ratio DESC, b_ratio DESC, matched_by"
    )
    note = Paragraph(
        spans(
            "Operations are matched by what they are, never by instruction number: `line` is the "
            "same op_name, Python line and structure; `op_name` the same op_name and structure; "
            "`moved` the same line and structure; `renamed` the same op_name inside another "
            "function; `scope` the same op_name, compiled another way; `source` the same line; "
            "`structure` the same structure without a name; `kernel` the same kernel name; "
            "`none` has no counterpart."
        ),
        "note",
    )
    return (context.table("matching", sql, columns, "How operations were matched."), note)


def compared_steps(context: Context, has_picture: bool) -> Section:
    """Length and budget of a step, counts of kernels and launches."""
    blocks: list[Block] = []
    if has_picture:
        caption = "Where a step goes on one GPU: mean over whole steps and GPUs."
        blocks.append(
            Picture(
                "steps", "Stacked bars of the step of A and of B by kind of work", spans(caption)
            )
        )
    for unit, caption in (
        ("ps", f"Time of {_unit(context)} on one GPU: mean, and range over steps."),
        ("count", f"Counts of {_unit(context)} on one GPU."),
    ):
        columns = [
            context.column("measure", "measure", "word"),
            *_figures(context, unit),
            context.column("definition", "what it is", "prose"),
        ]
        names = _figure_names()
        sql = (
            f"SELECT measure, {names}, {NOISE}, definition FROM differences "
            f"WHERE unit = '{unit}' ORDER BY rank"
        )
        blocks.append(context.table("differences", sql, columns, caption))
    return Section("steps", "Steps and budgets", (*blocks, _noise_note(), *_parts(context)))


def _parts(context: Context) -> list[Block]:
    """Shares of the steps that the verdict rests on."""
    if not context.has("compared_parts"):
        return []
    columns = [
        context.column("part", "part", "word"),
        *(
            context.column(name, title, "ratio")
            for name, title in (
                ("a", "A"), ("a_low", "A least"), ("a_high", "A most"),
                ("b", "B"), ("b_low", "B least"), ("b_high", "B most"),
                ("difference", "B minus A"),
            )
        ),
        context.column("noise", "noise", "word"),
    ]  # fmt: skip
    sql = (
        f"SELECT part, a, a_low, a_high, b, b_low, b_high, difference, {NOISE}, "
        "GREATEST(a, b) AS size FROM compared_parts ORDER BY size DESC, part"
    )
    caption = "Shares of the steps that the verdicts rest on; ranges over GPUs and steps."
    return [context.table("compared_parts", sql, columns, caption)]


def _noise_note() -> Paragraph:
    return Paragraph(
        spans(
            "Noise is the range over steps: a difference is `beyond` it when the ranges of A and "
            "B do not meet, `within` it when they do, `unknown` with a single step on a side."
        ),
        "note",
    )


def _figures(context: Context, unit: str) -> list[Column]:
    """Both sides with their ranges, the difference and its noise."""
    return [
        context.column("a", "A", unit),
        context.column("b", "B", unit),
        context.column("difference", "B minus A", unit),
        context.column("change_ratio", "change", "ratio"),
        context.column("noise", "noise", "word"),
        context.column("a_low", "A least", unit),
        context.column("a_high", "A most", unit),
        context.column("b_low", "B least", unit),
        context.column("b_high", "B most", unit),
    ]


def _figure_names() -> str:
    return "a, a_low, a_high, b, b_low, b_high, difference, change_ratio"


def compared_ops(context: Context) -> Section:
    """Operations that both captures have."""
    columns = [
        context.column("op_name", "op name", "name"),
        context.column("a_op", "in A", "name"),
        context.column("b_op", "in B", "name"),
        context.column("matched_by", "matched by", "word"),
        *_figures(context, "ps"),
    ]
    sql = (
        f"SELECT op_name, a_op, b_op, matched_by, {_figure_names()}, {NOISE}, "
        "ABS(difference) AS size FROM compared_ops WHERE status = 'both' "
        "ORDER BY size DESC, op_name, a_op, b_op"
    )
    caption = f"Operations by the size of their difference: time of {_unit(context)} on a GPU."
    table = context.table("compared_ops", sql, columns, caption)
    return Section("ops", "Operations", (table,))


def compared_lines(context: Context, has_picture: bool) -> Section:
    """Python lines of both captures."""
    blocks: list[Block] = []
    if has_picture:
        caption = f"The lines whose time differs most, of {_unit(context)} on one GPU."
        alt = "Bars of the time in B minus the time in A by Python line"
        blocks.append(Picture("lines", alt, spans(caption)))
    columns = [
        context.column("a_line", "line in A", "path"),
        context.column("b_line", "line in B", "path"),
        context.column("status", "status", "word"),
        *_figures(context, "ps"),
    ]
    sql = (
        f"SELECT {_A_LINE} AS a_line, {_B_LINE} AS b_line, status, {_figure_names()}, {NOISE}, "
        "ABS(difference) AS size FROM compared_lines ORDER BY size DESC, a_line, b_line"
    )
    note = Paragraph(
        spans(
            "Lines belong together when their operations were matched, so that an edit above them "
            "does not part them. Kernels without a line are one row."
        ),
        "note",
    )
    caption = "Python lines by the size of their difference."
    blocks += [context.table("compared_lines", sql, columns, caption), note]
    return Section("lines", "Python lines", tuple(blocks))


def changed_work(context: Context) -> Section:
    """Operations that only one of the captures has."""
    blocks: list[Block] = []
    for status, side, caption in (
        ("new", "b", "Only in B: new work."),
        ("vanished", "a", "Only in A: vanished work."),
    ):
        where = f"FROM compared_ops WHERE status = '{status}'"
        if not context.any(f"SELECT 1 AS n {where}"):
            blocks.append(Reason(spans(f"{caption[:-1]}: none.")))
            continue
        columns = [
            context.column("op", "operation", "name"),
            context.column("op_name", "op name", "name"),
            context.column("line", "Python line", "path"),
            context.column("structure", "structure", "name"),
            context.column("ops", "operations", "count"),
            context.column("time_ps", "time", "ps"),
            context.column("low_ps", "least", "ps"),
            context.column("high_ps", "most", "ps"),
        ]
        line = _A_LINE if side == "a" else _B_LINE
        sql = (
            f"SELECT {side}_op AS op, op_name, {line} AS line, {side}_structure AS structure, "
            f"{side}_ops AS ops, {side} AS time_ps, {side}_low AS low_ps, {side}_high AS high_ps "
            f"{where} ORDER BY time_ps DESC, op_name, op"
        )
        blocks.append(context.table("compared_ops", sql, columns, caption))
    return Section("changed", "New and vanished work", tuple(blocks))


def predictions(context: Context) -> Section:
    """What became of the advice on the first capture."""
    title = "Predictions"
    if not context.has("predictions"):
        reason = "A made no predictions, or B has no whole step to test them with."
        return Section("predictions", title, (Reason(spans(reason)),))
    columns = [
        context.column("rank", "rank", "id"),
        context.column("cause", "cause", "word"),
        context.column("what", "what", "name"),
        context.column("a_cause_ps", "cause in A", "ps"),
        context.column("b_cause_ps", "cause in B", "ps"),
        context.column("a_step_ps", "step of A", "ps"),
        context.column("predicted_low_ps", "predicted least", "ps", Label.INFERRED),
        context.column("predicted_high_ps", "predicted most", "ps", Label.INFERRED),
        context.column("b_low_ps", "step of B, least", "ps"),
        context.column("b_high_ps", "step of B, most", "ps"),
        context.column("n_others_gone", "other causes gone", "count"),
        context.column("outcome", "outcome", "word"),
    ]
    names = ", ".join(f'"{column.name}"' for column in columns)
    sql = f'SELECT {names}, host FROM predictions ORDER BY host, "rank", cause, "what"'
    note = Paragraph(
        spans(
            "A said how long a step would take without each cause. Where B has lost the cause (at "
            "most a fifth of its time is left), its step is a test of that: the prediction came "
            "true when the range of B's steps meets it. Where other causes are gone as well, the "
            "step shows the effect of all of them. Other GPUs test nothing."
        ),
        "note",
    )
    table = context.table("predictions", sql, columns, "What became of A's predictions.")
    return Section("predictions", title, (table, note))
