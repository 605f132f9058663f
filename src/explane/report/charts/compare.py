"""Two captures in one picture: where a step goes in each, and which lines differ most."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.encoding import (
    PARTS,
    bars_chart,
    coloured,
    number,
    rows_of_names,
    stacked_chart,
)
from explane.report.charts.ranking import NO_LINE
from explane.report.charts.theme import WIDTH
from explane.report.text import shortened_path, visible

MOST_BARS: Final = 12
_COLOURS: Final = {"less": "#009e73", "more": "#d55e00"}


def step_chart(differences: pl.DataFrame) -> dict[str, object]:
    """The mean step of each capture, cut into what one GPU did.

    Args:
        differences: `differences` table with rows of all parts.
    """
    rank = {part: i for i, part in enumerate(PARTS)}
    parts = (
        differences.filter(pl.col("measure").is_in(list(PARTS)))
        .unpivot(["a", "b"], index="measure", variable_name="side", value_name="time_ps")
        .with_columns(pl.col("measure").replace_strict(rank, return_dtype=pl.Int64).alias("rank"))
        .sort("side", "rank")
    )
    spans = parts.group_by("side").agg(pl.col("time_ps").sum())["time_ps"]
    unit = axis_unit(max(spans.to_list(), default=0))
    rows = parts.select(
        pl.col("side").str.to_uppercase(),
        pl.col("measure").alias("kind"),
        (pl.col("time_ps") / unit.size_ps).round(6).alias("time"),
        "rank",
    )
    return stacked_chart(rows.to_dicts(), rows_of_names("side"), unit, 26)


def line_chart(lines: pl.DataFrame) -> dict[str, object]:
    """The lines whose time differs most, as bars to the left (less in B) and right (more).

    Args:
        lines: `compared_lines` table with rows, the largest difference first.
    """
    shown = lines.head(MOST_BARS)
    unit = axis_unit(int(shown["difference"].abs().max() or 0))  # type: ignore[arg-type]
    labels = [_label(*row) for row in shown.select(*_PLACE).iter_rows()]
    rows = shown.select((pl.col("difference") / unit.size_ps).round(6).alias("time")).with_columns(
        pl.Series("line", labels),
        pl.when(pl.col("time") > 0).then(pl.lit("more")).otherwise(pl.lit("less")).alias("in B"),
    )
    encoding = {
        "x": number("time", title=f"time in B minus time in A ({unit.name})"),
        "y": rows_of_names("line", labels),
        "color": coloured("in B", _COLOURS),
    }
    return bars_chart(rows.to_dicts(), encoding, {"height": 16}, (WIDTH - 240, 22))


_PLACE: Final = ("a_source_file", "a_source_line", "b_source_file", "b_source_line")


def _label(a_file: str | None, a_line: int | None, b_file: str | None, b_line: int | None) -> str:
    """The line in A, and its number in B where it moved; one that is new has its place in B."""
    if a_file is None and b_file is None:
        return NO_LINE
    if a_file is None:
        return f"{shortened_path(visible(str(b_file)), 40)}:{b_line} (new)"
    place = f"{shortened_path(visible(a_file), 40)}:{a_line}"
    return place if b_line in (a_line, None) else f"{place} (now {b_line})"
