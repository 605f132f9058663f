"""Roofline: what each instruction reaches, against what the GPU could reach."""

from __future__ import annotations

import altair as alt
import polars as pl

from explane.report.charts.theme import BOUND_COLOURS, PATH_COLOUR, ChartData, themed


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
        points: Result of `roofline_points`, with rows.
    """
    data = ChartData()
    x = alt.X("intensity:Q").scale(type="log").title("arithmetic intensity (FLOP/B)")
    y = alt.Y("rate:Q").scale(type="log").title("rate (FLOP/s)").axis(format="~s")
    roofs: alt.Chart = (
        data.chart(_roofs(points))
        .mark_line(color=PATH_COLOUR, strokeWidth=1.5)
        .encode(x=x, y=y, detail="roof:N")
    )
    bound = alt.Color("bound:N").scale(
        domain=list(BOUND_COLOURS), range=list(BOUND_COLOURS.values())
    )
    shown = points.select(
        "intensity",
        "rate",
        "hlo_instruction",
        "program_id",
        (pl.col("duration_ps") / 1e9).alias("time_ms"),
        pl.col("bound").fill_null("unknown"),
    ).with_columns(pl.col("program_id").cast(pl.String))
    marks: alt.Chart = (
        data.chart(shown.to_dicts())
        .mark_circle(opacity=0.75)
        .encode(x=x, y=y, color=bound, size=alt.Size("time_ms:Q").title("time (ms)").legend(None))
    )
    chart: alt.LayerChart = alt.LayerChart(layer=[roofs, marks])
    return themed(chart.properties(width=640, height=360), data)


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
