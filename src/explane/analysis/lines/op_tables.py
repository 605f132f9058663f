"""Kernel, op and line tables: the attribution joined with source lines and steps.

`kernels` has one row per device event in the order of the capture. `ops` sums it by instruction,
`lines` by Python line. Rows without an instruction or line stay as rows of their own, so every
table's `duration_ps` adds up to the same total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution, Match
from explane.analysis.columns import coded_column, id_column, plain_texts, same_text
from explane.analysis.lines.provenance import Provenance
from explane.analysis.lines.row_groups import RowGroups, row_groups, texts
from explane.capture.model import I64, Capture, Kind
from explane.capture.program import Program

KERNEL_COLUMNS = (
    "host", "device", "stream", "start_ps", "duration_ps", "kernel", "kind", "correlation_id",
    "program_id", "hlo_op", "hlo_instruction", "match", "in_graph", "iteration", "step", "op_name",
    "source_file", "source_line", "function", "line_from",
)  # fmt: skip
"""First columns of `kernels.csv`, in order."""

_MOST_OPS = 8
_MATCH_RANK = {match.word: int(match) for match in Match}
_RANK_MATCH = {rank: word for word, rank in _MATCH_RANK.items()}


@dataclass(frozen=True, slots=True)
class OpSources:
    """What is known of each distinct instruction of an attribution, by its index there."""

    program: pl.Series
    opcode: pl.Series
    op_name: pl.Series
    source_file: pl.Series
    source_line: pl.Series
    function: pl.Series
    line_from: pl.Series
    fused_lines: pl.Series


def op_sources(
    attribution: Attribution,
    programs: Mapping[int, Program],
    provenances: Mapping[int, Mapping[str, Provenance]],
) -> OpSources:
    """Program name, opcode, op_name and Python line of each distinct instruction.

    Args:
        attribution: Its `instructions` are looked up, one entry each.
        programs: Parsed programs by id.
        provenances: By program id, then by instruction name.
    """
    found = [provenances[key.program_id][key.name] for key in attribution.instructions]
    owners = [programs[key.program_id] for key in attribution.instructions]
    opcodes = [
        p.by_name[key.name].opcode for p, key in zip(owners, attribution.instructions, strict=True)
    ]
    lines = ["; ".join(f"{file}:{line}" for file, line in f.lines) for f in found]
    return OpSources(
        program=pl.Series([p.name for p in owners], dtype=pl.String),
        opcode=pl.Series(opcodes, dtype=pl.String),
        op_name=pl.Series([f.op_name or None for f in found], dtype=pl.String),
        source_file=pl.Series([f.source_file or None for f in found], dtype=pl.String),
        source_line=pl.Series([f.source_line or None for f in found], dtype=pl.Int64),
        function=pl.Series([f.function or None for f in found], dtype=pl.String),
        line_from=pl.Series([f.line_from for f in found], dtype=pl.String),
        fused_lines=pl.Series(lines, dtype=pl.String),
    )


def kernel_table(
    host: str,
    capture: Capture,
    attribution: Attribution,
    sources: OpSources,
    kernel_step: I64,
) -> pl.DataFrame:
    """One row per device event, in the capture's order.

    Args:
        host: Host label.
        capture: The capture.
        attribution: Aligned with `capture.kernels`.
        sources: Aligned with `attribution.instructions`.
        kernel_step: Step number of each kernel, or -1.

    Returns:
        `KERNEL_COLUMNS`, then `opcode`, `reason`, `execution`, `time_ok`, `details`.
    """
    kernels, strings = capture.kernels, capture.strings
    kind_words = [k.word for k in Kind]
    match_words = [m.word for m in Match]
    names = [key.name for key in attribution.instructions]
    of_op = attribution.instruction

    def gathered(series: pl.Series, name: str) -> pl.Series:
        if series.dtype == pl.String:
            return coded_column(name, of_op, series.to_list())
        padded = pl.concat([series, pl.Series([None], dtype=series.dtype)])
        return padded.gather(np.where(of_op < 0, series.len(), of_op)).rename(name)

    return pl.DataFrame(
        [
            same_text("host", host, len(kernels)),
            pl.Series("device", kernels.device),
            pl.Series("stream", kernels.stream),
            pl.Series("start_ps", kernels.start_ps),
            pl.Series("duration_ps", kernels.duration_ps),
            coded_column("kernel", kernels.name, strings),
            coded_column("kind", kernels.kind, kind_words),
            id_column("correlation_id", kernels.correlation_id),
            id_column("program_id", attribution.program_id),
            coded_column("hlo_op", kernels.hlo_op, strings),
            coded_column("hlo_instruction", of_op, names),
            coded_column("match", attribution.match, match_words),
            pl.Series("in_graph", attribution.in_graph),
            coded_column("iteration", attribution.iteration, attribution.iterations),
            id_column("step", kernel_step),
            gathered(sources.op_name, "op_name"),
            gathered(sources.source_file, "source_file"),
            gathered(sources.source_line, "source_line"),
            gathered(sources.function, "function"),
            gathered(sources.line_from, "line_from"),
            gathered(sources.program, "program"),
            gathered(sources.opcode, "opcode"),
            coded_column("reason", attribution.reason, attribution.reasons),
            id_column("execution", attribution.execution.astype(np.int64)),
            pl.Series("time_ok", kernels.time_ok),
            coded_column("details", kernels.details, strings),
        ]
    )


def op_table(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernel time by instruction, most first; kernels without one are summed by kernel name.

    Events whose times can't be true are counted but add no time. `n_executions` counts runs of
    the program (and loop iterations) in which the instruction launched a kernel. `low_ps` and
    `high_ps` are the least and most time in one step of one GPU, over `n` of them. `match` is the
    weakest class among the kernels.
    """
    keys = ["host", "program_id", "hlo_instruction", "unattributed_kernel"]
    alone = pl.when(pl.col("hlo_instruction").is_null()).then(pl.col("kernel"))
    named = kernels.with_columns(alone.alias("unattributed_kernel"))
    groups, duration = row_groups(named, keys), _true_durations(kernels)
    total = max(int(duration.sum()), 1)
    rank = kernels["match"].replace_strict(_MATCH_RANK, return_dtype=pl.UInt8).to_numpy()
    weakest = np.full(len(groups), max(_RANK_MATCH), dtype=np.uint8)
    np.minimum.at(weakest, groups.number, rank)
    n_kernels = groups.sizes()
    run = [kernels["device"], kernels["execution"], kernels["iteration"]]
    return (
        plain_texts(named[groups.first])
        .with_columns(
            groups.most_frequent(kernels["kind"]),
            pl.Series("weakest", weakest),
            pl.Series("n_kernels", n_kernels),
            pl.Series("n_executions", groups.n_distinct(*run)),
            pl.Series("duration_ps", groups.total(duration)),
            pl.Series("in_graph_ratio", groups.sizes(kernels["in_graph"].to_numpy()) / n_kernels),
            *groups.per_step(kernels["device"], kernels["step"], duration),
        )
        .with_columns((pl.col("duration_ps") / total).alias("ratio"))
        .sort(
            ["duration_ps", "program_id", "hlo_instruction", "unattributed_kernel", "host"],
            descending=[True, False, False, False, False],
        )
        .select(
            "host",
            "program_id",
            "program",
            "hlo_instruction",
            "unattributed_kernel",
            "opcode",
            "op_name",
            "source_file",
            "source_line",
            "function",
            "line_from",
            "kind",
            "n_kernels",
            "n_executions",
            "duration_ps",
            "ratio",
            "low_ps",
            "high_ps",
            "n",
            "in_graph_ratio",
            pl.col("weakest").replace_strict(_RANK_MATCH, return_dtype=pl.String).alias("match"),
        )
    )


def line_table(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernel time by Python line, most first; one row per host holds what has no line."""
    keys = ["host", "source_file", "source_line", "function"]
    groups, duration = row_groups(kernels, keys), _true_durations(kernels)
    total = max(int(duration.sum()), 1)
    return (
        plain_texts(kernels[groups.first])
        .with_columns(
            groups.most_frequent(kernels["line_from"]),
            pl.Series("n_kernels", groups.sizes()),
            pl.Series(
                "n_ops", groups.n_distinct(kernels["program_id"], kernels["hlo_instruction"])
            ),
            pl.Series("duration_ps", groups.total(duration)),
            _some_ops(groups, kernels["hlo_instruction"]),
            *groups.per_step(kernels["device"], kernels["step"], duration),
        )
        .with_columns((pl.col("duration_ps") / total).alias("ratio"))
        .sort(
            ["duration_ps", "source_file", "source_line", "function", "host"],
            descending=[True, False, False, False, False],
        )
        .select(
            *keys,
            "line_from",
            "n_kernels",
            "n_ops",
            "duration_ps",
            "ratio",
            "low_ps",
            "high_ps",
            "n",
            "ops",
        )
    )


def _true_durations(kernels: pl.DataFrame) -> I64:
    """Durations; kernels with false times keep their row and add nothing."""
    return np.where(kernels["time_ok"].to_numpy(), kernels["duration_ps"].to_numpy(), 0)


def _some_ops(groups: RowGroups, instruction: pl.Series) -> pl.Series:
    """The first instructions of each group by name, as one text."""
    group, code = groups.within(instruction).columns
    names = (
        pl.DataFrame({"group": group, "code": code})
        .join(texts(instruction), on="code", how="left")
        .group_by("group")
        .agg(pl.col("text").drop_nulls().sort().head(_MOST_OPS).str.join("; "))
    )
    return names.sort("group")["text"].alias("ops")
