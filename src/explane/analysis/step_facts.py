"""What the dependency graph of a step is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution import Attribution
from explane.analysis.collective_match import MatchedCollectives
from explane.analysis.host_causes import dispatch_thread
from explane.analysis.host_events import WAIT, names_like
from explane.analysis.latency import launch_latency
from explane.analysis.launches import LaunchJoin
from explane.analysis.slow_gpus import SlowGpus, find_slow_gpus
from explane.capture.model import I64, Capture
from explane.capture.program import Program


@dataclass(frozen=True)
class StepFacts:
    """Everything that the graph of a step is made from.

    Attributes:
        capture: The capture.
        join: Kernels and their launches.
        attribution: Kernels and their instructions.
        programs: Parsed programs by id.
        collectives: Collective kernels matched across GPUs.
        bus_bytes: Bytes that each collective kernel puts on the bus, NaN where that is unknown;
            aligned with `collectives.row`; None when nothing is known.
    """

    capture: Capture
    join: LaunchJoin
    attribution: Attribution
    programs: Mapping[int, Program]
    collectives: MatchedCollectives
    bus_bytes: npt.NDArray[np.float64] | None = None

    @cached_property
    def launch_lag_ps(self) -> I64:
        """Least time from the start of its call to the start of each kernel; see `latency`."""
        latency = launch_latency(self.capture, self.join)
        lag: I64 = latency.call_ps + latency.floor_ps
        return lag

    @cached_property
    def dispatch_thread(self) -> int:
        """Thread that gives the devices their work; -1 when none is known."""
        return dispatch_thread(self.capture)

    @cached_property
    def wait_rows(self) -> I64:
        """Rows of the host events, of any thread, in which the host only waits."""
        events = self.capture.host_events
        waits = names_like(self.capture, events.name, WAIT)
        return np.flatnonzero(waits & (events.duration_ps > 0))

    @cached_property
    def slow_gpus(self) -> SlowGpus:
        """GPUs that compute longer than the others at the same work."""
        return find_slow_gpus(self.capture, self.attribution)

    def best_transfer_ps(self, rows: I64) -> I64:
        """Transfer time of some kernels at the best rate seen among all collectives.

        A transfer takes the latency, for which the shortest one seen stands, and its bytes at
        the best rate; a kernel whose bytes are unknown keeps its own time, and one that is no
        collective too.

        Args:
            rows: Rows in `Capture.kernels`.
        """
        limit = self.capture.kernels.duration_ps[rows].copy()
        matched = self.collectives
        if self.bus_bytes is None or not len(matched):
            return limit
        transfer_ps = matched.transfer_ps(self.capture)
        moved = (transfer_ps > 0) & (matched.n_devices > 1) & (self.bus_bytes > 0)
        if not moved.any():
            return limit
        rate = float((self.bus_bytes[moved] / transfer_ps[moved]).max())
        shortest = int(transfer_ps[moved].min())
        at_best = (np.nan_to_num(self.bus_bytes) / rate + shortest).astype(np.int64)
        at_best = np.where(np.isnan(self.bus_bytes), transfer_ps, at_best)
        by_row = np.full(len(self.capture.kernels), -1, np.int64)
        by_row[matched.row] = at_best
        known = by_row[rows] >= 0
        limit[known] = by_row[rows[known]]
        return limit
