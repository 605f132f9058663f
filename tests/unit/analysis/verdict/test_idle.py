"""Idle gaps: each cause by hand, the event that fills a late host's time, threads, scale."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.steps.nesting import innermost
from explane.analysis.verdict.idle import IdleGaps, idle_gaps
from explane.units import PS_PER_US
from tests.unit.analysis.made import E, K, L, capture

US = PS_PER_US
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CONTRACT = ["host", "device", "stream", "step", "start_ps", "duration_ps", "cause", "host_event"]


def gap(call_start: int, call_end: int, *others: K, events: tuple[E, ...] = ()) -> IdleGaps:
    """One gap from 100 to 200 µs; the kernel after it was launched by the given call (µs)."""
    kernels = [K(0, 100 * US, "first", 1), K(200 * US, 50 * US, "second", 2), *others]
    calls = [L(0, US, 1), L(call_start * US, (call_end - call_start) * US, 2)]
    return idle_gaps(capture(kernels, calls, events))


@pytest.mark.parametrize(
    ("call_start", "call_end", "cause"),
    [
        (190, 195, "host_late"),
        (100, 110, "host_late"),
        (101, 151, "launch_call_long"),
        (101, 149, "host_late"),
        (60, 160, "launch_call_long"),
        (60, 110, "queue"),
        (10, 15, "queue"),
    ],
)
def test_the_launch_call_decides(call_start: int, call_end: int, cause: str) -> None:
    table = gap(call_start, call_end).table
    assert table.columns[:9] == [*CONTRACT, "next_kernel"]
    assert table.select("start_ps", "duration_ps", "cause", "next_kernel").rows() == [
        (100 * US, 100 * US, cause, "second")
    ]


@pytest.mark.parametrize(
    ("name", "cause"),
    [(NCCL, "wait_collective"), ("MemcpyH2D", "wait_copy"), ("fusion", "wait_stream")],
)
def test_a_launched_kernel_waits_for_what_ends_just_before_it(name: str, cause: str) -> None:
    table = gap(10, 15, K(50 * US, 147 * US, name, stream=9)).table
    assert table.select("cause", "waited_for").rows() == [(cause, name)]


@pytest.mark.parametrize(("start", "length"), [(50, 140), (50, 45), (196, 100)])
def test_work_that_ends_too_early_or_too_late_is_not_waited_for(start: int, length: int) -> None:
    table = gap(10, 15, K(start * US, length * US, NCCL, stream=9)).table
    assert table["cause"].to_list() == ["queue"]
    assert table["waited_for"].to_list() == [None]


def test_work_of_another_device_is_not_waited_for() -> None:
    table = gap(10, 15, K(50 * US, 147 * US, NCCL, stream=9, device=1)).table
    assert table["cause"].to_list() == ["queue"]


def test_a_late_call_whose_kernel_then_waits_for_most_of_the_gap() -> None:
    table = gap(110, 115, K(50 * US, 149 * US, NCCL, stream=9)).table
    assert table["cause"].to_list() == ["wait_collective"]
    late = gap(170, 175, K(50 * US, 149 * US, NCCL, stream=9)).table
    assert late["cause"].to_list() == ["host_late"]


def test_no_launch_is_unknown() -> None:
    table = idle_gaps(capture([K(0, 10), K(20, 10)])).table
    assert table["cause"].to_list() == ["unknown"]
    assert table.select("host_ps", "call_ps", "after_call_ps").row(0) == (0, 0, 0)


def test_parts_of_a_gap_add_up_to_it() -> None:
    for ends in ((190, 195), (60, 110), (101, 151), (10, 15), (150, 400)):
        row = gap(*ends).table.select("host_ps", "call_ps", "after_call_ps", "duration_ps").row(0)
        assert sum(row[:3]) == row[3]


def test_the_innermost_event_that_covers_most_of_the_wait_is_named() -> None:
    events = (
        E(0, 300 * US, "train", step=1),
        E(90 * US, 110 * US, "load_batch"),
        E(102 * US, 60 * US, "decode"),
        E(103 * US, 20 * US, "read"),
        E(130 * US, 20 * US, "resize"),
        E(164 * US, 30 * US, "device_put"),
    )
    # The call comes at 190: 90 µs to fill; decode covers 60 of them, its children less than half.
    assert gap(190, 195, events=events).table["host_event"].to_list() == ["decode"]


def test_the_dispatching_thread_is_asked_when_the_launching_one_is_silent() -> None:
    kernels = [K(0, 100 * US, "first", 1), K(200 * US, 50 * US, "second", 2)]
    calls = [L(0, US, 1, thread=0), L(190 * US, US, 2, thread=0)]
    events = [
        E(0, 2 * US, "jit_f:XLA GPU module", thread=0),
        E(189 * US, 9 * US, "jit_f:XLA GPU module", thread=0),
        E(0, 400 * US, "watchdog", thread=1),
        E(0, 80 * US, "train", thread=2, step=0),
        E(95 * US, 90 * US, "next(dataset)", thread=2),
        E(187 * US, 80 * US, "train", thread=2, step=1),
    ]
    table = idle_gaps(capture(kernels, calls, events)).table
    assert table.select("host_event", "host_thread").rows() == [("next(dataset)", "thread 2")]


def test_nothing_is_named_when_nothing_covers_the_wait() -> None:
    events = (E(100 * US, 10 * US, "short"), E(150 * US, 10 * US, "other"))
    assert gap(190, 195, events=events).table["host_event"].to_list() == [None]


def test_gaps_inside_one_graph_launch_are_marked() -> None:
    kernels = [K(100, 10, call=1), K(120, 10, call=1), K(150, 10, call=2)]
    calls = [L(0, 5, 1, "cuGraphLaunch (CudaGraph:1)"), L(6, 5, 2, "cuGraphLaunch (CudaGraph:1)")]
    gaps = idle_gaps(capture(kernels, calls))
    assert gaps.table.select("cause", "inside_graph").rows() == [("queue", True), ("queue", False)]


def test_only_the_critical_stream_is_looked_at_and_bad_times_open_no_gap() -> None:
    kernels = [
        K(0, 100),
        K(100, 0),
        K(150, 50),
        K(0, 1, stream=9),
        K(190, 1, stream=9),
        K(900, -5, ok=False),
    ]
    table = idle_gaps(capture(kernels)).table
    assert table.select("stream", "start_ps", "duration_ps").rows() == [(7, 100, 50)]


def test_the_idle_time_of_the_gaps_is_that_of_the_budget() -> None:
    rng = np.random.default_rng(3)
    kernels = [
        K(int(s), int(d))
        for s, d in zip(rng.integers(0, 5000, 300), rng.integers(0, 20, 300), strict=True)
    ]
    data = capture(kernels)
    covered = np.zeros(6000, dtype=bool)
    for k in kernels:
        covered[k.start : k.start + k.duration] = True
    first, last = min(k.start for k in kernels), max(k.start + k.duration for k in kernels)
    assert idle_gaps(data).table["duration_ps"].sum() == int((~covered[first:last]).sum())


def test_summary_counts_and_shares() -> None:
    kernels = [K(200 * i * US, 100 * US, "k", i) for i in range(4)]
    calls = [L(0, US, 0), L(150 * US, US, 1), L(350 * US, US, 2), L(351 * US, US, 3)]
    events = [E(90 * US, 300 * US, "load")]
    summary = idle_gaps(capture(kernels, calls, events)).summary
    columns = ("cause", "host_event", "n_gaps", "duration_ps", "duration_ratio")
    assert summary.select(columns).rows() == [
        ("host_late", "load", 2, 200 * US, 2 / 3),
        ("queue", None, 1, 100 * US, 1 / 3),
    ]


def test_no_gaps_at_all() -> None:
    for data in (capture(), capture([K(0, 5)]), capture([K(0, 5), K(5, 5)])):
        gaps = idle_gaps(data)
        assert len(gaps) == len(gaps.table) == len(gaps.summary) == 0


def test_the_level_is_found_among_two_million_nested_events() -> None:
    # 20,000 trees of 100 nested events; one moment in each tree, inside the 60 innermost levels.
    n_trees, depth = 20_000, 100
    base = np.repeat(np.arange(n_trees, dtype=np.int64) * 1000, depth)
    level = np.tile(np.arange(depth, dtype=np.int64), n_trees)
    start, end = base + level, base + 900 - level
    moments = np.arange(n_trees, dtype=np.int64) * 1000 + 59
    found = innermost(start, end, moments)
    assert np.array_equal(found, np.arange(n_trees) * depth + 59)
