"""Two captures by their steps: length, budget, kernels and launches of one step on one GPU."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.compare.steps import STEP, Side, beside, per_step

_PARTS: Final = ("compute", "collective", "memcpy", "memset", "idle")
DEFINITIONS: Final = {
    "step": ("ps", "length of a step on the GPU that takes longest, lower median over the steps"),
    **{
        part: ("ps", f"part of the step's window that is {part}, all streams together")
        for part in _PARTS
    },
    "kernel_time": ("ps", "time of all kernels, those that overlap counted twice"),
    "n_kernels": ("count", "kernels, copies and fills"),
    "n_graph_kernels": ("count", "kernels launched by graphs (command buffers)"),
    "n_launches": ("count", "launch calls that made kernels"),
}
"""Unit and meaning of each measure, in the order of the table."""


def measure_table(a: Side, b: Side) -> pl.DataFrame:
    """Table `differences`: one row per measure, in the order of `DEFINITIONS`."""
    keys = ["measure"]
    joined = beside(_measures(a), _measures(b), keys, (a.n_steps, b.n_steps))
    known = pl.DataFrame(
        [(name, unit, meaning) for name, (unit, meaning) in DEFINITIONS.items()],
        schema={"measure": pl.String, "unit": pl.String, "definition": pl.String},
        orient="row",
    ).with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("rank"))
    table = joined.join(known, on="measure", how="inner").sort("rank")
    first = ["measure", "unit"]
    return table.select(*first, pl.exclude(first))


def part_table(a: Side, b: Side) -> pl.DataFrame:
    """Table `compared_parts`: shares of the steps that the verdict of each side rests on.

    Shares are over all GPUs; their ranges are over GPUs and steps (`n` of them).
    """
    sides = [_shares(side, letter) for side, letter in ((a, "a"), (b, "b"))]
    both = sides[0].join(sides[1], on="part", how="full", coalesce=True)
    apart = (pl.col("b_low") > pl.col("a_high")) | (pl.col("b_high") < pl.col("a_low"))
    known = (pl.col("a_n") > 1) & (pl.col("b_n") > 1)
    return both.with_columns(
        (pl.col("b") - pl.col("a")).alias("difference"),
        pl.when(known).then(apart.cast(pl.Int64)).alias("beyond_noise"),
    ).sort(pl.max_horizontal("a", "b"), "part", descending=[True, False])


def _shares(side: Side, letter: str) -> pl.DataFrame:
    parts = side.investigation.tables["verdict_parts"]
    whole = max(int(parts["time_ps"].sum()), 1)
    return parts.group_by("part").agg(
        (pl.col("time_ps").sum() / whole).alias(letter),
        pl.col("low").min().alias(f"{letter}_low"),
        pl.col("high").max().alias(f"{letter}_high"),
        pl.col("n").sum().alias(f"{letter}_n"),
    )


def step_lengths(side: Side) -> pl.DataFrame:
    """Length of each whole step on the GPU that takes longest: `step`, `length_ps`."""
    length = pl.col("end_ps") - pl.col("start_ps")
    return side.windows.group_by("step").agg(length.max().alias("length_ps")).sort("step")


def _measures(side: Side) -> pl.DataFrame:
    rows = plain_texts(side.investigation.tables["rows"])
    if side.n_steps:
        rows = rows.join(side.windows.select(STEP), on=list(STEP), how="semi")
    kernels = side.kernels.with_columns(pl.lit(1).alias("one"))
    figures = {
        "kernel_time": (kernels, "duration_ps"),
        "n_kernels": (kernels, "one"),
        "n_graph_kernels": (kernels, "in_graph"),
        "n_launches": (rows, "first_of_launch"),
    }
    if side.n_steps:
        budgets = side.investigation.tables["step_budgets"]
        figures |= {part: (budgets, f"{part}_ps") for part in _PARTS}
    parts = [
        per_step(side, frame.with_columns(pl.lit(name).alias("measure")), ["measure"], column)
        for name, (frame, column) in figures.items()
    ]
    return pl.concat([_length(side), *parts])


def _length(side: Side) -> pl.DataFrame:
    lengths = step_lengths(side)["length_ps"].sort()
    rows = []
    if len(lengths):
        median = lengths[(len(lengths) - 1) // 2]
        rows = [("step", median, lengths[0], lengths[-1], len(lengths), lengths.sum())]
    columns = ["value", "low", "high", "n", "total"]
    schema = {"measure": pl.String, **dict.fromkeys(columns, pl.Int64)}
    return pl.DataFrame(rows, schema=schema, orient="row")
