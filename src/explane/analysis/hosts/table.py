"""One row per process: what it did, how long its step is, how its clock stands to the others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

MOST_IN_DETAIL: Final = 4
"""Processes that are shown one by one; of more, these many."""

FIGURES: Final = {
    "verdict": pl.String,
    "n_kernels": pl.Int64,
    "kernel_time_ps": pl.Int64,
    "n_steps": pl.Int64,
    "step_ps": pl.Int64,
    "idle_ratio": pl.Float64,
    "late_operations": pl.Int64,
    "caused_wait_ps": pl.Int64,
    "clock_aligned": pl.Boolean,
    "clock_offset_ps": pl.Int64,
    "clock_drift_ppm": pl.Float64,
    "clock_residual_ps": pl.Int64,
}


def host_figures(hosts: Sequence[str], tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Figures of each process, missing where no table tells them.

    Args:
        hosts: Labels, in the order of the rows.
        tables: Tables of the investigation.

    Returns:
        `host`, `verdict`, `n_kernels`, `kernel_time_ps` (over its GPUs), `n_steps` and `step_ps`
        (complete steps; median on its slowest GPU), `idle_ratio` (of complete steps),
        `late_operations` and `caused_wait_ps` (collectives in which it was the last process to
        join, and what that cost the others), `clock_aligned`, `clock_offset_ps`,
        `clock_drift_ppm`, `clock_residual_ps`.
    """
    found = pl.DataFrame({"host": hosts}, schema={"host": pl.String})
    parts = (
        _verdicts(tables),
        _kernels(tables),
        _steps(tables),
        _idle(tables),
        _late(tables),
        _clocks(tables),
    )
    for part in parts:
        if part is not None:
            found = found.join(part, on="host", how="left", maintain_order="left")
    missing = [pl.lit(None, t).alias(n) for n, t in FIGURES.items() if n not in found.columns]
    return found.with_columns(missing).select("host", *FIGURES)


def _has(tables: Mapping[str, pl.DataFrame], stem: str, *columns: str) -> bool:
    return stem in tables and {"host", *columns} <= set(tables[stem].columns)


def _verdicts(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    if not _has(tables, "verdict", "verdict"):
        return None
    return tables["verdict"].group_by("host").agg(pl.col("verdict").first())


def _kernels(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    if not _has(tables, "devices", "n_kernels", "kernel_time_ps"):
        return None
    return tables["devices"].group_by("host").agg(pl.col("n_kernels", "kernel_time_ps").sum())


def _steps(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    if not _has(tables, "steps", "device", "start_ps", "end_ps", "complete"):
        return None
    whole = tables["steps"].filter(pl.col("complete").cast(pl.Boolean))
    length = pl.col("end_ps") - pl.col("start_ps")
    by_gpu = whole.group_by("host", "device").agg(
        length.quantile(0.5, "lower").alias("step_ps"), pl.len().alias("n_steps")
    )
    return by_gpu.group_by("host").agg(
        pl.col("n_steps").max().cast(pl.Int64), pl.col("step_ps").max().cast(pl.Int64)
    )


def _idle(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    if not _has(tables, "step_budgets", "complete", "idle_ps", "duration_ps"):
        return None
    whole = tables["step_budgets"].filter(pl.col("complete").cast(pl.Boolean))
    ratio = pl.col("idle_ps").sum() / pl.col("duration_ps").sum()
    return whole.group_by("host").agg(ratio.alias("idle_ratio"))


def _late(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    """Zero for processes that were compared and never late."""
    if "host_stragglers" not in tables or "clocks" not in tables:
        return None
    compared = tables["clocks"].filter("aligned").select("host")
    late = tables["host_stragglers"].select(
        "host", pl.col("n_operations").alias("late_operations"), "caused_wait_ps"
    )
    return compared.join(late, on="host", how="left").fill_null(0)


def _clocks(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    if "clocks" not in tables:
        return None
    names = ("offset_ps", "drift_ppm", "residual_ps")
    return tables["clocks"].select(
        "host",
        pl.col("aligned").alias("clock_aligned"),
        *(pl.col(name).alias(f"clock_{name}") for name in names),
    )


def in_detail(figures: pl.DataFrame) -> list[str]:
    """The processes that texts and pictures show in detail: all of a few, else those that differ.

    Of many: the one that the others waited for longest, the one with the longest step, the one
    with the median step, and the one that is idle most; filled up in order.

    Args:
        figures: As `host_figures` gives them.
    """
    hosts = figures["host"].to_list()
    if len(hosts) <= MOST_IN_DETAIL:
        return hosts
    chosen = [
        *_largest(figures, "caused_wait_ps", 1),
        *_largest(figures, "step_ps", 1),
        *_largest(figures, "step_ps", 1 + len(hosts) // 2),
        *_largest(figures, "idle_ratio", 1),
        *hosts,
    ]
    return list(dict.fromkeys(chosen))[:MOST_IN_DETAIL]


def _largest(figures: pl.DataFrame, column: str, place: int) -> list[str]:
    """The process at a place, from 1, in descending order of a figure; none if too few have it."""
    known = figures.filter(pl.col(column).is_not_null())
    ordered = known.sort(column, "host", descending=[True, False])["host"].to_list()
    return ordered[place - 1 : place]
