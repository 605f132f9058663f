"""GPU time by named scope as an icicle: every bar spans the bars of the scopes inside it."""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.encoding import EDGE, LABEL, LABEL_PIXELS, number, word
from explane.report.charts.theme import (
    WIDTH,
    ChartData,
    picked_opacity,
    picked_params,
    themed,
)
from explane.report.text import shortened, visible
from explane.units import format_ps

_ROW_HEIGHT: Final = 20
_MOST_BARS: Final = 1_500
_INK: Final = {"value": "#1b1f24"}
_SHADES: Final = ["#9ecae1", "#a1d99b", "#fdd0a2", "#dadaeb", "#c7e9c0", "#fdae6b", "#bcbddc"]


def scopes_chart(scopes: pl.DataFrame) -> dict[str, object]:
    """Icicle of the scopes that are at least a pixel wide.

    Args:
        scopes: `scopes` table with rows.
    """
    total_ps = int(scopes.filter(pl.col("depth") == 0)["duration_ps"].sum())
    unit = axis_unit(total_ps)
    rows = _placed(scopes, total_ps)
    for row in rows:
        row["start"] = round(int(str(row["start"])) / unit.size_ps, 6)
        row["end"] = round(int(str(row["end"])) / unit.size_ps, 6)
    data = ChartData()
    scale = {"domain": list(range(1 + max(int(str(row["depth"])) for row in rows)))}
    y = {"field": "depth", "type": "ordinal", "title": None, "axis": None, "scale": scale}
    bars = {
        "mark": {"type": "bar", "height": _ROW_HEIGHT - 1, "cursor": "pointer", **EDGE},
        "encoding": {
            "x": number("start", title=f"GPU time ({unit.name})", scale={"nice": False}),
            "x2": {"field": "end"},
            "y": y,
            "color": word("shade", scale={"range": _SHADES}, legend=None),
            "opacity": picked_opacity("scope"),
            "tooltip": [word("path", title="scope"), word("time", title="GPU time")],
        },
    }
    labels = {
        "mark": LABEL,
        "encoding": {"x": number("start"), "y": y, "text": word("label"), "color": _INK},
    }
    chart = {
        "data": data.named(rows),
        "layer": [bars, labels],
        "params": picked_params("scope"),
        "width": WIDTH,
        "height": {"step": _ROW_HEIGHT},
    }
    return themed(chart, data)


def _placed(scopes: pl.DataFrame, total_ps: int) -> list[dict[str, object]]:
    """Scopes with their place on the axis: children side by side inside their parent."""
    least_ps = total_ps / WIDTH
    next_start: dict[str, int] = {"": 0}
    rows: list[dict[str, object]] = []
    for path, scope, depth, duration_ps in scopes.iter_rows():
        parent = path[: -len(scope) - 1] if depth else ""
        if duration_ps < least_ps or parent not in next_start or len(rows) >= _MOST_BARS:
            continue
        start = next_start[parent]
        next_start[parent] = start + duration_ps
        next_start[path] = start
        room = int(duration_ps / least_ps / LABEL_PIXELS) - 1
        rows.append(
            {
                "path": shortened(visible(path), 200),
                "scope": visible(path),
                "time": format_ps(duration_ps),
                "depth": depth,
                "start": start,
                "end": start + duration_ps,
                "shade": str(sum(scope.encode("utf-8", "replace")) % len(_SHADES)),
                "label": shortened(visible(scope), room) if room >= 4 else "",
            }
        )
    return rows
