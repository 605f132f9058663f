"""Events narrower than a pixel merged with their neighbours, so that a chart stays small.

▏▎▏ ▎▏      █████      five slivers, one kernel
▆▆▆▆▆       █████      one mark for the slivers of a kind in each pixel
"""

from __future__ import annotations

import polars as pl

_ORDER = ["lane", "start_ps", "duration_ps", "kind"]
_DOWN = [False, False, True, False]


def merged(events: pl.DataFrame, pixel_ps: int) -> pl.DataFrame:
    """Events of a chart with slivers merged.

    Args:
        events: Columns `lane`, `kind`, `start_ps`, `duration_ps`, `name`, `on_critical_path`.
        pixel_ps: Time that one pixel shows.

    Returns:
        The same columns and `n_events`: how many events a mark stands for. An event of at least a
        pixel is a mark of its own. A merged mark reaches from the first start to the last end,
        covers at least a pixel and has no name; gaps inside it can't be seen.
    """
    wide = pl.col("duration_ps") >= pixel_ps
    columns = ["lane", "kind", "start_ps", "duration_ps", "name", "on_critical_path", "n_events"]
    own = events.filter(wide).with_columns(pl.lit(1, pl.Int64).alias("n_events"))
    slivers = (
        events.filter(~wide)
        .with_columns((pl.col("start_ps") // pixel_ps).alias("pixel"))
        .group_by("lane", "kind", "pixel")
        .agg(
            pl.col("start_ps").min(),
            (pl.col("start_ps") + pl.col("duration_ps")).max().alias("end_ps"),
            pl.col("on_critical_path").max(),
            pl.len().cast(pl.Int64).alias("n_events"),
        )
        .with_columns(
            pl.max_horizontal(pl.col("end_ps") - pl.col("start_ps"), pl.lit(pixel_ps)).alias(
                "duration_ps"
            ),
            pl.lit(None, pl.String).alias("name"),
        )
        .select(columns)
    )
    return pl.concat([own.select(columns), slivers.select(columns)]).sort(_ORDER, descending=_DOWN)


def joined(marks: pl.DataFrame) -> pl.DataFrame:
    """Merged marks of a kind that touch each other as one: for a picture that can't be zoomed.

    Args:
        marks: Result of `merged`.
    """
    own = marks.filter(pl.col("name").is_not_null())
    return pl.concat([own, _runs(marks.filter(pl.col("name").is_null()))]).sort(
        _ORDER, descending=_DOWN
    )


def _runs(marks: pl.DataFrame) -> pl.DataFrame:
    """One mark for each run of touching marks of a lane and kind."""
    group = ["lane", "kind"]
    end = pl.col("start_ps") + pl.col("duration_ps")
    reached = end.cum_max().shift(1).over(group)
    return (
        marks.sort([*group, "start_ps"])
        .with_columns(
            (pl.col("start_ps") > reached).fill_null(True).cum_sum().over(group).alias("run"),
            end.alias("end_ps"),
        )
        .group_by([*group, "run"], maintain_order=True)
        .agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            pl.col("name").first(),
            pl.col("on_critical_path").max(),
            pl.col("n_events").sum(),
        )
        .with_columns((pl.col("end_ps") - pl.col("start_ps")).alias("duration_ps"))
        .select(marks.columns)
    )
