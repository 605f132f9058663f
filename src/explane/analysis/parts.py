"""Where the time of the steps goes on each device, in parts that add up to the picosecond.

    compute           a compute kernel runs
    collective        a collective runs and no compute kernel (exposed communication)
    copy              only copies and fills run (exposed copies)
    host_late         idle, and the launch call of the next kernel came too late
    launch_call_long  idle while the launch call itself took its time
    gap               idle for at most `SHORT_GAP_PS` though the next kernel was launched, or right
                      after what it waited for: the GPU's own pause between kernels
    unexplained       idle for longer with nothing in the capture to explain it

Idle means that no kernel runs on any stream of the device; its cause is that of the gap of the
critical stream which it lies in (see `idle`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.activity import Activity
from explane.analysis.idle import IdleGaps
from explane.analysis.idle_causes import CALL_LONG, HOST_LATE, QUEUE, UNKNOWN
from explane.analysis.intervals import Intervals, covered_in_windows, intervals, subtract
from explane.analysis.steps import Steps
from explane.capture.model import I32, I64, Bools, Capture
from explane.units import PS_PER_US

#: Pauses between queued kernels are a few microseconds; a longer one has another reason.
SHORT_GAP_PS: Final = 10 * PS_PER_US
PARTS: Final = (
    "compute",
    "collective",
    "copy",
    "host_late",
    "launch_call_long",
    "gap",
    "unexplained",
)


@dataclass(frozen=True, slots=True)
class StepParts:
    """Parts of each window; columns have one entry per window.

    Attributes:
        device: Device of each window.
        duration_ps: Its length.
        time_ps: Shape (n, len(PARTS)); rows add up to the lengths.
        graph_idle_ps: Idle time between kernels of one graph launch, within the parts above.
            Some collectors record graph kernels coarsely, so it may not be idle at all.
        of_steps: True when the windows are complete steps, False when they are the devices' spans.
    """

    device: I32
    duration_ps: I64
    time_ps: I64
    graph_idle_ps: I64
    of_steps: bool

    def ratio(self, *names: str) -> float:
        """Share of some parts in the length of all windows; 0 without any length."""
        total = int(self.duration_ps.sum())
        columns = [PARTS.index(name) for name in names]
        return int(self.time_ps[:, columns].sum()) / total if total else 0.0

    @property
    def graph_idle_ratio(self) -> float:
        """Share of idle time between kernels of one graph launch."""
        total = int(self.duration_ps.sum())
        return int(self.graph_idle_ps.sum()) / total if total else 0.0

    def of_devices(self, devices: list[int]) -> StepParts:
        """The windows of some devices."""
        rows = np.isin(self.device, devices)
        return StepParts(
            self.device[rows],
            self.duration_ps[rows],
            self.time_ps[rows],
            self.graph_idle_ps[rows],
            self.of_steps,
        )

    def table(self, host: str) -> pl.DataFrame:
        """One row per device and part: time in all windows, its share, range over the windows."""
        columns: dict[str, list[object]] = {
            name: [] for name in ("device", "part", "time_ps", "ratio", "low", "high", "n")
        }
        for device in np.unique(self.device).tolist():
            rows = self.device == device
            length = self.duration_ps[rows]
            for i, name in enumerate(PARTS):
                time_ps = self.time_ps[rows, i]
                ratios = time_ps / np.maximum(length, 1)
                share = int(time_ps.sum()) / max(int(length.sum()), 1)
                row = (device, name, int(time_ps.sum()), share, ratios.min(), ratios.max())
                for column, value in zip(columns, (*row, len(length)), strict=True):
                    columns[column].append(value)
        kinds = {"device": pl.Int32, "part": pl.String, "time_ps": pl.Int64, "n": pl.Int64}
        kinds |= dict.fromkeys(("ratio", "low", "high"), pl.Float64)
        frame = pl.DataFrame(columns, schema={name: kinds[name] for name in columns})
        return frame.select(pl.lit(host).alias("host"), pl.all())


def step_parts(capture: Capture, steps: Steps, activity: Activity, idle: IdleGaps) -> StepParts:
    """Parts of all complete steps, or of the devices' spans where steps don't stand for them."""
    of_steps = not steps.withheld
    pieces = []
    for device in activity.devices.tolist():
        if of_steps:
            rows = np.flatnonzero((steps.device == device) & steps.complete)
            start, end = steps.start_ps[rows], steps.end_ps[rows]
        else:
            busy = activity.busy.take(activity.busy.group == activity.group_of(device))
            start, end = busy.start_ps[:1], busy.end_ps[-1:]
        pieces.append(_of_device(capture, activity, idle, device, intervals(start, end)))
    if not pieces:
        none = np.zeros(0, dtype=np.int64)
        empty = np.zeros((0, len(PARTS)), dtype=np.int64)
        return StepParts(none.astype(np.int32), none, empty, none, of_steps)
    return StepParts(
        device=np.concatenate([p.device for p in pieces]),
        duration_ps=np.concatenate([p.duration_ps for p in pieces]),
        time_ps=np.concatenate([p.time_ps for p in pieces]),
        graph_idle_ps=np.concatenate([p.graph_idle_ps for p in pieces]),
        of_steps=of_steps,
    )


def _of_device(
    capture: Capture, activity: Activity, idle: IdleGaps, device: int, windows: Intervals
) -> StepParts:
    """Parts of the windows of one device."""
    kinds = activity.in_windows(device, windows.start_ps, windows.end_ps)
    compute, collective, memcpy, memset, idle_ps = kinds.T
    gaps, group = idle.gaps, activity.group_of(device)
    mine = capture.kernels.device[gaps.after] == device
    busy = activity.busy.take(activity.busy.group == group)
    long = gaps.duration_ps > SHORT_GAP_PS
    nameless = (idle.cause == UNKNOWN) | ((idle.cause == QUEUE) & long)
    known = {
        "host_late": idle.cause == HOST_LATE,
        "launch_call_long": idle.cause == CALL_LONG,
        "gap": (idle.cause != HOST_LATE) & (idle.cause != CALL_LONG) & ~nameless,
    }

    def inside(wanted: Bools) -> I64:
        """Idle time of the device in the wanted gaps, in each window."""
        rows = mine & wanted
        gap = intervals(gaps.start_ps[rows], gaps.end_ps[rows], group)
        return covered_in_windows(subtract(gap, busy), windows.start_ps, windows.end_ps)

    causes = [inside(rows) for rows in known.values()]
    rest = idle_ps - np.sum(causes, axis=0)
    columns = (compute, collective, memcpy + memset, *causes, rest)
    return StepParts(
        device=np.full(len(windows), device, dtype=np.int32),
        duration_ps=windows.duration_ps,
        time_ps=np.stack(columns, axis=1),
        graph_idle_ps=inside(idle.in_graph),
        of_steps=True,
    )
