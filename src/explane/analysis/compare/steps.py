"""Figures per step of one capture, in the form in which two captures can be set side by side.

Captures hold different numbers of steps and perhaps of GPUs, so every figure is of one step on
one GPU: the mean over GPUs gives one number per step, and these have a mean and a range. The
range over steps is the noise: a difference counts only where the ranges of both sides are apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.investigation import Investigation

GPU = ("host", "device")
STEP = ("host", "device", "step")


@dataclass(frozen=True, slots=True)
class Side:
    """One of two captures, cut down to its whole steps.

    Attributes:
        investigation: All results.
        windows: Rows of `steps` of the whole steps: those complete on every GPU.
        kernels: Kernels with good times in these steps, or all of them.
        numbers: Numbers of the whole steps; none when both captures are taken as a whole.
        n_gpus: GPUs with kernels, over all hosts.
        n_whole_steps: Whole steps that the capture has, used or not.
    """

    investigation: Investigation
    windows: pl.DataFrame
    kernels: pl.DataFrame
    numbers: tuple[int, ...]
    n_gpus: int
    n_whole_steps: int

    @property
    def n_steps(self) -> int:
        """Whole steps; 0 when figures can only be of the whole capture."""
        return len(self.numbers)

    @property
    def name(self) -> str:
        """Hosts of the capture."""
        return ", ".join(host.host for host in self.investigation.hosts)


def sides_of(a: Investigation, b: Investigation) -> tuple[Side, Side]:
    """Both captures by their whole steps, or both as a whole when one of them has none."""
    found = (_by_steps(a), _by_steps(b))
    if all(side.n_steps for side in found):
        return found
    return (_as_a_whole(found[0]), _as_a_whole(found[1]))


def _as_a_whole(side: Side) -> Side:
    tables = side.investigation.tables
    kernels = plain_texts(tables["kernels"].filter(pl.col("time_ok")))
    return replace(side, windows=side.windows.clear(), kernels=kernels, numbers=())


def _by_steps(investigation: Investigation) -> Side:
    """The whole steps of a capture and the kernels in them.

    A step number that repeats on one GPU tells no step from another and is left out.
    """
    tables = investigation.tables
    kernels = plain_texts(tables["kernels"].filter(pl.col("time_ok")))
    n_gpus = kernels.select(GPU).unique().height
    steps = tables["steps"].with_columns(pl.col("complete").cast(pl.Boolean))
    whole = (
        steps.group_by("step")
        .agg(
            pl.len().alias("n"),
            pl.struct(GPU).n_unique().alias("n_gpus"),
            pl.col("complete").all(),
        )
        .filter((pl.col("n") == n_gpus) & (pl.col("n_gpus") == n_gpus) & pl.col("complete"))
    )
    numbers = tuple(sorted(whole["step"].to_list()))
    windows = steps.filter(pl.col("step").is_in(numbers))
    kernels = kernels.join(windows.select(STEP), on=list(STEP), how="semi")
    return Side(investigation, windows, kernels, numbers, n_gpus, len(numbers))


def per_step(side: Side, frame: pl.DataFrame, keys: list[str], value: str) -> pl.DataFrame:
    """Mean and range over steps of a column's sum on one GPU.

    Args:
        side: Whose steps.
        frame: Has the keys, `step` and the column; rows outside the whole steps don't count.
        keys: What a figure is of. Steps without a row of a key count as 0.
        value: An integer column.

    Returns:
        Keys, `value` (mean, rounded down), `low`, `high`, `n` (steps) and `total` (over all steps
        and GPUs, exact). Without whole steps the capture counts as one step.
    """
    n_steps, n_gpus = max(side.n_steps, 1), max(side.n_gpus, 1)
    step = pl.col("step") if side.n_steps else pl.lit(0, pl.Int64).alias("step")
    if side.n_steps:
        frame = frame.filter(pl.col("step").is_in(side.numbers))
    sums = frame.group_by(*keys, step).agg(pl.col(value).cast(pl.Int64).sum())
    each = pl.col(value) // n_gpus
    missing = pl.len() < n_steps
    return sums.group_by(keys).agg(
        (pl.col(value).sum() // (n_steps * n_gpus)).alias("value"),
        pl.when(missing).then(0).otherwise(each.min()).alias("low"),
        each.max().alias("high"),
        pl.lit(n_steps, pl.Int64).alias("n"),
        pl.col(value).sum().alias("total"),
    )


def beside(
    a: pl.DataFrame, b: pl.DataFrame, keys: list[str], n_steps: tuple[int, int]
) -> pl.DataFrame:
    """Figures of two sides joined, with their difference and whether it exceeds the noise.

    Args:
        a: Result of `per_step` for the first side.
        b: The same for the second.
        keys: Columns that both have.
        n_steps: Steps of both sides, for figures that one side lacks: it has 0 in all of them.

    Returns:
        Keys; `a`, `a_low`, `a_high`, `a_n`, `a_total`; the same for `b`; `difference` (b - a) with
        `difference_low` and `difference_high`, the least and most that the ranges allow;
        `change_ratio` (difference to a; missing when a is 0); `beyond_noise` (1 when the ranges
        are apart, 0 when they meet, missing with fewer than two steps on a side); `status`.
    """
    columns = ["value", "low", "high", "n", "total"]
    named = [
        frame.rename({c: f"{side}_{c}" for c in columns}) for side, frame in (("a", a), ("b", b))
    ]
    both = named[0].join(named[1], on=keys, how="full", coalesce=True, nulls_equal=True)
    in_a, in_b = pl.col("a_n").is_not_null(), pl.col("b_n").is_not_null()
    status = (
        pl.when(in_a & in_b).then(pl.lit("both")).when(in_a).then(pl.lit("vanished"))
    ).otherwise(pl.lit("new"))
    filled = both.with_columns(status.alias("status")).with_columns(
        *(
            pl.col(f"{side}_{c}").fill_null(max(n, 1) if c == "n" else 0)
            for side, n in zip("ab", n_steps, strict=True)
            for c in columns
        )
    )
    apart = (pl.col("b_low") > pl.col("a_high")) | (pl.col("b_high") < pl.col("a_low"))
    known = (pl.col("a_n") > 1) & (pl.col("b_n") > 1)
    difference = pl.col("b_value") - pl.col("a_value")
    return filled.select(
        *keys,
        *_side_columns("a"),
        *_side_columns("b"),
        difference.alias("difference"),
        (pl.col("b_low") - pl.col("a_high")).alias("difference_low"),
        (pl.col("b_high") - pl.col("a_low")).alias("difference_high"),
        pl.when(pl.col("a_value") != 0).then(difference / pl.col("a_value")).alias("change_ratio"),
        pl.when(known).then(apart.cast(pl.Int64)).alias("beyond_noise"),
        "status",
    )


def _side_columns(side: str) -> list[pl.Expr]:
    return [
        pl.col(f"{side}_value").alias(side),
        *(pl.col(f"{side}_{column}") for column in ("low", "high", "n", "total")),
    ]
