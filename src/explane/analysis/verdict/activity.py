"""What each device does when: disjoint layers of compute, collective, copy and fill time.

One definition for the whole project: a device (or a stream) is *busy* while at least one of its
kernels with good times runs, and *idle* in the rest of the stated window. Where kernels of
several kinds run at once the time counts to the first of compute, collective, memcpy, memset.
What is left of the collectives in this division is exactly their exposed time: no compute kernel
of the device runs then.

    compute      ├──────┤       ├────┤
    collective      ├───────┤
    copy                   ├──────┤
    layers       │compute│co│cp│ comp│
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.intervals import (
    Intervals,
    cover,
    covered_in_windows,
    intervals,
    priority_layers,
    subtract,
)
from explane.capture.model import I32, I64, Bools, Capture, Kind

#: Kinds of work in the order in which they win overlapping time.
KINDS: Final = (Kind.COMPUTE, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)


@dataclass(frozen=True, slots=True)
class Activity:
    """Layers of work per device; groups are positions in `devices`.

    Attributes:
        devices: Ordinals of the devices with kernels, ascending.
        layers: One union per kind in `KINDS`; disjoint, together they are the busy time.
        exposed_copy: Copy time (memcpy, memset) without a compute kernel; collectives may run.
    """

    devices: I32
    layers: tuple[Intervals, ...]
    exposed_copy: Intervals

    def group_of(self, device: int) -> int:
        """Position of a device."""
        return int(np.searchsorted(self.devices, device))

    def layer(self, kind: Kind, device: int) -> Intervals:
        """Time that counts to one kind of work on a device, in group 0."""
        layer = self.layers[KINDS.index(kind)]
        mine = layer.take(layer.group == self.group_of(device))
        return intervals(mine.start_ps, mine.end_ps)

    def busy(self, device: int) -> Intervals:
        """Time with at least one kernel on a device, in group 0."""
        return cover([self.layer(kind, device) for kind in KINDS])

    def in_windows(self, device: int, start_ps: I64, end_ps: I64) -> I64:
        """Time of each kind and idle time of a device in windows; shape (n, 5), rows add up.

        Args:
            device: Ordinal.
            start_ps: Starts of the windows; shape (n,).
            end_ps: Ends, none before its start.
        """
        columns = [covered_in_windows(self.layer(k, device), start_ps, end_ps) for k in KINDS]
        idle = end_ps - start_ps - np.sum(columns, axis=0)
        return np.stack([*columns, idle], axis=1)


def kernels_of_kind(
    capture: Capture, rows: Bools, group: I64, kinds: tuple[Kind, ...]
) -> Intervals:
    """Intervals of the kernels of some kinds among `rows`."""
    kernels = capture.kernels
    mine = rows & np.isin(kernels.kind, [int(k) for k in kinds])
    return intervals(kernels.start_ps[mine], kernels.ends(mine), group[mine])


def device_activity(capture: Capture) -> Activity:
    """Layers of all devices of a capture; events with bad times are left out."""
    kernels = capture.kernels
    devices = np.unique(kernels.device)
    group = np.searchsorted(devices, kernels.device).astype(np.int64)
    rows = kernels.time_ok
    sets = tuple(kernels_of_kind(capture, rows, group, (kind,)) for kind in KINDS)
    copies = kernels_of_kind(capture, rows, group, (Kind.MEMCPY, Kind.MEMSET))
    return Activity(
        devices=devices,
        layers=priority_layers(sets),
        exposed_copy=subtract(copies, sets[0]),
    )
