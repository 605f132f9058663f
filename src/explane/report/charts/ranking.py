"""GPU time by Python line or by operation, the longest first, as bars."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.encoding import bars_chart, number, rows_of_names, word
from explane.report.charts.theme import KIND_COLOURS, WIDTH, picked_opacity, picked_params
from explane.report.text import shortened_path, visible

MOST_BARS: Final = 12
"""Lines drawn; all are in the table."""

NO_LINE: Final = "(no Python line)"


def lines_chart(lines: pl.DataFrame) -> dict[str, object]:
    """GPU time of the Python lines with most of it, over all hosts.

    Args:
        lines: `lines` table with rows.
    """
    sums = (
        lines.group_by("source_file", "source_line")
        .agg(pl.col("duration_ps").sum())
        .sort("duration_ps", "source_file", "source_line", descending=[True, False, False])
        .head(MOST_BARS)
    )
    unit = axis_unit(int(sums["duration_ps"].max() or 0))  # type: ignore[arg-type]
    labels = [_label(file, line) for file, line, _ in sums.iter_rows()]
    rows = sums.select((pl.col("duration_ps") / unit.size_ps).round(6).alias("time")).with_columns(
        pl.Series("label", labels), pl.Series("line", _keys(sums))
    )
    title = f"GPU time ({unit.name})"
    encoding = {
        "x": number("time", title=title, scale={"nice": False}),
        "y": rows_of_names("label", labels),
        "opacity": picked_opacity("line"),
        "tooltip": [word("line"), number("time", title=title)],
    }
    mark = {"height": 16, "color": KIND_COLOURS["compute"], "cursor": "pointer"}
    chart = bars_chart(rows.to_dicts(), encoding, mark, (WIDTH - 200, 22))
    return {**chart, "params": picked_params("line")}


def _label(file: str | None, line: int | None) -> str:
    return NO_LINE if file is None else f"{shortened_path(visible(file), 44)}:{line}"


def _keys(sums: pl.DataFrame) -> list[str]:
    """What marks the same line in the tables of the page."""
    return [f"{visible(file)}:{line}" if file else "" for file, line, _ in sums.iter_rows()]
