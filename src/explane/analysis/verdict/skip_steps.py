"""SKIP figures of every step: inference latency, idle times, sums over its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.intervals import (
    Intervals,
    concatenate,
    cover,
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
from explane.capture.model import I32, I64, Bools, Capture, HostEvents
from explane.memory import freed

_BLOCK: Final = 1 << 18
"""Host events that are worked on at once: nested events are few once they are joined."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One column per figure, aligned with the rows of `Steps`."""

    columns: Mapping[str, I64]


@dataclass(frozen=True, slots=True)
class StepWindows:
    """From each step's first event on the host to the end of its last kernel.

    Attributes:
        latency_ps: Length of each window.
        gpu_idle_ps: Time in it without a kernel on the device.
        host_idle_ps: Time in it in which the threads that launch do nothing.
    """

    latency_ps: I64
    gpu_idle_ps: I64
    host_idle_ps: I64


def step_windows(capture: Capture, join: LaunchJoin, steps: Steps) -> StepWindows:
    """Windows of all steps on all devices, aligned with the rows of `Steps`."""
    cell, used = _cells(capture, steps)
    last_end = np.full(len(steps), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(last_end, cell[used], capture.kernels.ends(used))
    begin = np.minimum(steps.host_start_ps, steps.first_kernel_ps)
    gpu_idle = freed(_gpu_idle(capture, steps, begin, last_end))
    host_idle = _host_idle(capture, join, steps, begin, last_end)
    return StepWindows(last_end - begin, gpu_idle, host_idle)


def step_figures(
    capture: Capture, steps: Steps, windows: StepWindows, latency: Latency
) -> StepFigures:
    """SKIP figures of all steps on all devices.

    Args:
        capture: The capture.
        steps: Its steps.
        windows: Their windows.
        latency: Launch-to-start times of all kernels.
    """
    cell, used = _cells(capture, steps)
    duration = capture.kernels.duration_ps
    first, joined = latency.first, latency.has_launch

    def total(values: I64, rows: Bools) -> I64:
        """Sum of values over some kernels by step row."""
        sums = np.zeros(len(steps), dtype=np.int64)
        mine = used & rows
        np.add.at(sums, cell[mine], values[mine])
        return sums

    kernel_time = total(duration, used)
    n_kernels = np.maximum(steps.n_kernels, 1)
    return StepFigures(
        {
            "step_ps": steps.duration_ps,
            "il_ps": windows.latency_ps,
            "kernel_time_ps": kernel_time,
            "step_less_kernel_time_ps": steps.duration_ps - kernel_time,
            "gpu_idle_paper_ps": windows.latency_ps - kernel_time,
            "gpu_idle_ps": windows.gpu_idle_ps,
            "host_idle_ps": windows.host_idle_ps,
            "n_kernels": steps.n_kernels,
            "n_launches": np.bincount(cell[used & first], minlength=len(steps)),
            "akd_ps": kernel_time // n_kernels,
            "tklqt_ps": total(latency.t_l_ps, first),
            "tklqt_per_kernel_ps": total(latency.t_l_ps, joined),
            "tklqt_call_ps": total(latency.call_ps, first),
            "tklqt_floor_ps": total(latency.floor_ps, first),
            "tklqt_queue_ps": total(latency.queue_ps, first),
        }
    )


def _cells(capture: Capture, steps: Steps) -> tuple[I32, Bools]:
    """Row in `Steps` of each kernel, and which kernels have one."""
    kernels = capture.kernels
    used = (steps.kernel_index >= 0) & kernels.time_ok
    cell = np.full(len(kernels), -1, dtype=np.int32)
    for device in np.unique(steps.device).tolist():
        rows = np.flatnonzero(steps.device == device)
        mine = used & (kernels.device == device)
        cell[mine] = rows[np.searchsorted(steps.index[rows], steps.kernel_index[mine])]
    return cell, used


def _gpu_idle(capture: Capture, steps: Steps, begin: I64, end: I64) -> I64:
    """Time in windows, one per row of `Steps`, in which the device runs nothing."""
    idle, kernels = end - begin, capture.kernels
    for device in np.unique(steps.device).tolist():
        rows = np.flatnonzero(steps.device == device)
        own = (kernels.device == device) & kernels.time_ok
        busy = union(intervals(kernels.start_ps[own], kernels.ends(own)))
        idle[rows] -= covered_in_windows(busy, begin[rows], end[rows])
    return idle


def _host_idle(capture: Capture, join: LaunchJoin, steps: Steps, begin: I64, end: I64) -> I64:
    """Time in windows, one per row of `Steps`, in which the threads that launch do nothing."""
    idle, kernels = end - begin, capture.kernels
    work = _work_of_threads(capture, join)
    for device in np.unique(steps.device).tolist():
        rows = np.flatnonzero(steps.device == device)
        mine = join.kernel_launch[(kernels.device == device) & (join.kernel_launch >= 0)]
        used = {*np.unique(join.home_thread[mine]).tolist(), dispatch_thread(capture)}
        parts = [work[thread] for thread in sorted(used) if thread in work]
        busy = cover(parts)
        idle[rows] -= covered_in_windows(busy, begin[rows], end[rows])
    return idle


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
        called = intervals(launches.start_ps, launches.end_ps)
        result[int(thread)] = cover([active, called if calls.all() else called.take(calls)])
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
