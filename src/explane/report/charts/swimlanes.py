"""The median step as swimlanes: every GPU stream and the launching threads on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from explane.report.charts.axis_unit import AxisUnit, axis_unit
from explane.report.charts.buckets import joined, merged
from explane.report.charts.encoding import LABEL_PIXELS, Part
from explane.report.charts.lanes import (
    LANE_HEIGHT,
    MOST_LANES,
    bars,
    cut,
    gpu_lanes,
    hosts_shown,
    labelled,
    lane_order,
    names,
    underlines,
    window,
)
from explane.report.charts.theme import WIDTH, ChartData, themed
from explane.report.text import shortened, visible

_MOST_LABELS: Final = 150
_MOST_MARKS: Final = 10_000
_SHORTEST_LABEL: Final = 7


def swimlane_chart(events: pl.DataFrame) -> dict[str, object]:
    """Swimlanes as a Vega-Lite description; hosts below each other, each with its own axis.

    Args:
        events: `swimlane` table of one or more hosts, with rows.
    """
    hosts = hosts_shown(events)
    data, shortest_ps = ChartData(), pixel_ps(events)
    charts = [
        _host_chart(events.filter(pl.col("host") == host), data, shortest_ps) for host in hosts
    ]
    if len(hosts) == 1:
        return themed(charts[0], data)
    titled = [
        chart | {"title": {"text": _short(host), "anchor": "start", "fontSize": 12}}
        for chart, host in zip(charts, hosts, strict=True)
    ]
    return themed({"vconcat": titled, "spacing": 24}, data)


def pixel_ps(events: pl.DataFrame) -> int:
    """Events shorter than this are merged: a pixel, or more of a step with very many events.

    Args:
        events: `swimlane` table of one or more hosts, with rows.
    """
    start_ps, end_ps = window(events)
    shortest_ps = max(-(-(end_ps - start_ps) // WIDTH), 1)
    while (
        shortest_ps < end_ps - start_ps
        and joined(merged(events, shortest_ps)).height > _MOST_MARKS
    ):
        shortest_ps *= 2
    return shortest_ps


def _host_chart(events: pl.DataFrame, data: ChartData, shortest_ps: int) -> Part:
    start_ps, end_ps = window(events)
    named = events.with_columns(pl.coalesce("hlo_instruction", "name").alias("name"))
    inside = cut(labelled(named), start_ps, end_ps)
    lanes = lane_order(inside)[:MOST_LANES]
    drawing = _Drawing(data, lanes, axis_unit(end_ps - start_ps), shortest_ps)
    marks = joined(merged(inside.filter(pl.col("lane").is_in(lanes)), drawing.pixel_ps))
    layers = [
        drawing.background(gpu_lanes(inside, lanes), start_ps, end_ps),
        drawing.events(marks),
        drawing.critical_path(marks),
        drawing.labels(marks),
    ]
    return {"layer": layers, "width": WIDTH, "height": {"step": LANE_HEIGHT}}


def _short(host: str) -> str:
    return shortened(visible(host), 60)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What the layers of one host's chart share."""

    data: ChartData
    lanes: list[str]
    unit: AxisUnit
    pixel_ps: int

    def background(self, lanes: list[str], start_ps: int, end_ps: int) -> Part:
        """A bar per GPU stream over the whole step: what stays visible of it is idle time."""
        rows = pl.DataFrame({"lane": lanes}, schema={"lane": pl.String}).with_columns(
            pl.lit(start_ps).alias("start_ps"),
            pl.lit(end_ps - start_ps).alias("duration_ps"),
            pl.lit("idle").alias("kind"),
        )
        return self._bars(rows)

    def events(self, marks: pl.DataFrame) -> Part:
        """One bar per mark, coloured by kind."""
        return self._bars(marks.select("lane", "kind", "start_ps", "duration_ps"))

    def critical_path(self, marks: pl.DataFrame) -> Part:
        """A dark line under the kernels of the critical path."""
        path = marks.filter(pl.col("on_critical_path") > 0)
        return underlines(self._rows(path.select("lane", "start_ps", "duration_ps")))

    def labels(self, marks: pl.DataFrame) -> Part:
        """Names inside the widest marks, as much of them as fits."""
        following = pl.col("start_ps").shift(-1).over("lane") - pl.col("start_ps")
        free = pl.min_horizontal("duration_ps", following)
        room = (free / self.pixel_ps / LABEL_PIXELS - 1).floor()
        wide = (
            marks.with_columns(room.cast(pl.Int64).alias("room"))
            .filter(pl.col("name").is_not_null() & (pl.col("room") >= _SHORTEST_LABEL))
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
        return names(self._rows(rows))

    def _bars(self, rows: pl.DataFrame) -> Part:
        return bars(self._rows(rows), self.lanes, self.unit)

    def _rows(self, frame: pl.DataFrame) -> Part:
        """Rows for a layer: times in the axis's unit, which only pictures use."""
        start = (pl.col("start_ps") / self.unit.size_ps).round(6)
        end = ((pl.col("start_ps") + pl.col("duration_ps")) / self.unit.size_ps).round(6)
        named = frame.with_columns(start.alias("start"), end.alias("end"))
        return self.data.named(named.drop("start_ps", "duration_ps").to_dicts())
