"""Budgets by hand: overlap, kinds, zero lengths, bad times, streams of several devices."""

from __future__ import annotations

import polars as pl

from explane.analysis.steps.steps import find_steps
from explane.analysis.verdict.budget import Budgets, stream_budgets
from tests.unit.analysis.made import E, K, L, capture

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PARTS = ("compute_ps", "collective_ps", "memcpy_ps", "memset_ps", "idle_ps")
CONTRACT = ["host", "device", "stream", "span_ps", *PARTS, "n_kernels"]


def only(frame: pl.DataFrame, *columns: str) -> tuple[object, ...]:
    assert len(frame) == 1
    return frame.select(columns).row(0)


def adds_up(budgets: Budgets) -> bool:
    return all(
        bool((frame.select(pl.sum_horizontal(PARTS)).to_series() == frame["span_ps"]).all())
        for frame in (budgets.table, budgets.devices)
    )


def test_parts_of_one_stream_add_to_its_span() -> None:
    data = capture([K(10, 5), K(20, 10, NCCL), K(35, 3, "MemcpyH2D"), K(40, 2, "Memset 0")])
    budgets = stream_budgets(data)
    assert budgets.table.columns[: len(CONTRACT)] == CONTRACT
    assert only(budgets.table, "span_ps", *PARTS) == (32, 5, 10, 3, 2, 12)
    assert adds_up(budgets)


def test_overlap_inside_a_stream_counts_once_and_is_reported() -> None:
    # Each kernel starts 2 before the one before has ended (programmatic dependent launch).
    budgets = stream_budgets(capture([K(10 * i - 2 * i, 10) for i in range(5)]))
    assert only(budgets.table, "span_ps", "compute_ps", "idle_ps", "overlap_ps") == (42, 42, 0, 8)


def test_compute_wins_overlapped_time_then_collective_then_copies() -> None:
    # 0    5    10   15   20   25
    # compute --------
    #      collective------
    #           copy -----------
    data = capture([K(0, 10), K(5, 10, NCCL, stream=8), K(10, 15, "MemcpyD2D", stream=9)])
    devices = stream_budgets(data).devices
    assert only(devices, "span_ps", *PARTS) == (25, 10, 5, 10, 0, 0)
    assert only(devices, "collective_time_ps", "exposed_collective_ps") == (10, 5)
    assert only(devices, "copy_time_ps", "exposed_copy_ps") == (15, 15)
    assert only(devices, "overlap_ps", "kernel_time_ps", "n_streams") == (10, 35, 3)


def test_hidden_communication_is_not_exposed() -> None:
    devices = stream_budgets(capture([K(0, 500), K(100, 400, NCCL, stream=8)])).devices
    assert only(devices, "collective_time_ps", "exposed_collective_ps") == (400, 0)


def test_collectives_on_the_compute_stream_are_classed_by_kernel() -> None:
    table = stream_budgets(capture([K(0, 10), K(10, 4, "ncclKernel_SendRecv"), K(14, 2)])).table
    assert only(table, "compute_ps", "collective_ps") == (12, 4)


def test_equal_stream_numbers_on_several_devices_stay_apart() -> None:
    data = capture(
        [K(0, 86, device=d, stream=17) for d in range(3)] + [K(90, 10, device=0, stream=17)]
    )
    table = stream_budgets(data).table
    assert table.select("device", "stream", "compute_ps", "idle_ps").rows() == [
        (0, 17, 96, 4),
        (1, 17, 86, 0),
        (2, 17, 86, 0),
    ]


def test_a_sparse_stream_has_its_own_span_and_the_idle_time_of_the_device_beside_it() -> None:
    data = capture([K(0, 100), K(40, 10, "MemcpyD2H", stream=9), K(60, 5, "MemcpyD2H", stream=9)])
    sparse = stream_budgets(data).table.filter(pl.col("stream") == 9)
    assert only(sparse, "span_ps", "memcpy_ps", "idle_ps") == (25, 15, 10)
    assert only(sparse, "device_span_ps", "device_idle_ps") == (100, 85)


def test_zero_lengths_and_bad_times() -> None:
    data = capture(
        [K(0, 10), K(10, 0), K(15, 0), K(20, 10), K(0, 0, ok=False), K(5, -3, ok=False)]
    )
    table = stream_budgets(data).table
    assert only(table, "span_ps", "compute_ps", "idle_ps") == (30, 20, 10)
    assert only(table, "n_kernels", "n_invalid", "overlap_ps") == (6, 2, 0)


def test_one_zero_length_kernel_is_no_division() -> None:
    assert (
        only(stream_budgets(capture([K(5, 0)])).table, "span_ps", *PARTS)
        == (0, 0, 0, 0, 0, 0, 0)[:6]
    )


def test_the_critical_stream_computes_most() -> None:
    data = capture(
        [K(0, 10), K(0, 50, NCCL, stream=1), K(20, 11, stream=3), K(0, 5, device=1, stream=4)]
    )
    assert stream_budgets(data).critical_stream == {0: 3, 1: 4}


def test_budget_of_steps_uses_the_step_windows() -> None:
    kernels = [K(0, 10, call=0), K(20, 10, call=1), K(25, 9, NCCL, 1, stream=8)]
    calls, events = [L(0, 1, 0), L(11, 1, 1)], [E(0, 9, "t", step=5), E(10, 9, "t", step=6)]
    data = capture(kernels, calls, events)
    steps = find_steps(data)
    table = stream_budgets(data, steps).steps
    # Step 6: window 10 to 34, idle 10 to 20, compute 20 to 30, collective alone 30 to 34.
    assert table.select("device", "step", "duration_ps", *PARTS).rows() == [
        (0, 5, 10, 10, 0, 0, 0, 0),
        (0, 6, 24, 10, 4, 0, 0, 10),
    ]


def test_without_kernels_the_tables_are_empty_and_have_their_columns() -> None:
    budgets = stream_budgets(capture([], [L(0, 1, 1)]))
    assert len(budgets.table) == len(budgets.devices) == len(budgets.steps) == 0
    assert budgets.table.columns[: len(CONTRACT)] == CONTRACT
    assert budgets.critical_stream == {}
