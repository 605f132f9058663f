"""Parts of Vega-Lite descriptions that charts share, as the plain dictionaries of its JSON.

https://vega.github.io/vega-lite/docs/ has the meaning of every key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from explane.report.charts.axis_unit import AxisUnit
from explane.report.charts.theme import IDLE_COLOUR, KIND_COLOURS, WIDTH, ChartData, Rows, themed

Part = dict[str, Any]
"""A channel, a mark, a layer or a whole description."""

PARTS: Final = ("compute", "collective", "memcpy", "memset", "idle")
"""Parts of a stream's span, in the order in which they are stacked."""

LABEL: Final = {"type": "text", "align": "left", "dx": 3, "fontSize": 10, "clip": True}
"""Mark of a text inside a bar, from the bar's start on."""

LABEL_PIXELS: Final = 6.2
"""Width of a letter of such a text."""

EDGE: Final = {"stroke": "white", "strokeWidth": 0.5}
"""Of a mark: what parts it from its neighbours."""


def number(field: str, **more: object) -> Part:
    """A channel for a column of numbers."""
    return {"field": field, "type": "quantitative", **more}


def word(field: str, **more: object) -> Part:
    """A channel for a column of names."""
    return {"field": field, "type": "nominal", **more}


def rows_of_names(field: str, names: Sequence[str] = ()) -> Part:
    """The y channel of bars with names: as given, each once, or sorted."""
    order = {"scale": {"domain": list(dict.fromkeys(names))}} if names else {}
    return word(field, title=None, axis={"ticks": False, "domain": False}, **order)


def coloured(field: str, colours: Mapping[str, str], **more: object) -> Part:
    """The colour channel of a column with few words."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return word(field, scale=scale, **more)


def chosen(test: str, value: object, otherwise: object) -> Part:
    """A channel with one of two values, by an expression on the row."""
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def bars_chart(rows: Rows, encoding: Part, mark: Part, size: tuple[int, int]) -> dict[str, object]:
    """The description of bars below each other.

    Args:
        rows: One for each bar, or each part of one.
        encoding: Channels.
        mark: Properties of the bars.
        size: Width of the chart and distance of the bars, in pixels.
    """
    data = ChartData()
    chart = {
        "data": data.named(rows),
        "mark": {"type": "bar", **mark},
        "encoding": encoding,
        "width": size[0],
        "height": {"step": size[1]},
    }
    return themed(chart, data)


def stacked_chart(rows: Rows, lane: Part, unit: AxisUnit, step: int) -> dict[str, object]:
    """The description of bars that are cut into `PARTS`.

    Args:
        rows: `kind`, `rank` and `time` of each part.
        lane: The y channel.
        unit: Of `time`.
        step: Distance of the bars in pixels.
    """
    encoding = {
        "x": number("time", title=f"time ({unit.name})", stack="zero", scale={"nice": False}),
        "y": lane,
        "color": coloured("kind", {part: KIND_COLOURS.get(part, IDLE_COLOUR) for part in PARTS}),
        "order": number("rank"),
    }
    return bars_chart(rows, encoding, {"height": 18}, (WIDTH, step))
