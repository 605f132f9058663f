from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest

from explane.report.charts.axis_unit import axis_unit
from explane.report.charts.buckets import joined, merged
from explane.report.charts.budget import budget_chart, steps_chart
from explane.report.charts.compare import line_chart, step_chart
from explane.report.charts.lanes import lane_order
from explane.report.charts.page_swimlanes import MOST_EVENTS, page_swimlanes
from explane.report.charts.ranking import lines_chart
from explane.report.charts.render import (
    bundled_vega,
    converted,
    converter_version,
    to_svg,
    vega_library,
)
from explane.report.charts.roofline import roofline_chart, roofline_points
from explane.report.charts.scopes import scopes_chart
from explane.report.charts.swimlanes import pixel_ps, swimlane_chart
from explane.report.drawings import descriptions
from explane.report.scopes import scope_table
from tests.unit.report.frames import swimlane, tables

EVENTS = pl.DataFrame(
    [
        ("a", "compute", 0, 100, "long", 0),
        ("a", "compute", 101, 2, "s1", 0),
        ("a", "compute", 104, 3, "s2", 1),
        ("a", "memcpy", 105, 1, "copy", 0),
        ("a", "compute", 119, 2, "next pixel", 0),
        ("a", "compute", 121, 3, "touches it", 0),
        ("b", "compute", 101, 2, "other lane", 0),
        ("b", "compute", 300, 0, "empty", 0),
    ],
    schema=["lane", "kind", "start_ps", "duration_ps", "name", "on_critical_path"],
    orient="row",
)


def test_slivers_of_a_kind_merge_within_a_pixel() -> None:
    marks = merged(EVENTS, pixel_ps=10)
    rows = {
        (lane, kind, start): (duration, name, path, n)
        for lane, kind, start, duration, name, path, n in marks.iter_rows()
    }
    assert rows == {
        ("a", "compute", 0): (100, "long", 0, 1),
        ("a", "compute", 101): (10, None, 1, 2),
        ("a", "memcpy", 105): (10, None, 0, 1),
        ("a", "compute", 119): (10, None, 0, 1),
        ("a", "compute", 121): (10, None, 0, 1),
        ("b", "compute", 101): (10, None, 0, 1),
        ("b", "compute", 300): (10, None, 0, 1),
    }
    assert marks["n_events"].sum() == EVENTS.height


def test_touching_slivers_become_one_mark_in_a_picture() -> None:
    marks = joined(merged(EVENTS, pixel_ps=10))
    found = {
        (lane, kind, start): (duration, n)
        for lane, kind, start, duration, _, _, n in marks.iter_rows()
    }
    assert found[("a", "compute", 119)] == (12, 2)
    assert ("a", "compute", 121) not in found
    assert found[("a", "compute", 0)] == (100, 1)
    assert marks["n_events"].sum() == EVENTS.height


@pytest.mark.parametrize(
    ("span_ps", "unit"),
    [(5, "ns"), (1999, "ns"), (2 * 10**6, "µs"), (10**10, "ms"), (10**13, "s")],
)
def test_axis_unit(span_ps: int, unit: str) -> None:
    assert axis_unit(span_ps).name == unit


def test_lanes_are_threads_then_gpus_by_number() -> None:
    events = swimlane(n_devices=11, n_streams=2, n_kernels=1)
    lanes = lane_order(events)
    assert lanes[0] == "python/123"
    assert lanes[1:4] == ["GPU 0 stream 13", "GPU 0 stream 14", "GPU 1 stream 13"]
    assert lanes[-1] == "GPU 10 stream 14"


def test_every_lane_is_labelled_at_eight_gpus_with_four_streams() -> None:
    svg = to_svg(swimlane_chart(swimlane(8, 4, 60)))
    for device in range(8):
        for stream in range(13, 17):
            assert f">GPU {device} stream {stream}<" in svg
    heights = ElementTree.fromstring(svg).attrib["height"]
    assert 600 < float(heights) < 1200


def test_the_background_of_every_gpu_lane_is_the_whole_step() -> None:
    events = swimlane(2, 1, 20)
    description = swimlane_chart(events)
    sets = description["datasets"]
    assert isinstance(sets, dict)
    background = sets["data0"]
    gpu = events.filter(pl.col("lane_kind") == "gpu")
    first, last = min(gpu["start_ps"]), max(gpu["start_ps"] + gpu["duration_ps"])
    assert [row["kind"] for row in background] == ["idle", "idle"]
    assert {(row["start"], row["end"]) for row in background} == {
        (round(first / 1e6, 6), round(last / 1e6, 6))
    }


def test_a_dense_step_gives_a_small_picture() -> None:
    dense = swimlane(8, 4, 2000)
    assert dense.height > 60_000
    assert pixel_ps(dense) > 1_000_000
    assert len(to_svg(swimlane_chart(dense))) < 4_000_000


def test_pictures_are_the_same_every_time_and_are_xml() -> None:
    found = tables("\x1b[31m<script>\u202e&")
    points = roofline_points(found["roofline"])
    budgets = found["step_budgets"]
    makers: list[tuple[Callable[[pl.DataFrame], dict[str, object]], pl.DataFrame]] = [
        (swimlane_chart, found["swimlane"]),
        (budget_chart, found["streams"]),
        (steps_chart, budgets),
        (lines_chart, found["lines"]),
        (scopes_chart, scope_table(found["ops"])),
        (roofline_chart, points),
    ]
    for describe, table in makers:
        svg = to_svg(describe(table))
        assert svg == to_svg(describe(table))
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert "script" not in tags
        assert "\u202e" not in svg


def test_several_hosts_have_an_axis_each() -> None:
    both = pl.concat([swimlane(1, 1, 5, host="left"), swimlane(1, 1, 5, host="right")])
    svg = to_svg(swimlane_chart(both))
    assert svg.count("time since the first kernel of the step") >= 2
    assert ">left<" in svg
    assert ">right<" in svg


def test_the_page_gets_every_event_with_its_texts() -> None:
    events = swimlane(2, 2, 30)
    page = page_swimlanes(events)
    columns, strings = page["events"], page["strings"]
    n = len(columns["start"])
    assert {len(column) for column in columns.values()} == {n}
    gpu = events.filter(pl.col("lane_kind") == "gpu")
    lanes = [page["lanes"][i] for i in columns["lane"]]
    seen = sorted(
        (lane, start, duration, strings[name])
        for lane, start, duration, name in zip(
            lanes, columns["start"], columns["duration"], columns["name"], strict=True
        )
        if lane.startswith("GPU")
    )
    assert seen == sorted(gpu.select("lane", "start_ps", "duration_ps", "name").iter_rows())
    assert {strings[i] for i in columns["line"] if i >= 0} == {
        f"/home/u/train.py:{n}" for n in range(10, 15)
    }


def test_a_huge_step_is_merged_until_the_page_can_hold_it() -> None:
    events = swimlane(4, 4, 4000)
    page = page_swimlanes(events)
    assert events.height > 2 * MOST_EVENTS
    assert len(page["events"]["start"]) <= MOST_EVENTS


def test_roofline_points_are_of_one_execution() -> None:
    points = roofline_points(tables()["roofline"])
    assert points["intensity"].to_list() == [2000.0]
    assert points["rate"].to_list() == [2e9 / 50e-6]


def test_the_page_can_pick_ops_and_lines_in_charts() -> None:
    found = tables()
    points = roofline_points(found["roofline"])
    charts = [lines_chart(found["lines"]), roofline_chart(points)]
    (lines, _), (roofline, _) = converted([(chart, False) for chart in charts])
    assert "picked_line" in {signal["name"] for signal in lines["signals"]}
    assert "picked_op" in {signal["name"] for signal in roofline["signals"]}


def test_descriptions_are_plain_json() -> None:
    found = tables()
    assert json.loads(json.dumps(swimlane_chart(found["swimlane"])))


def test_scopes_add_up_from_leaf_to_root() -> None:
    ops = pl.DataFrame(
        {
            "op_name": ["jit(f)/enc/dot", "jit(f)/enc/add", "jit(f)/dec", None],
            "duration_ps": [5, 3, 2, 7],
        }
    )
    rows = {path: time for path, _, _, time in scope_table(ops).iter_rows()}
    assert rows == {
        "jit(f)": 10,
        "(no op name)": 7,
        "jit(f)/enc": 8,
        "jit(f)/dec": 2,
        "jit(f)/enc/dot": 5,
        "jit(f)/enc/add": 3,
    }


def test_scopes_of_hostile_depth_are_bounded() -> None:
    ops = pl.DataFrame({"op_name": ["/".join("a" * 5000), "//", "/"], "duration_ps": [1, 1, 1]})
    table = scope_table(ops)
    assert table["depth"].max() == 11
    assert to_svg(scopes_chart(table))


def test_the_vega_that_is_shipped_is_what_the_converter_makes() -> None:
    shipped = json.loads((files("explane.report") / "static/vega.json").read_text())
    if shipped != converter_version():
        pytest.skip(f"vega.js.gz is of {shipped}; here is {converter_version()}")
    assert vega_library() == bundled_vega()


def test_another_version_of_the_converter_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    render = "explane.report.charts.render"
    monkeypatch.setattr(f"{render}.converter_version", lambda: {"vl_convert": "0"})
    monkeypatch.setattr(f"{render}.bundled_vega", lambda: "made anew")
    vega_library.cache_clear()
    try:
        assert vega_library() == "made anew"
    finally:
        vega_library.cache_clear()


def test_every_part_of_vega_comes_with_its_licence() -> None:
    text = (files("explane.report") / "static/vega-licences.txt").read_text(encoding="utf-8")
    parts = text.split("-" * 79)[1:]
    covered = {
        line.split(" (")[0] for part in parts for line in part.strip().split("\n\n")[0].split("\n")
    }
    assert {"vega", "vega-lite", "vega-embed", "d3-scale", "topojson-client"} <= covered
    assert all(len(part.strip().split("\n\n", 1)[1]) > 400 for part in parts)


def test_every_description_is_valid_vega_lite() -> None:
    found = tables()
    two_hosts = pl.concat([swimlane(1, 1, 5, host="left"), swimlane(1, 1, 5, host="right")])
    parts = pl.DataFrame({"measure": ["step", "compute", "idle"], "a": [9, 5, 4], "b": [7, 5, 2]})
    place = {"a_source_file": "f.py", "a_source_line": 1, "b_source_file": "f.py"}
    lines = pl.DataFrame([{**place, "b_source_line": n, "difference": 2 - n} for n in range(4)])
    described = list(descriptions({**found, "scopes": scope_table(found["ops"])}).values())
    described += [swimlane_chart(two_hosts), step_chart(parts), line_chart(lines)]
    described += [page_swimlanes(swimlane(2, 1, 5))["vega"]]
    assert len(described) == 10
    for description in described:
        alt.Chart.from_dict(description, validate=True)
        with pytest.raises(Exception, match="widht"):
            alt.Chart.from_dict({**description, "widht": 1}, validate=True)


def test_what_only_pages_need_is_not_loaded_for_other_commands() -> None:
    code = "import sys, explane.app; print(sorted({'jinja2', 'vl_convert'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
