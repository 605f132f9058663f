"""Kernels in launch order, grouped by the call that launched them.

The order of launch calls on one device is the order in which the runtime runs a program's thunks;
correlation ids count calls, so they give it even where a call's host event was not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.capture.model import I32, I64, Bools, Capture, Kernels


@dataclass(frozen=True, slots=True)
class LaunchGroups:
    """Groups of kernels with one correlation id on one device, in launch order.

    Attributes:
        order: Rows of the kernels table by device, launch and start.
        group: Group of each kernel (aligned with the kernels table), counted in `order`.
        size: Kernels of each group.
        launch: Row of each group's call in the launches table, or -1.
        is_graph: True for groups launched by a graph launch, or with several unlabelled kernels.
    """

    order: I32
    group: I32
    size: I64
    launch: I32
    is_graph: Bools


def group_launches(capture: Capture, graph_label: Bools, labelled: Bools) -> LaunchGroups:
    """Groups a capture's kernels by launch.

    Args:
        capture: The capture.
        graph_label: Per kernel, True where the tracer's label names a graph.
        labelled: Per kernel, True where the tracer's label names an instruction.
    """
    kernels = capture.kernels
    order = launch_order(kernels)
    device = kernels.device[order]
    correlation = kernels.correlation_id[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (
        (device[1:] != device[:-1]) | (correlation[1:] != correlation[:-1]) | (correlation[1:] < 0)
    )
    group = np.empty(len(order), dtype=np.int32)
    group[order] = np.cumsum(new, dtype=np.int32) - 1
    size = np.bincount(group, minlength=int(new.sum()))
    launch = join_calls(capture, correlation[new])
    is_graph = np.zeros(len(size), dtype=np.bool_)
    known = launch >= 0
    is_graph[known] = capture.launches.is_graph[launch[known]]
    marked = graph_label | (kernels.graph_id >= 0)
    is_graph |= np.bincount(group, marked, len(size)) > 0
    is_graph |= (size > 1) & (np.bincount(group, ~labelled, len(size)) > 1)
    return LaunchGroups(order, group, size, launch, is_graph)


def launch_order(kernels: Kernels) -> I32:
    """Rows by (device, correlation id, start); kernels without an id come by start time.

    A kernel without a correlation id takes the place of the kernel that starts before it.
    """
    key = kernels.correlation_id.astype(np.int64).copy()
    missing = key < 0
    if missing.any():
        by_start = np.lexsort((kernels.start_ps, kernels.device))
        seen = np.where(missing[by_start], -1, np.arange(len(key)))
        last = np.maximum.accumulate(seen)
        same = (last >= 0) & (kernels.device[by_start[last]] == kernels.device[by_start])
        filled = np.where(same, key[by_start[last]], -1)
        key[by_start] = filled
    device = kernels.device.astype(np.int64)
    if not missing.any() and int(key.max(initial=0)) < 1 << 40:
        # Rows are by device and start already, and calls mostly too: a stable sort is cheap.
        return np.argsort((device << 40) | key, kind="stable").astype(np.int32)
    return np.lexsort((kernels.start_ps, missing, key, device)).astype(np.int32)


def join_calls(capture: Capture, correlation: I64) -> I32:
    """Row of the launch call with each correlation id, or -1; the first one if ids repeat."""
    ids = capture.launches.correlation_id
    if not len(ids):
        return np.full(len(correlation), -1, dtype=np.int32)
    by_id = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids[by_id], correlation)
    at = np.minimum(at, len(ids) - 1)
    rows = by_id[at].astype(np.int32)
    return np.where((ids[rows] == correlation) & (correlation >= 0), rows, np.int32(-1))
