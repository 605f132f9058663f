"""Colours, fonts and sizes that all charts share.

Kinds have colours that people with any colour vision tell apart (Okabe and Ito), and keep them in
every chart. Nothing is told by colour alone: lanes, legends and tooltips say it in words too.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

KIND_COLOURS: Final = {
    "compute": "#0072b2",
    "collective": "#d55e00",
    "memcpy": "#009e73",
    "memset": "#cc79a7",
    "launch": "#e69f00",
    "host": "#b8bec6",
}
"""Colour of each kind of device or host event."""

IDLE_COLOUR: Final = "#e6e8eb"
PATH_COLOUR: Final = "#111827"
BOUND_COLOURS: Final = {"compute": "#0072b2", "memory": "#009e73", "unknown": "#9aa1a9"}

WIDTH: Final = 900
"""Width of the plotting area in pixels, axis labels not counted."""

_FONT: Final = "Helvetica, Arial, sans-serif"


Rows = list[dict[str, object]]
"""Data of one chart layer."""


class ChartData:
    """Rows of a chart's layers by name, put into the description at the end.

    Altair would check every value of every row against its schema, which takes seconds.
    """

    def __init__(self) -> None:
        self.sets: dict[str, Rows] = {}

    def chart(self, rows: Rows, name: str = "") -> alt.Chart:
        """A chart on these rows, under a name of its own when it is to be changed later."""
        name = name or f"data{len(self.sets)}"
        self.sets[name] = rows
        return alt.Chart(alt.NamedData(name))


def op_key(program: pl.Expr, name: pl.Expr) -> pl.Expr:
    """What tells an operation from all others on the page: its program, and its own name.

    The tables of the page use the same key (`sections.sql.op_key`).
    """
    return program.cast(pl.String).fill_null("") + "/" + name


def picked_params(*kinds: str) -> list[alt.Parameter]:
    """The signals that the page sets to the picked `op`, `line` or `scope`; empty for none."""
    return [alt.param(name=f"picked_{kind}", value="") for kind in kinds]


def picked_opacity(*kinds: str) -> Any:
    """Full for marks of the picked thing, and for all while nothing is picked.

    A mark has the thing's key under the name of its kind. A scope holds all scopes inside it.
    """
    tests = {
        kind: f"picked_{kind} == datum.{kind}"
        if kind != "scope"
        else "indexof(datum.scope + '/', picked_scope + '/') == 0"
        for kind in kinds
    }
    shown = " && ".join(f"(picked_{kind} == '' || {test})" for kind, test in tests.items())
    return alt.when(shown).then(alt.value(1)).otherwise(alt.value(0.25))


def themed(
    chart: alt.LayerChart | alt.VConcatChart | alt.Chart, data: ChartData
) -> dict[str, object]:
    """The Vega-Lite description of a chart with the common look and its data."""
    description = chart.configure(
        background="white",
        font=_FONT,
        view=alt.ViewConfig(stroke=None),
        mark=alt.MarkConfig(aria=False),
        axis=alt.AxisConfig(
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
            gridColor="#e1e4e8",
            domainColor="#9aa1a9",
            tickColor="#9aa1a9",
            labelLimit=320,
        ),
        legend=alt.LegendConfig(
            orient="top", title=None, labelFontSize=11, symbolType="square", symbolSize=90
        ),
    ).to_dict(validate=False)  # takes longer than all else here: the tests do it
    return {**description, "datasets": data.sets}
