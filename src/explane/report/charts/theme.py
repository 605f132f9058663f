"""Colours, fonts and sizes that all charts share.

Kinds have colours that people with any colour vision tell apart (Okabe and Ito), and keep them in
every chart. Nothing is told by colour alone: lanes, legends and tooltips say it in words too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

_CONFIG: Final = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "mark": {"aria": False},
    "axis": {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "gridColor": "#e1e4e8",
        "domainColor": "#9aa1a9",
        "tickColor": "#9aa1a9",
        "labelLimit": 320,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelFontSize": 11,
        "symbolType": "square",
        "symbolSize": 90,
    },
}

Rows = list[dict[str, object]]
"""Data of one chart layer."""


class ChartData:
    """Rows of a chart's layers by name, put into the description at the end."""

    def __init__(self) -> None:
        self.sets: dict[str, Rows] = {}

    def named(self, rows: Rows, name: str = "") -> dict[str, str]:
        """The `data` of a layer on these rows; a name of its own if they are changed later."""
        name = name or f"data{len(self.sets)}"
        self.sets[name] = rows
        return {"name": name}


def op_key(program: pl.Expr, name: pl.Expr) -> pl.Expr:
    """What tells an operation from all others on the page: its program, and its own name.

    The tables of the page use the same key (`sections.sql.op_key`).
    """
    return program.cast(pl.String).fill_null("") + "/" + name


def picked_params(*kinds: str) -> list[dict[str, str]]:
    """The signals that the page sets to the picked `op`, `line` or `scope`; empty for none."""
    return [{"name": f"picked_{kind}", "value": ""} for kind in kinds]


def picked_opacity(*kinds: str) -> dict[str, Any]:
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
    return {"condition": {"test": shown, "value": 1}, "value": 0.25}


def themed(chart: Mapping[str, object], data: ChartData) -> dict[str, object]:
    """The Vega-Lite description of a chart with the common look and its data."""
    return {"config": _CONFIG, **chart, "datasets": data.sets}
