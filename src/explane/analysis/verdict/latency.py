"""Launch-to-start time of every kernel, split into the call, the floor and the queue.

    host     ├── launch call ──┤
    stream                          ├── kernel ──┤
             │←──── call ─────→│flo-│
             │←───────── t_l ─────────→│         queue = t_l - call - floor

- *t_l*: kernel start less launch call start. A kernel that starts before its call by the skew of
  the clocks has t_l 0 and is counted; if the median is negative, host and GPU times can't be
  compared at all.
- *call*: the call's own time, at most t_l (the kernel may start before the call returns).
- *floor*: the least time from the end of the call to the start of the kernel that was seen on a
  stream that had run dry before the call began; per device, for graph launches apart. Without
  such a launch the least floor of the others stands in, else 0 (`floor_is_borrowed`).
- *queue*: the rest. Work in front of the kernel, not the launch, made it wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.analysis.distinct import ranks
from explane.analysis.intervals import Intervals, running_end
from explane.analysis.steps.launches import LaunchJoin
from explane.capture.model import I64, Bools, Capture


@dataclass(frozen=True, slots=True)
class Latency:
    """Launch-to-start times; columns are aligned with the kernels, 0 without a launch.

    What follows from other columns is worked out when it is asked for.

    Attributes:
        has_launch: Kernels with good times and a launch.
        first: Of these, the first kernel of each launch (a graph launch has many kernels).
        raw_t_l_ps: t_l as the clocks say, negative ones included.
        call_ps, floor_ps: Parts of t_l.
        n_negative: Launches whose first kernel starts before the call.
        floor_is_borrowed: True when a device or kind of launch never met a dry stream.
    """

    has_launch: Bools
    first: Bools
    raw_t_l_ps: I64
    call_ps: I64
    floor_ps: I64
    n_negative: int
    floor_is_borrowed: bool

    @property
    def t_l_ps(self) -> I64:
        """Launch-to-start time of each kernel: call + floor + queue."""
        return np.maximum(self.raw_t_l_ps, 0)

    @property
    def queue_ps(self) -> I64:
        """What is left of each t_l behind its call and floor."""
        queue = self.t_l_ps
        queue -= self.call_ps
        queue -= self.floor_ps
        return queue


def median_t_l_ps(capture: Capture, join: LaunchJoin) -> int:
    """Lower median of the raw launch-to-start times of launches; 0 without any.

    Where it is negative, most kernels start before they are launched: the clocks don't agree.
    """
    _, first, raw = _since_call(capture, join)
    values = raw[first]
    middle = (len(values) - 1) // 2
    return int(np.partition(values, middle)[middle]) if len(values) else 0


def launch_latency(capture: Capture, join: LaunchJoin, *, whole_device: bool = False) -> Latency:
    """Launch-to-start times of all kernels of a capture.

    Args:
        capture: The capture.
        join: Its launches.
        whole_device: Take the floor only from launches that met an idle device: a kernel on a
            stream that had run dry may still wait for another stream.
    """
    dry = _was_dry(capture, join, whole_device=whole_device)
    has, first, raw = _since_call(capture, join)
    dry &= first
    call = np.zeros(len(raw), dtype=np.int64)
    call[has] = np.maximum(capture.launches.duration_ps[join.kernel_launch[has]], 0)
    rest = np.maximum(raw, 0)
    np.minimum(call, rest, out=call)
    rest -= call
    floor, borrowed = _floors(capture, join, first, dry, rest)
    np.minimum(floor, rest, out=floor)
    return Latency(
        has_launch=has,
        first=first,
        raw_t_l_ps=raw,
        call_ps=call,
        floor_ps=floor,
        n_negative=int((raw[first] < 0).sum()),
        floor_is_borrowed=borrowed,
    )


def _since_call(capture: Capture, join: LaunchJoin) -> tuple[Bools, Bools, I64]:
    """`has_launch`, `first` and `raw_t_l_ps` of `Latency`."""
    kernels, launches = capture.kernels, capture.launches
    has = (join.kernel_launch >= 0) & kernels.time_ok
    first = np.zeros(len(kernels), dtype=bool)
    first[join.first_kernel[join.first_kernel >= 0]] = True
    raw = np.zeros(len(kernels), dtype=np.int64)
    raw[has] = kernels.start_ps[has] - launches.start_ps[join.kernel_launch[has]]
    return has, first & has, raw


def _floors(
    capture: Capture, join: LaunchJoin, first: Bools, dry: Bools, rest: I64
) -> tuple[I64, bool]:
    """Floor of each kernel's device and kind of launch; and whether one of them is borrowed.

    A device and kind without a launch on a dry stream borrows the least floor that was seen at
    all; without any the floor is unknown and taken as 0.
    """
    kernels = capture.kernels
    launched = join.kernel_launch >= 0
    cell = ranks(kernels.device)
    cell *= 2
    cell[launched] += capture.launches.is_graph[join.kernel_launch[launched]]
    n_cells = int(cell.max(initial=-1)) + 1
    none = np.iinfo(np.int64).max
    least = np.full(n_cells, none, dtype=np.int64)
    np.minimum.at(least, cell[dry], rest[dry])
    known = least < none
    least[~known] = least[known].min() if known.any() else 0
    borrowed = bool((~known[np.unique(cell[first])]).any())
    return least[cell], borrowed


def _was_dry(capture: Capture, join: LaunchJoin, *, whole_device: bool) -> Bools:
    """True for kernels whose stream (device) had no work left when their launch call began."""
    kernels = capture.kernels
    rows = np.flatnonzero(kernels.time_ok)
    keys = (kernels.device, kernels.stream)[: 1 if whole_device else 2]
    lane = ranks(*(key[rows] for key in keys))
    order = np.argsort(lane, kind="stable")  # by start within a lane, as kernels are on a device
    rows, lane = rows[order], lane[order]
    end = kernels.start_ps[rows]
    end += kernels.duration_ps[rows]
    reach = running_end(Intervals(lane, end, end))
    launch = join.kernel_launch[rows]
    empty = np.ones(len(rows), dtype=bool)
    if len(capture.launches):
        call_start = capture.launches.start_ps[launch]
        empty[1:] = (lane[1:] != lane[:-1]) | (reach[:-1] <= call_start[1:])
    dry = np.zeros(len(kernels), dtype=bool)
    dry[rows] = empty & (launch >= 0)
    return dry
