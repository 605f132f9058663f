"""Which host call launched each kernel: the join by correlation id, and who counts as a launch.

A correlation id is the number that the collector gives to one API call of a process and repeats
on the device records which that call caused. One graph launch causes many kernels; a copy or a
kernel launch causes one. Ids are compared within one capture only.

Rules:
- Several calls may carry one id (a runtime call and the driver call inside it, ids that wrapped
  round). Calls that can't make device work lose against calls that can, and of the rest the
  latest that began before the kernel wins, or the first one when the kernel is older than all.
- A *launch* is a call that can make device work: `…Launch…`, `…Memcpy…`, `…Memset…` by name, any
  name that is no API name (CUPTI and roctracer name the call after the kernel's symbol), or any
  call that a kernel joins. `hipStreamWaitEvent`, `hipLaunchHostFunc` and their like are none.
- A *graph kernel* (command buffer) is one whose launch is a graph launch, or that carries a graph
  id, or whose `hlo_op` is `command_buffer_N` or `call.N`, or that has no `hlo_op` while its launch
  has other kernels too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.distinct import ranks
from explane.analysis.steps.host_events import names_like
from explane.analysis.steps.launch_threads import home_threads
from explane.capture.model import I32, Bools, Capture

_API: Final = re.compile(r"^(?:cu|cuda|hip|hsa_)[A-Z]|^(?:hsa|hip|cuda|cu)_|^CudaGraph\w*:")
_MAKES_WORK: Final = re.compile(r"Launch(?!HostFunc)|Memcpy|Memset|memory_copy|memcpy|memset")
_GRAPH_LABEL: Final = re.compile(r"^(?:command_buffer|call)(?:[._]\d+)*$")


@dataclass(frozen=True, slots=True)
class LaunchJoin:
    """Kernels and the calls that launched them.

    Attributes:
        kernel_launch: Row in `Capture.launches` of each kernel's call, or -1; shape (n_kernels,).
        in_graph: True for graph kernels; shape (n_kernels,).
        is_launch: True for calls that can make device work; shape (n_launches,).
        n_kernels: Kernels joined to each call; shape (n_launches,).
        first_kernel: Row of the call's first kernel by start among those with good times, or -1;
            shape (n_launches,). A launch's latency is measured to this one.
        home_thread: Thread whose host events surround each call (see `launch_threads`), which on
            some captures is not the line that the call is on; shape (n_launches,).
        n_duplicates: Calls whose correlation id another call carries too.
    """

    kernel_launch: I32
    in_graph: Bools
    is_launch: Bools
    n_kernels: I32
    first_kernel: I32
    home_thread: I32
    n_duplicates: int

    @property
    def n_joined(self) -> int:
        """Kernels that have a launch."""
        return int((self.kernel_launch >= 0).sum())

    @property
    def n_launches(self) -> int:
        """Calls that can make device work."""
        return int(self.is_launch.sum())

    @property
    def without_kernels(self) -> Bools:
        """Launches that no kernel joins; a captured graph may be empty and still be honest."""
        empty: Bools = self.is_launch & (self.n_kernels == 0)
        return empty


def join_launches(capture: Capture) -> LaunchJoin:
    """Join every kernel of a capture to its launch call."""
    launches, kernels = capture.launches, capture.kernels
    can = ~names_like(capture, launches.name, _API) | names_like(
        capture, launches.name, _MAKES_WORK
    )
    kernel_launch = _join(capture, can)
    joined = kernel_launch[kernel_launch >= 0]
    n_kernels = np.bincount(joined, minlength=len(launches)).astype(np.int32)
    first = np.full(len(launches), -1, dtype=np.int32)
    usable = np.flatnonzero((kernel_launch >= 0) & kernels.time_ok)
    late_first = usable[np.argsort(-kernels.start_ps[usable], kind="stable")]
    first[kernel_launch[late_first]] = late_first
    ids = launches.correlation_id[launches.correlation_id >= 0]
    _, counts = np.unique(ids, return_counts=True)
    return LaunchJoin(
        kernel_launch=kernel_launch,
        in_graph=_in_graph(capture, kernel_launch),
        is_launch=can | (n_kernels > 0),
        n_kernels=n_kernels,
        first_kernel=first,
        home_thread=home_threads(capture)[launches.thread],
        n_duplicates=int(counts[counts > 1].sum()),
    )


def _join(capture: Capture, can: Bools) -> I32:
    """Row of each kernel's launch, or -1."""
    launches, wanted = capture.launches, capture.kernels.correlation_id
    result = np.full(len(wanted), -1, dtype=np.int32)
    for rows in (np.flatnonzero(can), np.flatnonzero(~can)):
        rows = rows[launches.correlation_id[rows] >= 0]
        order = rows[np.lexsort((launches.start_ps[rows], launches.correlation_id[rows]))]
        ids = launches.correlation_id[order]
        low = np.searchsorted(ids, wanted, side="left")
        high = np.searchsorted(ids, wanted, side="right")
        todo = np.flatnonzero((result < 0) & (wanted >= 0) & (high > low))
        result[todo] = order[low[todo]]
        several = todo[high[todo] - low[todo] > 1]
        # Rare, and few calls share an id: step through them until none is before the kernel.
        place = low[several].copy()
        for _ in range(int((high[several] - low[several]).max(initial=1)) - 1):
            follower = np.minimum(place + 1, high[several] - 1)
            starts = launches.start_ps[order[follower]]
            place = np.where(starts <= capture.kernels.start_ps[several], follower, place)
        result[several] = order[place]
    return result


def _in_graph(capture: Capture, kernel_launch: I32) -> Bools:
    """The rule for graph kernels of the module's docstring."""
    kernels = capture.kernels
    joined = kernel_launch >= 0
    by_launch = np.zeros(len(kernels), dtype=bool)
    by_launch[joined] = capture.launches.is_graph[kernel_launch[joined]]
    by_label = names_like(capture, kernels.hlo_op, _GRAPH_LABEL)
    number = ranks(kernels.correlation_id)
    siblings = (np.bincount(number)[number] > 1) & (kernels.correlation_id >= 0)
    bare = (kernels.hlo_op < 0) & siblings
    return by_launch | by_label | bare | (kernels.graph_id > 0)
