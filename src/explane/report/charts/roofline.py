"""Roofline: what each instruction reaches, against what the GPU could reach."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.report.charts.encoding import EDGE, Part, coloured, number, word
from explane.report.charts.theme import (
    BOUND_COLOURS,
    PATH_COLOUR,
    ChartData,
    op_key,
    picked_opacity,
    picked_params,
    themed,
)
from explane.report.formats import printed
from explane.report.text import visible

LEAST_INTENSITY: Final = 0.001
"""Least FLOP per byte drawn: operations without arithmetic would only stretch the axis."""

MOST_POINTS: Final = 400


_LOG: Final = {"type": "log"}
_PICKED: Final = ("op", "line", "scope")

_POINT: Final[Part] = {
    "color": coloured("bound", BOUND_COLOURS),
    "size": number("time_ms", scale={"range": [25, 600]}, legend=None),
    "opacity": picked_opacity(*_PICKED),
    "tooltip": [
        word("instruction"),
        word("scope", title="op name"),
        word("line"),
        word("bound"),
        word("share", title="share of roof"),
        number("rate", title="FLOP/s", format=".3s"),
        number("intensity", title="FLOP/B", format=".3s"),
        number("time_ms", title="time in all (ms)", format=".3f"),
    ],
}
"""Channels of a point besides its place."""


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
    place = {
        "x": number("intensity", scale=_LOG, title="arithmetic intensity (FLOP/B)"),
        "y": number("rate", scale=_LOG, title="rate (FLOP/s)", axis={"format": "~s"}),
    }
    rooted = shown if shown.height else points
    roofs = {
        "data": data.named(_roofs(rooted)),
        "mark": {"type": "line", "color": PATH_COLOUR, "strokeWidth": 1.5},
        "encoding": {**place, "detail": word("roof")},
    }
    marks = {
        "data": data.named(_rows(shown)),
        "mark": {"type": "circle", "cursor": "pointer", **EDGE},
        "encoding": {**place, **_POINT},
    }
    names = {
        "data": data.named(_roof_names(rooted)),
        "mark": {"type": "text", "align": "right", "dy": -6, "fontSize": 10},
        "encoding": {**place, "text": word("name")},
    }
    chart = {
        "layer": [roofs, names, marks],
        "params": picked_params(*_PICKED),
        "width": 640,
        "height": 360,
    }
    return themed(chart, data)


def _rows(points: pl.DataFrame) -> list[dict[str, object]]:
    shares = [printed(ratio, "ratio") for ratio in points["peak_ratio"]]
    rows = points.select(
        "intensity",
        "rate",
        op_key(pl.col("program_id"), pl.col("hlo_instruction")).alias("op"),
        pl.col("hlo_instruction").alias("instruction"),
        _known(points, "line"),
        _known(points, "op_name").alias("scope"),
        "time_ms",
        pl.col("bound").fill_null("unknown"),
        pl.Series("share", shares, dtype=pl.String),
    )
    names = ("op", "instruction", "line", "scope")
    return [row | {name: visible(row[name]) for name in names} for row in rows.to_dicts()]


def _known(points: pl.DataFrame, column: str) -> pl.Expr:
    """A text column, empty where the points don't have it."""
    known = pl.col(column) if column in points.columns else pl.lit(None, pl.String)
    return known.fill_null("").alias(column)


def _roof_names(points: pl.DataFrame) -> list[dict[str, object]]:
    """What each ceiling is, at its right end."""
    ends: dict[object, dict[str, object]] = {}
    for row in _roofs(points):
        ends[row["roof"]] = row  # the last point of a roof is its right end
    by_rate: dict[str, dict[str, object]] = {}
    for row in ends.values():
        name = printed(float(str(row["rate"])), "flop_per_s")
        by_rate[name] = {**row, "name": name}
    return list(by_rate.values())


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
