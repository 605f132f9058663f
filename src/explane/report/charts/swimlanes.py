"""The median step as swimlanes: every GPU stream and the launching threads on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import altair as alt
import polars as pl

from explane.report.charts.axis_unit import AxisUnit, axis_unit
from explane.report.charts.buckets import merged
from explane.report.charts.theme import (
    IDLE_COLOUR,
    KIND_COLOURS,
    PATH_COLOUR,
    WIDTH,
    ChartData,
    Rows,
    themed,
)
from explane.report.text import shortened, visible

LANE_HEIGHT: Final = 22
_LABEL_PIXELS: Final = 6.2
_MOST_LANES: Final = 80
_MOST_HOSTS: Final = 4
_MOST_LABELS: Final = 150
_SHORTEST_LABEL: Final = 7


def swimlane_chart(events: pl.DataFrame) -> dict[str, object]:
    """Swimlanes as a Vega-Lite description; hosts below each other, each with its own axis.

    Args:
        events: `swimlane` table of one or more hosts, with rows.
    """
    hosts = events["host"].unique(maintain_order=True).to_list()[:_MOST_HOSTS]
    data = ChartData()
    charts = [_host_chart(events.filter(pl.col("host") == host), data) for host in hosts]
    if len(hosts) == 1:
        return themed(charts[0], data)
    titled = [
        chart.properties(title=alt.TitleParams(_short(host), anchor="start", fontSize=12))
        for chart, host in zip(charts, hosts, strict=True)
    ]
    return themed(alt.vconcat(*titled, spacing=24), data)


def pixel_ps(events: pl.DataFrame) -> int:
    """Time that one pixel of the chart shows; at least a picosecond."""
    start_ps, end_ps = _window(events)
    return max(-(-(end_ps - start_ps) // WIDTH), 1)


def lane_order(events: pl.DataFrame) -> list[str]:
    """Lanes from top to bottom: threads, then GPUs with their streams."""
    lanes = events.select("lane", "lane_kind", "device", "stream").unique()
    gpu = (pl.col("lane_kind") == "gpu").alias("is_gpu")
    return (
        lanes.sort(gpu, "device", "stream", "lane")["lane"].unique(maintain_order=True).to_list()
    )


def _window(events: pl.DataFrame) -> tuple[int, int]:
    """First start and last end of the GPU events: threads are cut to it, with some lead."""
    gpu = events.filter(pl.col("lane_kind") == "gpu")
    start_ps = int(gpu["start_ps"].min() or 0)  # type: ignore[arg-type]
    end_ps = int((gpu["start_ps"] + gpu["duration_ps"]).max() or 0)  # type: ignore[arg-type]
    return start_ps, max(end_ps, start_ps + 1)


def _host_chart(events: pl.DataFrame, data: ChartData) -> alt.LayerChart:
    start_ps, end_ps = _window(events)
    inside = _cut(events.with_columns(_lane_label()), start_ps, end_ps)
    lanes = lane_order(inside)[:_MOST_LANES]
    drawing = _Drawing(data, lanes, axis_unit(end_ps - start_ps), pixel_ps(events))
    marks = merged(inside.filter(pl.col("lane").is_in(lanes)), drawing.pixel_ps)
    gpu = set(inside.filter(pl.col("lane_kind") == "gpu")["lane"].unique())
    layers = [
        drawing.background([lane for lane in lanes if lane in gpu], start_ps, end_ps),
        drawing.events(marks),
        drawing.critical_path(marks),
        drawing.labels(marks),
    ]
    chart: alt.LayerChart = alt.LayerChart(layer=layers)
    return chart.properties(width=WIDTH, height=alt.Step(LANE_HEIGHT))


def _lane_label() -> pl.Expr:
    return pl.col("lane").map_elements(
        lambda lane: shortened(visible(lane), 44), return_dtype=pl.String
    )


def _short(host: str) -> str:
    return shortened(visible(host), 60)


def _cut(events: pl.DataFrame, start_ps: int, end_ps: int) -> pl.DataFrame:
    """Events inside a window; those that reach out of it are cut."""
    begin = pl.col("start_ps").clip(start_ps, end_ps)
    end = (pl.col("start_ps") + pl.col("duration_ps")).clip(start_ps, end_ps)
    return events.with_columns(begin.alias("start_ps"), (end - begin).alias("duration_ps")).filter(
        (pl.col("duration_ps") > 0) | (pl.col("lane_kind") == "gpu")
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What the layers of one host's chart share."""

    data: ChartData
    lanes: list[str]
    unit: AxisUnit
    pixel_ps: int

    def background(self, lanes: list[str], start_ps: int, end_ps: int) -> alt.Chart:
        """A bar per GPU stream over the whole step: what stays visible of it is idle time."""
        rows = pl.DataFrame({"lane": lanes}, schema={"lane": pl.String}).with_columns(
            pl.lit(start_ps).alias("start_ps"),
            pl.lit(end_ps - start_ps).alias("duration_ps"),
            pl.lit("idle").alias("kind"),
        )
        return self._bars(rows)

    def events(self, marks: pl.DataFrame) -> alt.Chart:
        """One bar per mark, coloured by kind."""
        return self._bars(marks.select("lane", "kind", "start_ps", "duration_ps"))

    def critical_path(self, marks: pl.DataFrame) -> alt.Chart:
        """A dark line under the kernels of the critical path."""
        path = marks.filter(pl.col("on_critical_path") > 0)
        rows = self._rows(path.select("lane", "start_ps", "duration_ps"))
        line = alt.MarkDef("bar", height=3, yOffset=LANE_HEIGHT / 2 - 2, color=PATH_COLOUR)
        chart = self.data.chart(rows)
        chart.mark = line
        return chart.encode(x="start:Q", x2="end", y=alt.Y("lane:N"))

    def labels(self, marks: pl.DataFrame) -> alt.Chart:
        """Names inside the widest marks, as much of them as fits."""
        room = (pl.col("duration_ps") / self.pixel_ps / _LABEL_PIXELS - 1).floor()
        wide = (
            marks.filter(pl.col("name").is_not_null())
            .with_columns(room.cast(pl.Int64).alias("room"))
            .filter(pl.col("room") >= _SHORTEST_LABEL)
            .top_k(_MOST_LABELS, by="duration_ps")
            .sort("lane", "start_ps")
        )
        labels = [
            shortened(visible(name), room)
            for name, room in wide.select("name", "room").iter_rows()
        ]
        rows = wide.select("lane", "kind", "start_ps", "duration_ps").with_columns(
            pl.Series("label", labels, dtype=pl.String)
        )
        ink = alt.when(alt.datum.kind == "host").then(alt.value("#24292f"))
        text: alt.Chart = (
            self.data.chart(self._rows(rows))
            .mark_text(align="left", dx=3, fontSize=10, clip=True)
            .encode(
                x="start:Q",
                y=alt.Y("lane:N"),
                text="label:N",
                color=ink.otherwise(alt.value("white")),
            )
        )
        return text

    def _bars(self, rows: pl.DataFrame) -> alt.Chart:
        words = [*KIND_COLOURS, "idle"]
        colours = [*KIND_COLOURS.values(), IDLE_COLOUR]
        kinds = alt.Color("kind:N").scale(domain=words, range=colours)
        lane = alt.Y("lane:N").scale(domain=self.lanes).title(None)
        time = alt.X("start:Q").scale(nice=False, zero=False)
        bars: alt.Chart = (
            self.data.chart(self._rows(rows))
            .mark_bar(height=LANE_HEIGHT - 4)
            .encode(
                x=time.title(f"time since the first kernel of the step ({self.unit.name})"),
                x2="end",
                y=lane.axis(grid=False, ticks=False, domain=False),
                color=kinds.legend(columns=len(words)),
            )
        )
        return bars

    def _rows(self, frame: pl.DataFrame) -> Rows:
        """Rows for the chart: times in the axis's unit, which only pictures use."""
        start = (pl.col("start_ps") / self.unit.size_ps).round(6)
        end = ((pl.col("start_ps") + pl.col("duration_ps")) / self.unit.size_ps).round(6)
        named = frame.with_columns(start.alias("start"), end.alias("end"))
        return named.drop("start_ps", "duration_ps").to_dicts()
