"""GPU time of Python lines in three ways: of their own, with what they call, inside fusions.

    10  def layer(x):                         own     with calls   in other lines' kernels
    11      h = dense(x)                       8 ms     8 ms        -
    12      return jnp.tanh(h) * 2             -        -           1 ms (fused into 11's kernel)
    20  y = layer(x)                           -        8 ms        -

A kernel's own line is the one of the attribution; with calls it counts for every line of its
stack; a fused kernel counts as *fused* for the other lines whose work it does too. Only the first
adds up to the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.investigation import Investigation
from explane.analysis.lines.provenance import Provenance
from explane.analysis.lines.stacks import instruction_provenance

Line = tuple[str, int]
"""File and line number."""

TIMES_SCHEMA = {
    "source_file": pl.String,
    "source_line": pl.Int64,
    "own_ps": pl.Int64,
    "own_ratio": pl.Float64,
    "with_calls_ps": pl.Int64,
    "fused_ps": pl.Int64,
    "n_kernels": pl.Int64,
}
OPS_SCHEMA = {
    "source_file": pl.String,
    "source_line": pl.Int64,
    "hlo_instruction": pl.String,
    "opcode": pl.String,
    "duration_ps": pl.Int64,
    "n_kernels": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class LineTimes:
    """GPU time by Python line, over all hosts, GPUs and steps.

    Attributes:
        times: One row per line that has any of the three, by file and line. `own_ratio` is the
            share of `total_ps`.
        ops: Instructions of each own line, most time first.
        total_ps: Time of all kernels, those without a line included.
        without_line_ps: Time of kernels without a line.
    """

    times: pl.DataFrame
    ops: pl.DataFrame
    total_ps: int
    without_line_ps: int


def line_times(investigation: Investigation, user_re: str | None = None) -> LineTimes:
    """GPU time by Python line.

    Args:
        investigation: Results with at least an attribution.
        user_re: As for the attribution.
    """
    kernels = investigation.tables["kernels"].filter(pl.col("time_ok"))
    keys = ["host", "program_id", "hlo_instruction", "opcode", "source_file", "source_line"]
    sums = plain_texts(
        kernels.group_by(keys).agg(
            pl.col("duration_ps").sum(), pl.len().cast(pl.Int64).alias("n_kernels")
        )
    )
    known = instruction_provenance(investigation.programs, sums, user_re)
    with_calls: dict[Line, int] = defaultdict(int)
    fused: dict[Line, int] = defaultdict(int)
    for host, program, name, _, file, number, duration_ps, _ in sums.iter_rows():
        source = known.get((host, program, name), Provenance())
        own = (file, number)
        for line in _stack_lines(own, source):
            with_calls[line] += duration_ps
        for line in set(source.lines) - {own}:
            fused[line] += duration_ps
    total_ps = int(sums["duration_ps"].sum())
    without = sums.filter(pl.col("source_file").is_null())["duration_ps"].sum()
    return LineTimes(_times(sums, with_calls, fused, total_ps), _ops(sums), total_ps, int(without))


def _stack_lines(own: tuple[str | None, int | None], source: Provenance) -> Iterable[Line]:
    """Distinct lines that a kernel's time passes through, its own included."""
    file, number = own
    lines = {(frame.file, frame.line) for frame in source.stack}
    if file is not None and number is not None:
        lines.add((file, number))
    return lines


def _times(
    sums: pl.DataFrame, with_calls: dict[Line, int], fused: dict[Line, int], total_ps: int
) -> pl.DataFrame:
    place = ["source_file", "source_line"]
    own = (
        sums.drop_nulls("source_file")
        .group_by(place)
        .agg(pl.col("duration_ps").sum().alias("own_ps"), pl.col("n_kernels").sum())
    )
    lines = sorted(with_calls.keys() | fused.keys())
    rest = pl.DataFrame(
        [(*line, with_calls.get(line, 0), fused.get(line, 0)) for line in lines],
        schema={name: TIMES_SCHEMA[name] for name in (*place, "with_calls_ps", "fused_ps")},
        orient="row",
    )
    return (
        rest.join(own, on=place, how="left")
        .with_columns(pl.col("own_ps", "n_kernels").fill_null(0))
        .with_columns((pl.col("own_ps") / max(total_ps, 1)).alias("own_ratio"))
        .sort(place)
        .select(*TIMES_SCHEMA)
    )


def _ops(sums: pl.DataFrame) -> pl.DataFrame:
    keys = ["source_file", "source_line", "hlo_instruction", "opcode"]
    return (
        sums.drop_nulls("source_file")
        .group_by(keys)
        .agg(pl.col("duration_ps", "n_kernels").sum())
        .sort(
            ["source_file", "source_line", "duration_ps", "hlo_instruction"],
            descending=[False, False, True, False],
        )
        .select(*OPS_SCHEMA)
    )
