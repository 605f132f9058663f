"""What the swimlanes of the picture and of the page share: window, lanes, axes, colours."""

from __future__ import annotations

import re
from typing import Final

import altair as alt
import polars as pl

from explane.report.charts.axis_unit import AxisUnit
from explane.report.charts.theme import IDLE_COLOUR, KIND_COLOURS
from explane.report.text import shortened, visible

LANE_HEIGHT: Final = 22
_LONG_ID: Final = re.compile(r"/-?\d{6,}$")
"""Id of a thread: numbers of this length tell nobody anything."""

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


def bars(chart: alt.Chart, lanes: list[str], unit: AxisUnit) -> alt.Chart:
    """A chart of rows with `lane`, `start`, `end` and `kind` as bars on the lanes."""
    words = [*KIND_COLOURS, "idle"]
    colours = [*KIND_COLOURS.values(), IDLE_COLOUR]
    kinds = alt.Color("kind:N").scale(domain=words, range=colours)
    lane = alt.Y("lane:N").scale(domain=lanes).title(None)
    time = alt.X("start:Q").scale(nice=False, zero=False)
    drawn: alt.Chart = chart.mark_bar(height=LANE_HEIGHT - 4, clip=True).encode(
        x=time.title(f"time since the first kernel of the step ({unit.name})"),
        x2="end",
        y=lane.axis(grid=False, ticks=False, domain=False),
        color=kinds.legend(columns=len(words)),
    )
    return drawn
