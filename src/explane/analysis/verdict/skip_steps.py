"""SKIP figures of every step: inference latency, idle times, sums over its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.intervals import (
    Intervals,
    concatenate,
    covered_in_windows,
    intervals,
    subtract,
    union,
)
from explane.analysis.steps.host_events import names_like, thread_bounds
from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.steps.steps import Steps
from explane.analysis.verdict.host_causes import dispatch_thread
from explane.analysis.verdict.latency import Latency
from explane.capture.host_names import WAIT
from explane.capture.model import I64, Bools, Capture, HostEvents

_BLOCK: Final = 1 << 18
"""Host events that are worked on at once: nested events are few once they are joined."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One column per figure, aligned with the rows of `Steps`."""

    columns: Mapping[str, I64]


def step_figures(
    capture: Capture, join: LaunchJoin, steps: Steps, latency: Latency
) -> StepFigures:
    """SKIP figures of all steps on all devices."""
    cell, used = _cells(capture, steps)
    duration = capture.kernels.duration_ps
    first, joined = latency.first, latency.has_launch

    def total(values: I64, rows: Bools) -> I64:
        """Sum of values over some kernels by step row."""
        sums = np.zeros(len(steps), dtype=np.int64)
        mine = used & rows
        np.add.at(sums, cell[mine], values[mine])
        return sums

    ones = np.ones(len(duration), dtype=np.int64)
    kernel_time = total(duration, used)
    last_end = np.full(len(steps), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(last_end, cell[used], capture.kernels.end_ps[used])
    begin = np.minimum(steps.host_start_ps, steps.first_kernel_ps)
    latency_ps = last_end - begin
    gpu_idle, host_idle = _idle(capture, join, steps, begin, last_end)
    n_kernels = np.maximum(steps.n_kernels, 1)
    return StepFigures(
        {
            "step_ps": steps.duration_ps,
            "il_ps": latency_ps,
            "kernel_time_ps": kernel_time,
            "step_less_kernel_time_ps": steps.duration_ps - kernel_time,
            "gpu_idle_paper_ps": latency_ps - kernel_time,
            "gpu_idle_ps": gpu_idle,
            "host_idle_ps": host_idle,
            "n_kernels": steps.n_kernels,
            "n_launches": total(ones, first),
            "akd_ps": kernel_time // n_kernels,
            "tklqt_ps": total(latency.t_l_ps, first),
            "tklqt_per_kernel_ps": total(latency.t_l_ps, joined),
            "tklqt_call_ps": total(latency.call_ps, first),
            "tklqt_floor_ps": total(latency.floor_ps, first),
            "tklqt_queue_ps": total(latency.queue_ps, first),
        }
    )


def _cells(capture: Capture, steps: Steps) -> tuple[I64, Bools]:
    """Row in `Steps` of each kernel, and which kernels have one."""
    kernels = capture.kernels
    used = (steps.kernel_index >= 0) & kernels.time_ok
    cell = np.full(len(kernels), -1, dtype=np.int64)
    for device in np.unique(steps.device).tolist():
        rows = np.flatnonzero(steps.device == device)
        mine = used & (kernels.device == device)
        cell[mine] = rows[np.searchsorted(steps.index[rows], steps.kernel_index[mine])]
    return cell, used


def _idle(
    capture: Capture, join: LaunchJoin, steps: Steps, begin: I64, end: I64
) -> tuple[I64, I64]:
    """GPU and host idle time in the windows of all steps."""
    gpu = np.zeros(len(steps), dtype=np.int64)
    host = np.zeros(len(steps), dtype=np.int64)
    kernels = capture.kernels
    busy = union(
        intervals(
            kernels.start_ps[kernels.time_ok],
            kernels.end_ps[kernels.time_ok],
            kernels.device[kernels.time_ok],
        )
    )
    work = _work_of_threads(capture, join)
    for device in np.unique(steps.device).tolist():
        rows = np.flatnonzero(steps.device == device)
        window = end[rows] - begin[rows]
        own = busy.take(busy.group == device)
        gpu[rows] = window - covered_in_windows(own, begin[rows], end[rows])
        mine = join.kernel_launch[(kernels.device == device) & (join.kernel_launch >= 0)]
        used = {*np.unique(join.home_thread[mine]).tolist(), dispatch_thread(capture)}
        parts = [work[thread] for thread in sorted(used) if thread in work]
        busy_host = union(concatenate(parts))
        host[rows] = window - covered_in_windows(busy_host, begin[rows], end[rows])
    return gpu, host


def _work_of_threads(capture: Capture, join: LaunchJoin) -> dict[int, Intervals]:
    """Time in which each launching or dispatching thread has an event and doesn't only wait.

    Launch calls on lines of their own (rocprofiler-sdk) count to the thread around them.
    """
    events, launches = capture.host_events, capture.launches
    waits = names_like(capture, events.name, WAIT)
    first, last = thread_bounds(capture)
    result = {}
    for thread in {*np.unique(join.home_thread).tolist(), dispatch_thread(capture)} - {-1}:
        rows = slice(int(first[thread]), int(last[thread]))
        calls = join.home_thread == thread
        active = _active(events, rows, waits[rows])
        called = union(intervals(launches.start_ps[calls], launches.end_ps[calls]))
        result[int(thread)] = union(concatenate([active, called]))
    return result


def _active(events: HostEvents, rows: slice, waits: Bools) -> Intervals:
    """Time in which some events of a thread run that are no waits, and no wait does."""
    work: list[Intervals] = []
    idle: list[Intervals] = []
    for begin in range(rows.start, rows.stop, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, rows.stop))
        start, end = events.start_ps[block], events.start_ps[block] + events.duration_ps[block]
        counts, waiting = events.step_num[block] < 0, waits[begin - rows.start :][: len(start)]
        for parts, own in ((work, counts & ~waiting), (idle, counts & waiting)):
            parts.append(union(intervals(start[own], end[own])))
    return subtract(concatenate(work), concatenate(idle))
