"""Where the time of each GPU stream goes, as stacked bars."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.encoding import PARTS, rows_of_names, stacked_chart
from explane.report.text import shortened, visible

_MOST_BARS: Final = 64


def budget_chart(streams: pl.DataFrame) -> dict[str, object]:
    """One bar per stream, its span cut into what it did.

    Args:
        streams: `streams` table with rows.
    """
    shown = streams.head(_MOST_BARS)
    unit = axis_unit(int(shown["span_ps"].max() or 0))  # type: ignore[arg-type]
    labels = _labels(shown)
    long = (
        shown.select(*[pl.col(f"{part}_ps").alias(part) for part in PARTS])
        .with_columns(pl.Series("lane", labels), pl.int_range(pl.len()).alias("row"))
        .unpivot(list(PARTS), index=["lane", "row"], variable_name="kind", value_name="time_ps")
        .with_columns(
            (pl.col("time_ps") / unit.size_ps).round(6).alias("time"),
            pl.col("kind").replace_strict({p: i for i, p in enumerate(PARTS)}).alias("rank"),
        )
        .sort("row", "rank")
        .drop("time_ps", "row")
    )
    return stacked_chart(long.to_dicts(), rows_of_names("lane", labels), unit, 24)


def steps_chart(budgets: pl.DataFrame) -> dict[str, object]:
    """One bar per GPU: the mean of its complete steps, cut into what it did.

    Args:
        budgets: Rows of complete steps of the `step_budgets` table.
    """
    parts = [pl.col(f"{part}_ps").mean().cast(pl.Int64) for part in PARTS]
    means = budgets.group_by("host", "device").agg(
        pl.col("duration_ps").mean().cast(pl.Int64).alias("span_ps"), *parts
    )
    return budget_chart(
        means.sort("host", "device").with_columns(pl.lit(None, pl.Int64).alias("stream"))
    )


def _labels(streams: pl.DataFrame) -> list[str]:
    """`GPU 0 stream 7`, with the host when there are several."""
    several = streams["host"].n_unique() > 1
    rows = streams.select("host", "device", "stream").iter_rows()
    return [
        (f"{shortened(visible(host), 24)} " if several else "")
        + (f"GPU {device}" if stream is None else f"GPU {device} stream {stream}")
        for host, device, stream in rows
    ]
