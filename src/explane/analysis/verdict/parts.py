"""Where the time of the steps goes on each device, in parts that add up to the picosecond.

    compute           a compute kernel runs
    collective        a collective moves data and no compute kernel runs (exposed communication)
    peer_late         the same, but another GPU, which has more work, has not joined yet
    peer_host_late    the same, and the host made the other GPU late
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

from explane.analysis.intervals import (
    Intervals,
    covered_in_windows,
    intersect,
    intervals,
    subtract,
)
from explane.analysis.steps.steps import Steps
from explane.analysis.verdict.activity import Activity
from explane.analysis.verdict.idle import IdleGaps
from explane.analysis.verdict.idle_causes import CALL_LONG, HOST_LATE, QUEUE, UNKNOWN
from explane.analysis.verdict.peer_waits import peer_waits
from explane.capture.model import I32, I64, Bools, Capture, Kind
from explane.units import PS_PER_US

#: Pauses between queued kernels are a few microseconds; a longer one has another reason.
SHORT_GAP_PS: Final = 10 * PS_PER_US
PARTS: Final = (
    "compute",
    "collective",
    "peer_late",
    "peer_host_late",
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
    maker = _Maker(capture, steps, activity, idle)
    pieces = [maker.of_device(device) for device in activity.devices.tolist()]
    none = np.zeros(0, dtype=np.int64)
    return StepParts(
        device=np.concatenate([none.astype(np.int32), *(p.device for p in pieces)]),
        duration_ps=np.concatenate([none, *(p.duration_ps for p in pieces)]),
        time_ps=np.concatenate(
            [np.zeros((0, len(PARTS)), np.int64), *(p.time_ps for p in pieces)]
        ),
        graph_idle_ps=np.concatenate([none, *(p.graph_idle_ps for p in pieces)]),
        of_steps=not steps.withheld,
    )


class _Maker:
    """Makes the parts of each device; holds what devices need of each other."""

    def __init__(self, capture: Capture, steps: Steps, activity: Activity, idle: IdleGaps):
        self.steps = steps
        self.activity = activity
        self.idle = idle
        self.gap_device = capture.kernels.device[idle.gaps.after]
        self.waits = peer_waits(capture, steps)
        cause = idle.cause
        long = idle.gaps.duration_ps > SHORT_GAP_PS
        nameless = (cause == UNKNOWN) | ((cause == QUEUE) & long)
        self.causes = {
            "host_late": cause == HOST_LATE,
            "launch_call_long": cause == CALL_LONG,
            "gap": (cause != HOST_LATE) & (cause != CALL_LONG) & ~nameless,
        }
        by_host = self.causes["host_late"] | self.causes["launch_call_long"]
        self.host_idle = {
            d: self.idle_in(d, activity.busy(d), by_host) for d in activity.devices.tolist()
        }

    def idle_in(self, device: int, busy: Intervals, wanted: Bools) -> Intervals:
        """Time of the wanted gaps in which nothing runs on the device, of which `busy` tells."""
        rows, gaps = (self.gap_device == device) & wanted, self.idle.gaps
        gap = intervals(gaps.start_ps[rows], gaps.end_ps[rows])
        return subtract(gap, busy)

    def windows(self, device: int, busy: Intervals) -> Intervals:
        """The complete steps of a device, or its span."""
        if not self.steps.withheld:
            return self.steps.windows(device)
        return intervals(busy.start_ps[:1], busy.end_ps[-1:])

    def waiting(self, device: int, windows: Intervals) -> tuple[I64, I64]:
        """Exposed waiting for peers in each window: all of it, and what a peer's host made.

        A GPU is late by what it lost since the collective before. Of the wait, the host answers
        for as much as the late GPU was idle because of its host for longer than this one was.
        """
        exposed = self.activity.layer(Kind.COLLECTIVE, device)
        mine = self.waits.device == device
        waits, since = self.waits.windows.take(mine), self.waits.since_ps[mine]
        late = self.waits.late_device[mine]
        by_host = np.zeros(len(waits), dtype=np.int64)
        for peer in np.unique(late).tolist():
            rows, begin, end = late == peer, since[late == peer], waits.end_ps[late == peer]
            lost = covered_in_windows(self.host_idle[peer], begin, end)
            lost -= covered_in_windows(self.host_idle[device], begin, end)
            by_host[rows] = np.maximum(lost, 0)
        shown = covered_in_windows(exposed, waits.start_ps, waits.end_ps)
        every = covered_in_windows(intersect(exposed, waits), windows.start_ps, windows.end_ps)
        blamed = np.zeros(len(windows), dtype=np.int64)
        place = np.searchsorted(windows.start_ps, waits.end_ps, side="left") - 1
        until = np.append(windows.end_ps, np.iinfo(np.int64).min)  # of no window
        good = waits.end_ps <= until[place]
        np.add.at(blamed, place[good], np.minimum(by_host, shown)[good])
        return every, np.minimum(blamed, every)

    def of_device(self, device: int) -> StepParts:
        """Parts of the windows of one device."""
        busy = self.activity.busy(device)
        windows = self.windows(device, busy)
        start, end = windows.start_ps, windows.end_ps
        compute, collective, memcpy, memset, idle_ps = self.activity.in_windows(
            device, start, end
        ).T
        waits, by_host = self.waiting(device, windows)
        causes = [
            covered_in_windows(self.idle_in(device, busy, rows), start, end)
            for rows in self.causes.values()
        ]
        peers = (collective - waits, waits - by_host, by_host)
        rest = idle_ps - np.sum(causes, axis=0)
        return StepParts(
            device=np.full(len(windows), device, dtype=np.int32),
            duration_ps=windows.duration_ps,
            time_ps=np.stack((compute, *peers, memcpy + memset, *causes, rest), axis=1),
            graph_idle_ps=covered_in_windows(
                self.idle_in(device, busy, self.idle.in_graph), start, end
            ),
            of_steps=True,
        )
