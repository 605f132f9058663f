"""The swimlanes of the page: a description without events, and all events as columns.

The page's script hands Vega only what is in view, so both the file and a frame stay small.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from explane.report.charts.axis_unit import AxisUnit, axis_unit
from explane.report.charts.buckets import merged
from explane.report.charts.encoding import chosen
from explane.report.charts.lanes import (
    LANE_HEIGHT,
    MOST_LANES,
    bars,
    cut,
    gpu_lanes,
    labelled,
    lane_order,
    names,
    underlines,
    window,
)
from explane.report.charts.theme import WIDTH, ChartData, op_key, themed
from explane.report.text import visible

MOST_EVENTS: Final = 30_000
"""Events embedded per host; a longer step has its slivers merged until they are fewer."""

_TEXTS: Final = {
    "name": "name",
    "instruction": "hlo_instruction",
    "op": "op",
    "scope": "op_name",
    "line": "source",
    "match": "match",
}


def page_swimlanes(events: pl.DataFrame) -> dict[str, Any]:
    """Everything that the page needs to draw one host's step.

    Args:
        events: `swimlane` table of one host, with rows.

    Returns:
        `vega` (a Vega-Lite description whose data set `events` is empty; it is to be compiled
        and `windowed`), `window` and `unit` of the axis, `lanes`, `kinds`, `strings` (texts by
        code) and `events` (columns; codes or picoseconds).
    """
    start_ps, end_ps = window(events)
    unit = axis_unit(end_ps - start_ps)
    inside = cut(labelled(events), start_ps, end_ps)
    lanes = lane_order(inside)[:MOST_LANES]
    shown = _fewer(_with_source(inside.filter(pl.col("lane").is_in(lanes))), end_ps - start_ps)
    return {
        "vega": _description(lanes, gpu_lanes(inside, lanes), (start_ps, end_ps), unit),
        "window": [start_ps, end_ps],
        "unit": {"name": unit.name, "size_ps": unit.size_ps},
        "lanes": lanes,
        **_columns(shown, lanes),
    }


def _with_source(events: pl.DataFrame) -> pl.DataFrame:
    line = pl.col("source_file") + ":" + pl.col("source_line").cast(pl.String)
    named = pl.coalesce("hlo_instruction", "name")
    gpu = pl.col("lane_kind") == "gpu"
    return events.with_columns(
        line.alias("source"),
        pl.when(gpu).then(op_key(pl.col("program_id"), named)).alias("op"),
    )


def _fewer(events: pl.DataFrame, span_ps: int) -> pl.DataFrame:
    """Events with slivers merged, ever coarser, until they are few enough."""
    pixel_ps = max(span_ps // (WIDTH * 32), 1)
    shown = events
    while shown.height > MOST_EVENTS and pixel_ps < span_ps:
        kept = events.filter(pl.col("duration_ps") >= pixel_ps)
        slivers = merged(events.filter(pl.col("duration_ps") < pixel_ps), pixel_ps)
        shown = pl.concat([kept, slivers], how="diagonal")
        pixel_ps *= 2
    return shown


def _columns(events: pl.DataFrame, lanes: list[str]) -> dict[str, Any]:
    """Events as columns of numbers, sorted by lane and start, with texts as codes."""
    rank = pl.col("lane").replace_strict({lane: i for i, lane in enumerate(lanes)})
    rows = events.with_columns(rank.alias("rank")).sort(
        "rank", "start_ps", "duration_ps", descending=[False, False, True]
    )
    kinds = sorted(rows["kind"].unique().to_list())
    names = [rows[column] for column in _TEXTS.values()]
    strings = pl.concat([n.rename("text") for n in names]).drop_nulls().unique().sort().to_list()
    codes = {text: i for i, text in enumerate(strings)}
    return {
        "kinds": kinds,
        "strings": [visible(text) for text in strings],
        "events": {
            "lane": rows["rank"].to_list(),
            "kind": [kinds.index(kind) for kind in rows["kind"]],
            "start": rows["start_ps"].to_list(),
            "duration": rows["duration_ps"].to_list(),
            "path": rows["on_critical_path"].to_list(),
            **{
                key: [codes.get(text, -1) for text in rows[column]]
                for key, column in _TEXTS.items()
            },
        },
    }


def _description(
    lanes: list[str], gpu: list[str], span: tuple[int, int], unit: AxisUnit
) -> dict[str, object]:
    """The description whose data set `events` and window are set by the page's script."""
    data = ChartData()
    first, last = (time / unit.size_ps for time in span)
    idle = [{"lane": lane, "start": first, "end": last, "kind": "idle"} for lane in gpu]
    background = bars(data.named(idle), lanes, unit)
    named = data.named([], "events")
    events = bars(named, lanes, unit)
    events["mark"]["tooltip"] = {"content": "data"}
    events["encoding"]["opacity"] = chosen("datum.faded", 0.25, 1)
    layers = [
        background,
        events,
        {"transform": [{"filter": "datum.path > 0"}], **underlines(named, clip=True)},
        {"transform": [{"filter": "datum.label != ''"}], **names(named)},
    ]
    view = [{"name": "view_from", "value": first}, {"name": "view_to", "value": last}]
    size = {"width": WIDTH, "height": {"step": LANE_HEIGHT}}
    return themed({"layer": layers, "params": view, **size}, data)


def windowed(vega: dict[str, Any]) -> dict[str, Any]:
    """The compiled Vega, its time axis on the part in view, whatever the events are."""
    bars_data = next(m["from"]["data"] for m in vega["marks"] if m["name"] == "layer_1_marks")
    (axis,) = [scale for scale in vega["scales"] if scale["name"] == "x"]
    axis["domain"] = [{"signal": "view_from"}, {"signal": "view_to"}]
    for mark in vega["marks"]:  # names and underlines must not take the pointer from the kernel
        mark["interactive"] = mark["from"]["data"] == bars_data
    return vega
