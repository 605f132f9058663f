"""What the swimlanes of the picture and of the page share: window, lanes, axes, colours."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from explane.report.charts.axis_unit import AxisUnit
from explane.report.charts.encoding import LABEL, Part, chosen, coloured, number, word
from explane.report.charts.theme import IDLE_COLOUR, KIND_COLOURS, PATH_COLOUR
from explane.report.text import shortened, visible

LANE_HEIGHT: Final = 22
_LONG_ID: Final = re.compile(r"/-?\d{6,}$")
"""Id of a thread: numbers of this length tell nobody anything."""

_COLOURS: Final = {**KIND_COLOURS, "idle": IDLE_COLOUR}

MOST_LANES: Final = 80
MOST_HOSTS: Final = 4


def hosts_shown(events: pl.DataFrame) -> list[str]:
    """Hosts that are drawn, in the order of the table."""
    return list(events["host"].unique(maintain_order=True))[:MOST_HOSTS]


def labelled(events: pl.DataFrame) -> pl.DataFrame:
    """Events with lane names to show: without long thread ids, equal names numbered."""
    shown: dict[str, str] = {}
    for lane in events["lane"].unique(maintain_order=True):
        name = shortened(_LONG_ID.sub("", visible(lane)), 36)
        n = sum(other == name or other.startswith(f"{name} #") for other in shown.values())
        shown[lane] = f"{name} #{n + 1}" if n else name
    return events.with_columns(pl.col("lane").replace_strict(shown, return_dtype=pl.String))


def lane_order(events: pl.DataFrame) -> list[str]:
    """Lanes from top to bottom: threads, then GPUs with their streams."""
    lanes = events.select("lane", "lane_kind", "device", "stream").unique()
    gpu = (pl.col("lane_kind") == "gpu").alias("is_gpu")
    return list(lanes.sort(gpu, "device", "stream", "lane")["lane"].unique(maintain_order=True))


def gpu_lanes(events: pl.DataFrame, lanes: list[str]) -> list[str]:
    """Those of the lanes that are GPU streams."""
    gpu = set(events.filter(pl.col("lane_kind") == "gpu")["lane"].unique())
    return [lane for lane in lanes if lane in gpu]


def window(events: pl.DataFrame) -> tuple[int, int]:
    """First start and last end of the GPU events: threads are cut to it."""
    gpu = events.filter(pl.col("lane_kind") == "gpu")
    ends = gpu.select(
        pl.col("start_ps").min().alias("first"),
        (pl.col("start_ps") + pl.col("duration_ps")).max().alias("last"),
    ).row(0)
    first, last = int(ends[0] or 0), int(ends[1] or 0)
    return first, max(last, first + 1)


def cut(events: pl.DataFrame, start_ps: int, end_ps: int) -> pl.DataFrame:
    """Events inside a window; those that reach out of it are cut."""
    begin = pl.col("start_ps").clip(start_ps, end_ps)
    end = (pl.col("start_ps") + pl.col("duration_ps")).clip(start_ps, end_ps)
    return events.with_columns(begin.alias("start_ps"), (end - begin).alias("duration_ps")).filter(
        (pl.col("duration_ps") > 0) | (pl.col("lane_kind") == "gpu")
    )


def bars(data: Part, lanes: list[str], unit: AxisUnit) -> Part:
    """A layer: rows with `lane`, `start`, `end` and `kind` as bars on the lanes."""
    title = f"time since the first kernel of the step ({unit.name})"
    axis = {"grid": False, "ticks": False, "domain": False}
    return {
        "data": data,
        "mark": {"type": "bar", "height": LANE_HEIGHT - 4, "clip": True},
        "encoding": {
            "x": number("start", title=title, scale={"nice": False, "zero": False}),
            "x2": {"field": "end"},
            "y": word("lane", scale={"domain": lanes}, title=None, axis=axis),
            "color": coloured("kind", _COLOURS, legend={"columns": len(_COLOURS)}),
        },
    }


def underlines(data: Part, **mark: object) -> Part:
    """A layer: a dark line under the events of the critical path.

    Args:
        data: Rows with `lane`, `start` and `end`.
        mark: More of the mark's properties.
    """
    line = {"type": "bar", "height": 3, "yOffset": LANE_HEIGHT / 2 - 2, "color": PATH_COLOUR}
    place = {"x": number("start"), "x2": {"field": "end"}, "y": word("lane")}
    return {"data": data, "mark": line | mark, "encoding": place}


def names(data: Part) -> Part:
    """A layer: the `label` of each row inside its bar."""
    place = {"x": number("start"), "y": word("lane")}
    ink = chosen("datum.kind === 'host'", "#24292f", "white")
    return {
        "data": data,
        "mark": LABEL,
        "encoding": {**place, "text": word("label"), "color": ink},
    }
