"""Roofline: what each instruction reaches, against what the GPU could reach."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from explane.report.charts.theme import (
    BOUND_COLOURS,
    PATH_COLOUR,
    ChartData,
    picked_opacity,
    picked_param,
    themed,
)
from explane.report.formats import printed

LEAST_INTENSITY: Final = 0.001
"""Least FLOP per byte drawn: operations without arithmetic would only stretch the axis."""

MOST_POINTS: Final = 400


def roofline_points(roofline: pl.DataFrame) -> pl.DataFrame:
    """Instructions with known FLOPs, bytes and time.

    Args:
        roofline: `roofline` table; FLOPs, bytes and time are of one execution.

    Returns:
        The rows that can be drawn, with `intensity` (FLOP/B), `rate` (FLOP/s).
    """
    known = (pl.col("flops") > 0) & (pl.col("bytes") > 0) & (pl.col("duration_ps") > 0)
    return roofline.filter(known).with_columns(
        (pl.col("flops") / pl.col("bytes")).alias("intensity"),
        (pl.col("flops") / pl.col("duration_ps") * 1e12).alias("rate"),
    )


def roofline_chart(points: pl.DataFrame) -> dict[str, object]:
    """Points over roofs, both axes logarithmic.

    Args:
        points: Result of `roofline_points`, with rows; those left of `LEAST_INTENSITY` and the
            shortest beyond `MOST_POINTS` are not drawn.
    """
    time_ps = pl.col("duration_ps") * pl.col("n_executions")
    shown = (
        points.with_columns((time_ps / 1e9).alias("time_ms"))
        .filter(pl.col("intensity") >= LEAST_INTENSITY)
        .top_k(MOST_POINTS, by="time_ms")
        .sort("time_ms", "program_id", "hlo_instruction", descending=[True, False, False])
    )
    data = ChartData()
    x = alt.X("intensity:Q").scale(type="log").title("arithmetic intensity (FLOP/B)")
    y = alt.Y("rate:Q").scale(type="log").title("rate (FLOP/s)").axis(format="~s")
    roofs: alt.Chart = (
        data.chart(_roofs(shown if shown.height else points))
        .mark_line(color=PATH_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, detail="roof:N")
    )
    bound = alt.Color("bound:N").scale(
        domain=list(BOUND_COLOURS), range=list(BOUND_COLOURS.values())
    )
    size = alt.Size("time_ms:Q").scale(range=[25, 600]).legend(None)
    marks: alt.Chart = (
        data.chart(_rows(shown))
        .mark_circle(cursor="pointer", stroke="white", strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            color=bound,
            size=size,
            opacity=picked_opacity("op"),
            tooltip=[
                alt.Tooltip("op:N", title="instruction"),
                alt.Tooltip("bound:N"),
                alt.Tooltip("share:N", title="share of roof"),
                alt.Tooltip("rate:Q", title="FLOP/s", format=".3s"),
                alt.Tooltip("intensity:Q", title="FLOP/B", format=".3s"),
                alt.Tooltip("time_ms:Q", title="time in all (ms)", format=".3f"),
            ],
        )
    )
    chart = alt.LayerChart(layer=[roofs, marks]).add_params(picked_param("op"))
    return themed(chart.properties(width=640, height=360), data)


def _rows(points: pl.DataFrame) -> list[dict[str, object]]:
    shares = [printed(ratio, "ratio") for ratio in points["peak_ratio"]]
    return points.select(
        "intensity",
        "rate",
        pl.col("hlo_instruction").alias("op"),
        "time_ms",
        pl.col("bound").fill_null("unknown"),
        pl.Series("share", shares, dtype=pl.String),
    ).to_dicts()


def _roofs(points: pl.DataFrame) -> list[dict[str, object]]:
    """Three points of each pair of peaks: memory slope, ridge, compute ceiling."""
    least = float(points["intensity"].min() or 1.0) / 4  # type: ignore[arg-type]
    most = float(points["intensity"].max() or 1.0) * 4  # type: ignore[arg-type]
    peaks = (
        points.select("peak_flops_per_s", "peak_bytes_per_s")
        .drop_nulls()
        .unique()
        .sort("peak_flops_per_s", "peak_bytes_per_s")
    )
    rows: list[dict[str, object]] = []
    for roof, (flops, bytes_) in enumerate(peaks.iter_rows()):
        ridge = flops / bytes_
        for intensity in (min(least, ridge / 2), ridge, max(most, ridge * 2)):
            rate = min(flops, intensity * bytes_)
            rows.append({"roof": f"roof {roof}", "intensity": intensity, "rate": rate})
    return rows
