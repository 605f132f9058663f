"""Why each gap of a stream is there: the rules that `idle` states, on columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.intervals import Intervals, running_end
from explane.analysis.steps.launches import LaunchJoin
from explane.capture.assemble import sort_order
from explane.capture.model import I32, I64, U8, Bools, Capture, Kind
from explane.units import PS_PER_US

#: How soon after the end of what it waited for a kernel must start.
WAIT_TOLERANCE_PS: Final = 5 * PS_PER_US
#: The causes, in the order of their numbers.
CAUSES: Final = (
    "host_late",
    "launch_call_long",
    "wait_stream",
    "wait_copy",
    "wait_collective",
    "queue",
    "unknown",
)
HOST_LATE, CALL_LONG, WAIT_STREAM, WAIT_COPY, WAIT_COLLECTIVE, QUEUE, UNKNOWN = range(7)
_WAIT_OF_KIND: Final = {
    Kind.COMPUTE: WAIT_STREAM,
    Kind.COLLECTIVE: WAIT_COLLECTIVE,
    Kind.MEMCPY: WAIT_COPY,
    Kind.MEMSET: WAIT_COPY,
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Columns of gaps between two kernels of one stream.

    Attributes:
        before, after: Rows of the kernels around each gap.
        start_ps, end_ps: The gap, half-open.
        launch: Row of the launch call of the kernel after it, or -1.
        host_ps: From the gap's begin to the launch call; 0 when the call began before.
        call_ps: Part of the gap that the launch call covers.
    """

    before: I32
    after: I32
    start_ps: I64
    end_ps: I64
    launch: I32
    host_ps: I64
    call_ps: I64

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def duration_ps(self) -> I64:
        """Length of each gap."""
        return self.end_ps - self.start_ps

    @property
    def after_call_ps(self) -> I64:
        """What is left of each gap after its launch call was over."""
        rest: I64 = np.where(self.launch >= 0, self.duration_ps - self.host_ps - self.call_ps, 0)
        return rest


def gaps_of(capture: Capture, join: LaunchJoin, streams: dict[int, int]) -> Gap:
    """Gaps between the kernels of one stream per device, by device and time.

    Args:
        capture: The capture; events with bad times neither open nor close a gap.
        join: Its launches.
        streams: Stream of each device.
    """
    kernels = capture.kernels
    chosen = np.zeros(len(kernels), dtype=bool)
    for device, stream in streams.items():
        chosen |= (kernels.device == device) & (kernels.stream == stream)
    rows = np.flatnonzero(chosen & kernels.time_ok).astype(np.int32)
    start = kernels.start_ps[rows]
    parts = Intervals(kernels.device[rows], start, start + kernels.duration_ps[rows])
    # At equal starts the longest first: an empty kernel never stands behind a gap that isn't.
    order = sort_order(parts.group, parts.start_ps, descending=parts.end_ps)
    if order is not None:
        rows, parts = rows[order], parts.take(order)
    reach = running_end(parts)
    opened = (parts.group[1:] == parts.group[:-1]) & (parts.start_ps[1:] > reach[:-1])
    place = np.flatnonzero(opened)
    start, end = reach[place], parts.start_ps[place + 1]
    launch = join.kernel_launch[rows[place + 1]]
    call_start, call_end = end.copy(), end.copy()
    known = launch >= 0
    call_start[known] = capture.launches.start_ps[launch[known]]
    call_end[known] = capture.launches.ends(launch[known])
    host_ps = np.clip(call_start - start, 0, end - start)
    call_ps = np.maximum(np.minimum(call_end, end) - np.maximum(call_start, start), 0)
    return Gap(
        before=rows[place],
        after=rows[place + 1],
        start_ps=start,
        end_ps=end,
        launch=launch,
        host_ps=np.where(known, host_ps, 0),
        call_ps=np.where(known, call_ps, 0),
    )


def causes_of(capture: Capture, gaps: Gap) -> tuple[U8, I32]:
    """Cause of each gap (position in `CAUSES`), and the kernel waited for or -1."""
    waited_for = _waited(capture, gaps)
    known = gaps.launch >= 0
    call_start = np.zeros(len(gaps), dtype=np.int64)
    call_start[known] = capture.launches.start_ps[gaps.launch[known]]
    cause = np.where(call_start < gaps.start_ps, QUEUE, HOST_LATE).astype(np.uint8)
    cause[2 * gaps.call_ps >= gaps.duration_ps] = CALL_LONG
    waits: Bools = known & (waited_for >= 0) & (2 * gaps.after_call_ps >= gaps.duration_ps)
    words = np.array([_WAIT_OF_KIND.get(kind, WAIT_STREAM) for kind in Kind], dtype=np.uint8)
    cause[waits] = words[capture.kernels.kind[waited_for[waits]]]
    cause[~known] = UNKNOWN
    return cause, np.where(waits, waited_for, np.int32(-1))


def _waited(capture: Capture, gaps: Gap) -> I32:
    """The kernel of another stream that ends last inside each gap and near its end, or -1."""
    kernels = capture.kernels
    found = np.full(len(gaps), -1, dtype=np.int32)
    of_gap = kernels.device[gaps.after]
    for device in np.unique(of_gap).tolist():
        mine = np.flatnonzero(of_gap == device)
        other = (kernels.device == device) & kernels.time_ok & (kernels.duration_ps > 0)
        other &= kernels.stream != kernels.stream[gaps.after[mine[0]]]
        rows = np.flatnonzero(other)
        rows = rows[np.argsort(kernels.ends(rows), kind="stable")]
        if not len(rows):
            continue
        end = kernels.ends(rows)
        place = np.searchsorted(end, gaps.end_ps[mine], side="right") - 1
        last = np.maximum(place, 0)
        good = (place >= 0) & (end[last] > gaps.start_ps[mine])
        good &= gaps.end_ps[mine] - end[last] <= WAIT_TOLERANCE_PS
        found[mine[good]] = rows[last[good]]
    return found
