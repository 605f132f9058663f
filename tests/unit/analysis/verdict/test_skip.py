"""SKIP figures by hand: latencies, their split, negative ones, graphs, steps, idle times, rows."""

from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.steps.launches import join_launches
from explane.analysis.verdict.latency import launch_latency, median_t_l_ps
from explane.analysis.verdict.skip import SKIP_SCHEMA, launch_rows, skip_metrics
from explane.analysis.verdict.skip_words import DEFINITIONS
from tests.unit.analysis.made import E, K, L, capture

GRAPH = "cuGraphLaunch (CudaGraph:1)"


def split(data: object) -> list[tuple[int, ...]]:
    latency = launch_latency(data, join_launches(data))  # type: ignore[arg-type]
    columns = (latency.t_l_ps, latency.call_ps, latency.floor_ps, latency.queue_ps)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def test_call_floor_and_queue_add_up() -> None:
    # Launch at 0 lasts 10, its kernel starts at 14: the stream was dry, so the floor is 4.
    # Launch at 20 lasts 10, its kernel waits for the first one until 100.
    data = capture([K(14, 86, call=1), K(100, 5, call=2)], [L(0, 10, 1), L(20, 10, 2)])
    assert split(data) == [(14, 10, 4, 0), (80, 10, 4, 66)]


def test_a_kernel_may_start_before_its_call_returns() -> None:
    data = capture([K(6, 5, call=1)], [L(0, 10, 1)])
    assert split(data) == [(6, 6, 0, 0)]


def test_negative_latencies_are_clamped_counted_and_distrusted_when_usual() -> None:
    kernels = [K(100 * i - 3, 5, call=i) for i in range(1, 4)] + [K(450, 5, call=4)]
    data = capture(kernels, [L(100 * i, 10, i) for i in range(1, 5)])
    latency = launch_latency(data, join_launches(data))
    assert latency.t_l_ps.tolist() == [0, 0, 0, 50]
    assert latency.n_negative == 3
    assert median_t_l_ps(data, join_launches(data)) == -3
    skip = skip_metrics(data)
    assert skip.value("n_negative_t_l") == 3
    assert skip.value("tklqt_ps") == 50


def test_few_negative_latencies_are_not_distrusted() -> None:
    kernels = [K(97, 5, call=1), K(250, 5, call=2), K(350, 5, call=3)]
    data = capture(kernels, [L(100 * i, 10, i) for i in range(1, 4)])
    assert median_t_l_ps(data, join_launches(data)) == 50


def test_floors_of_graph_launches_and_devices_are_apart_or_borrowed() -> None:
    kernels = [
        K(15, 10, call=1),
        K(40, 10, call=2),
        K(10, 100, call=3, device=1),
        K(200, 1, call=4, device=1),
    ]
    calls = [L(0, 10, 1), L(30, 3, 2, GRAPH), L(0, 8, 3), L(20, 5, 4, GRAPH)]
    data = capture(kernels, calls)
    latency = launch_latency(data, join_launches(data))
    # Device 0: floors 5 and 7. Device 1: 2, and its graph launch never met a dry stream.
    assert latency.floor_ps.tolist() == [5, 7, 2, 2]
    assert latency.floor_is_borrowed


def test_kernels_of_a_graph_count_once_per_launch_and_once_each() -> None:
    data = capture([K(50, 10, call=1), K(60, 10, call=1), K(90, 10, call=1)], [L(0, 10, 1, GRAPH)])
    skip = skip_metrics(data)
    assert skip.value("tklqt_ps") == 50
    assert skip.value("tklqt_per_kernel_ps") == 50 + 60 + 90
    assert skip.value("n_launches") == 1
    assert skip.value("n_kernels_with_launch") == 3
    assert skip.value("akd_ps") == 10


def test_totals_leave_out_bad_times_and_count_kernels_without_launch() -> None:
    kernels = [K(20, 10, call=1), K(40, 20), K(0, -1, call=1, ok=False)]
    skip = skip_metrics(capture(kernels, [L(0, 5, 1)]))
    names = ("n_kernels", "n_kernels_with_launch", "kernel_time_ps", "akd_ps", "tklqt_ps")
    assert [skip.value(n) for n in names] == [2, 1, 30, 15, 20]
    assert [skip.value(n, device=0) for n in names] == [2, 1, 30, 15, 20]


def steps_of_100() -> object:
    """Three steps; in each two kernels of 20 on two streams that overlap by 10, one host event."""
    kernels, calls, events = [], [], []
    for i in range(3):
        at = 100 * i
        events += [E(at, 95, "train", step=i), E(at + 5, 30, "work"), E(at + 20, 10, "Await")]
        calls += [L(at + 10, 4, 2 * i), L(at + 15, 4, 2 * i + 1)]
        kernels += [K(at + 50, 20, call=2 * i), K(at + 60, 20, call=2 * i + 1, stream=9)]
    return capture(kernels, calls, events)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("il_ps", 80),
        ("kernel_time_ps", 40),
        ("gpu_idle_paper_ps", 40),
        ("gpu_idle_ps", 50),
        # Busy 5 to 35 without the wait from 20 to 30: 20 of 80.
        ("host_idle_ps", 60),
        ("step_ps", 100),
        ("step_less_kernel_time_ps", 60),
        ("tklqt_ps", 40 + 45),
        ("n_kernels", 2),
        ("n_launches", 2),
        ("akd_ps", 20),
    ],
)
def test_figures_of_a_step(metric: str, value: int) -> None:
    table = skip_metrics(steps_of_100()).table  # type: ignore[arg-type]
    row = table.filter((pl.col("metric") == metric) & (pl.col("scope") == "step"))
    assert row.select("device", "value", "low", "high", "n").rows() == [
        (0, value, value, value, 2)
    ]


def test_table_has_the_fixed_columns_a_definition_and_a_label_for_each_figure() -> None:
    table = skip_metrics(steps_of_100()).table  # type: ignore[arg-type]
    assert table.columns == list(SKIP_SCHEMA)
    assert set(table["metric"]) == set(DEFINITIONS)
    assert set(table["label"]) == {"measured"}
    assert table["definition"].null_count() == 0
    assert set(table.filter(pl.col("metric").str.ends_with("_ps"))["unit"]) == {"ps"}


def test_the_median_over_steps_is_a_measured_step_and_the_range_is_theirs() -> None:
    kernels = [K(100 * i + 10, d, call=i) for i, d in enumerate((9, 20, 50, 30, 40))]
    calls = [L(100 * i, 5, i) for i in range(5)]
    events = [E(100 * i, 90, "train", step=i) for i in range(5)]
    table = skip_metrics(capture(kernels, calls, events)).table
    row = table.filter((pl.col("metric") == "kernel_time_ps") & (pl.col("scope") == "step"))
    assert row.select("value", "low", "high", "n").rows() == [(30, 20, 50, 4)]


def test_one_row_per_kernel_with_its_launch() -> None:
    kernels = [K(20, 10, "a", 1), K(40, 20, "b"), K(0, -1, "c", 1, ok=False)]
    rows = launch_rows(capture(kernels, [L(2, 5, 1, "hipLaunchKernel")]))
    columns = ("kernel", "kind", "correlation_id", "launch_start_ps", "launch_name", "t_l_ps")
    assert rows.select(columns).rows() == [
        ("c", "compute", 1, 2, "hipLaunchKernel", None),
        ("a", "compute", 1, 2, "hipLaunchKernel", 18),
        ("b", "compute", None, None, None, None),
    ]
    assert rows.columns[:9] == [
        "host",
        "device",
        "stream",
        "step",
        "kernel",
        "kind",
        "start_ps",
        "duration_ps",
        "correlation_id",
    ]


def test_top_kernels_by_time_and_by_latency() -> None:
    kernels = [K(50, 100, "long", 1), K(990, 1, "late", 2), K(991, 1, "late", 3)]
    top = skip_metrics(capture(kernels, [L(0, 5, 1), L(10, 5, 2), L(11, 5, 3)])).top_kernels
    assert top.select(
        "ranked_by", "rank", "kernel", "n_kernels", "duration_ps", "t_l_ps"
    ).rows() == [
        ("duration_ps", 1, "long", 1, 100, 50),
        ("duration_ps", 2, "late", 2, 2, 980 * 2),
        ("t_l_ps", 1, "late", 2, 2, 980 * 2),
        ("t_l_ps", 2, "long", 1, 100, 50),
    ]


def test_nothing_recorded() -> None:
    data = capture()
    skip = skip_metrics(data)
    assert skip.value("n_kernels") == 0
    assert skip.value("tklqt_ps") is None
    assert len(launch_rows(data)) == 0
    assert median_t_l_ps(data, join_launches(data)) == 0
    assert skip.value("il_ps") is None
