"""All charts of a report: SVG for the text, Vega and swimlanes for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from explane.report.charts.budget import budget_chart, steps_chart
from explane.report.charts.lanes import hosts_shown
from explane.report.charts.page_swimlanes import page_swimlanes, windowed
from explane.report.charts.ranking import lines_chart
from explane.report.charts.render import Convert, converted
from explane.report.charts.roofline import roofline_chart, roofline_points
from explane.report.charts.scopes import scopes_chart
from explane.report.charts.swimlanes import pixel_ps, swimlane_chart
from explane.report.drawable import why_not_drawable
from explane.report.html import SWIMLANES, PageCharts

DRAWN: Final = (
    "hosts", "lines", "ops", "roofline", "scopes", "step_budgets", "streams", "swimlane",
)  # fmt: skip
"""Tables that charts are made of."""

_BY_GPU: Final = ("roofline", "step_budgets", "streams", "swimlane")


@dataclass(frozen=True, slots=True)
class Described:
    """Charts of a report before they are drawn.

    Attributes:
        pictures: Vega-Lite by stem.
        swimlanes: What the page needs for those of each host.
        pixel_ps: Time of one pixel of the swimlanes; 0 without them.
    """

    pictures: Mapping[str, Mapping[str, object]]
    swimlanes: Sequence[Mapping[str, Any]] = ()
    pixel_ps: int = 0


@dataclass(frozen=True, slots=True)
class Drawings:
    """Pictures of a report.

    Attributes:
        pictures: SVG by stem.
        page: What the page draws.
    """

    pictures: Mapping[str, str]
    page: PageCharts


def describe(tables: Mapping[str, pl.DataFrame]) -> Described:
    """Describes whatever the tables have rows for, where pictures can be drawn at all.

    Args:
        tables: Written tables by file stem.
    """
    pictures = {} if why_not_drawable() else descriptions(tables)
    if SWIMLANES not in pictures:
        return Described(pictures)
    events = tables["swimlane"]
    hosts = [events.filter(pl.col("host") == host) for host in hosts_shown(events)]
    return Described(pictures, [page_swimlanes(host) for host in hosts], pixel_ps(events))


def draw(charts: Described, convert: Convert = converted) -> Drawings:
    """Draws what is described.

    Args:
        charts: Result of `describe`.
        convert: Makes Vega and SVG of descriptions.
    """
    wanted = [(description, True) for description in charts.pictures.values()]
    wanted += [(lanes["vega"], False) for lanes in charts.swimlanes]
    done = convert(wanted)
    drawn = dict(zip(charts.pictures, done, strict=False))
    vega = {stem: vega for stem, (vega, _) in drawn.items() if stem != SWIMLANES}
    swimlanes = [
        {**lanes, "vega": windowed(vega)}
        for lanes, (vega, _) in zip(charts.swimlanes, done[len(drawn) :], strict=True)
    ]
    return Drawings({stem: svg for stem, (_, svg) in drawn.items()}, PageCharts(vega, swimlanes))


def descriptions(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, object]]:
    """Vega-Lite of each chart that the tables have rows for, by stem."""
    tables = _in_detail(tables)
    described: dict[str, dict[str, object]] = {}
    makers = {
        SWIMLANES: ("swimlane", swimlane_chart),
        "budget": ("streams", budget_chart),
        "lines": ("lines", lines_chart),
        "scopes": ("scopes", scopes_chart),
    }
    for stem, (table, make) in makers.items():
        if table in tables and tables[table].height:
            described[stem] = make(tables[table])
    steps = tables.get("step_budgets", pl.DataFrame())
    if steps.height and steps.filter(pl.col("complete") == 1).height:
        described["steps"] = steps_chart(steps.filter(pl.col("complete") == 1))
    points = _points(tables)
    if points.height:
        described["roofline"] = roofline_chart(points)
    return described


def _points(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Points of the roofline, with the line and op name of each instruction where known."""
    if "roofline" not in tables:
        return pl.DataFrame()
    points = roofline_points(tables["roofline"])
    key = ["host", "program_id", "hlo_instruction"]
    ops = tables.get("ops", pl.DataFrame())
    if not set(key) <= set(points.columns) or not set(key) <= set(ops.columns):
        return points
    line = pl.col("source_file") + ":" + pl.col("source_line").cast(pl.String)
    known = ops.select(*key, "op_name", line.alias("line")).unique(key, keep="first")
    return points.join(known, on=key, how="left", maintain_order="left")


def _in_detail(tables: Mapping[str, pl.DataFrame]) -> Mapping[str, pl.DataFrame]:
    """The tables whose rows belong to a GPU with those of the processes shown in detail."""
    if "hosts" not in tables or "in_detail" not in tables["hosts"].columns:
        return tables
    shown = tables["hosts"].filter(pl.col("in_detail") == 1).select("host")
    return {
        stem: table.join(shown, on="host", how="semi", maintain_order="left")
        if stem in _BY_GPU and "host" in table.columns
        else table
        for stem, table in tables.items()
    }
