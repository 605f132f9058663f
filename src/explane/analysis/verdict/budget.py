"""Time budgets: compute + collective + memcpy + memset + idle = span, exactly, in picoseconds.

Per stream, the *span* is from the stream's own first start to its own last end: what the capture
shows of this stream and nothing that it doesn't. Streams that work little have short spans; so
that streams can be compared, `device_idle_ps` gives beside it the idle time in the device's
window (first start to last end on any stream of the device). Per device the budget is of the
union of its streams over that window.

    stream 7   ├──┤   ├────┤  ├──┤               span of 7
    stream 9           ├─────┤                   span of 9
    device     ├──┤   ├───────┤──┤               window of the device

Overlap inside one stream (graph branches, programmatic dependent launch) is counted once, to the
first of compute, collective, memcpy, memset; what was counted less is `overlap_ps`. Events with
times that can't be true are counted (`n_invalid`) and are in no sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from explane.analysis.intervals import (
    Intervals,
    hull,
    intervals,
    length_by_group,
    priority_layers,
)
from explane.analysis.steps.steps import Steps
from explane.analysis.verdict.activity import KINDS, Activity, device_activity, kernels_of_kind
from explane.capture.model import I32, I64, Capture, Kind


@dataclass(frozen=True)
class Budgets:
    """Budgets of one capture.

    Attributes:
        host: Host of the capture.
        activity: What each device does when.
        table: `streams.csv`, one row per stream with kernels.
        devices: One row per device with kernels, same budget columns, and the exposed times.
        steps: One row per step and device: the device's budget in the step's window.
    """

    host: str
    activity: Activity
    table: pl.DataFrame
    devices: pl.DataFrame
    steps: pl.DataFrame

    @cached_property
    def critical_stream(self) -> dict[int, int]:
        """Per device the stream with most compute time (at a tie most work, then lowest id)."""
        order = self.table.sort(
            ["device", "compute_ps", "busy_ps", "stream"], descending=[False, True, True, False]
        ).unique("device", keep="first", maintain_order=True)
        return dict(order.select("device", "stream").rows())


def stream_budgets(capture: Capture, steps: Steps | None = None) -> Budgets:
    """Budgets of all streams and devices of a capture, and of its steps when given."""
    activity = device_activity(capture)
    return Budgets(
        host=capture.host,
        activity=activity,
        table=_streams(capture),
        devices=_devices(capture, activity),
        steps=_steps(capture, activity, steps),
    )


def _groups(device: I32, stream: I64) -> tuple[I32, I64, I64]:
    """Distinct (device, stream) pairs, sorted, and the pair of each kernel."""
    order = np.lexsort((stream, device))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(device[order]) != 0) | (np.diff(stream[order]) != 0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return device[order][new], stream[order][new], group


def _budget(capture: Capture, group: I64, layers: tuple[Intervals, ...]) -> dict[str, I64]:
    """The columns that streams and devices share.

    Args:
        capture: The capture.
        group: Stream or device of each kernel, counted from 0.
        layers: Disjoint time of each kind, by the same groups.
    """
    kernels = capture.kernels
    rows = kernels.time_ok
    n_groups = int(group.max(initial=-1)) + 1
    times = np.stack([length_by_group(layer, n_groups) for layer in layers], axis=1)
    everything = intervals(kernels.start_ps[rows], kernels.ends(rows), group[rows])
    low, high = hull(everything, n_groups)
    busy = times.sum(axis=1)
    columns = {"span_ps": high - low}
    columns |= {f"{kind.word}_ps": times[:, i] for i, kind in enumerate(KINDS)}
    columns |= {
        "idle_ps": high - low - busy,
        "n_kernels": np.bincount(group, minlength=n_groups).astype(np.int64),
        "start_ps": low,
        "end_ps": high,
        "busy_ps": busy,
        "overlap_ps": length_by_group(everything, n_groups) - busy,
        "n_invalid": np.bincount(group[~rows], minlength=n_groups).astype(np.int64),
    }
    return columns


def _streams(capture: Capture) -> pl.DataFrame:
    """`streams.csv`."""
    kernels = capture.kernels
    device, stream, group = _groups(kernels.device, kernels.stream)
    sets = tuple(kernels_of_kind(capture, kernels.time_ok, group, (kind,)) for kind in KINDS)
    columns = _budget(capture, group, priority_layers(sets))
    rows = kernels.time_ok
    ordinals = np.unique(kernels.device)
    of_device = np.searchsorted(ordinals, kernels.device[rows])
    low, high = hull(
        intervals(kernels.start_ps[rows], kernels.ends(rows), of_device), len(ordinals)
    )
    own = np.searchsorted(ordinals, device)
    names = {(d.ordinal, line): name for d in capture.devices for line, name in d.streams.items()}
    labels = [names.get(key, "") for key in zip(device.tolist(), stream.tolist(), strict=True)]
    return pl.DataFrame(
        {
            "host": pl.Series([capture.host] * len(device), dtype=pl.String),
            "device": device,
            "stream": stream,
            **columns,
            "device_span_ps": (high - low)[own],
            "device_idle_ps": (high - low)[own] - columns["busy_ps"],
            "stream_name": pl.Series(labels, dtype=pl.String),
        }
    )


def _devices(capture: Capture, activity: Activity) -> pl.DataFrame:
    """Budget of every device, with exposed collective and copy time and its total work."""
    kernels = capture.kernels
    ordinals = activity.devices
    n_devices = len(ordinals)
    group = np.searchsorted(ordinals, kernels.device).astype(np.int64)
    columns = _budget(capture, group, activity.layers)
    rows = kernels.time_ok
    collective = kernels_of_kind(capture, rows, group, (Kind.COLLECTIVE,))
    copies = kernels_of_kind(capture, rows, group, (Kind.MEMCPY, Kind.MEMSET))
    return pl.DataFrame(
        {
            "host": pl.Series([capture.host] * n_devices, dtype=pl.String),
            "device": ordinals,
            **columns,
            "kernel_time_ps": columns["busy_ps"] + columns["overlap_ps"],
            "collective_time_ps": length_by_group(collective, n_devices),
            "exposed_collective_ps": columns["collective_ps"],
            "copy_time_ps": length_by_group(copies, n_devices),
            "exposed_copy_ps": length_by_group(activity.exposed_copy, n_devices),
            "n_streams": _n_streams(kernels.device, kernels.stream, ordinals),
        }
    )


def _n_streams(device: I32, stream: I64, ordinals: I32) -> I64:
    """Streams with kernels of each device."""
    of_pair, _, _ = _groups(device, stream)
    return np.bincount(np.searchsorted(ordinals, of_pair), minlength=len(ordinals)).astype(
        np.int64
    )


def _steps(capture: Capture, activity: Activity, steps: Steps | None) -> pl.DataFrame:
    """Budget of each device in the window of each step."""
    n_rows = len(steps) if steps is not None else 0
    parts = np.zeros((n_rows, len(KINDS) + 1), dtype=np.int64)
    frame: dict[str, object] = {
        "host": pl.Series([capture.host] * n_rows, dtype=pl.String),
        "device": np.zeros(0, dtype=np.int32),
        "step": np.zeros(0, dtype=np.int64),
        "complete": np.zeros(0, dtype=bool),
        "duration_ps": np.zeros(0, dtype=np.int64),
    }
    if steps is not None:
        for device in np.unique(steps.device).tolist():
            rows = np.flatnonzero(steps.device == device)
            parts[rows] = activity.in_windows(device, steps.start_ps[rows], steps.end_ps[rows])
        frame |= {
            "device": steps.device,
            "step": steps.step,
            "complete": steps.complete,
            "duration_ps": steps.duration_ps,
        }
    names = [*(f"{kind.word}_ps" for kind in KINDS), "idle_ps"]
    return pl.DataFrame(frame | {name: parts[:, i] for i, name in enumerate(names)})
