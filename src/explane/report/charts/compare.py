"""Two captures in one picture: where a step goes in each, and which lines differ most."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.budget import PARTS
from explane.report.charts.ranking import NO_LINE
from explane.report.charts.theme import IDLE_COLOUR, KIND_COLOURS, WIDTH, ChartData, themed
from explane.report.text import shortened_path, visible

MOST_BARS: Final = 12
_LESS, _MORE = "#009e73", "#d55e00"


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
    data = ChartData()
    colours = [KIND_COLOURS.get(part, IDLE_COLOUR) for part in PARTS]
    bars: alt.Chart = (
        data.chart(rows.to_dicts())
        .mark_bar(height=18)
        .encode(
            x=alt.X("time:Q").title(f"time ({unit.name})").stack("zero").scale(nice=False),
            y=alt.Y("side:N").title(None).axis(ticks=False, domain=False),
            color=alt.Color("kind:N").scale(domain=list(PARTS), range=colours),
            order=alt.Order("rank:Q"),
        )
    )
    return themed(bars.properties(width=WIDTH, height=alt.Step(26)), data)


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
    data = ChartData()
    bars: alt.Chart = (
        data.chart(rows.to_dicts())
        .mark_bar(height=16)
        .encode(
            x=alt.X("time:Q").title(f"time in B minus time in A ({unit.name})"),
            y=alt.Y("line:N")
            .scale(domain=list(dict.fromkeys(labels)))
            .title(None)
            .axis(ticks=False, domain=False),
            color=alt.Color("in B:N").scale(domain=["less", "more"], range=[_LESS, _MORE]),
        )
    )
    return themed(bars.properties(width=WIDTH - 240, height=alt.Step(22)), data)


_PLACE: Final = ("a_source_file", "a_source_line", "b_source_file", "b_source_line")


def _label(a_file: str | None, a_line: int | None, b_file: str | None, b_line: int | None) -> str:
    """The line in A, and its number in B where it moved; one that is new has its place in B."""
    if a_file is None and b_file is None:
        return NO_LINE
    if a_file is None:
        return f"{shortened_path(visible(str(b_file)), 40)}:{b_line} (new)"
    place = f"{shortened_path(visible(a_file), 40)}:{a_line}"
    return place if b_line in (a_line, None) else f"{place} (now {b_line})"
