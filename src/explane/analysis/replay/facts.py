"""What the dependency graph of a step is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.result import Attribution
from explane.analysis.collectives.match import MatchedCollectives
from explane.analysis.replay.slow_gpus import SlowGpus, find_slow_gpus
from explane.analysis.steps.host_events import names_like
from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.verdict.host_causes import dispatch_thread
from explane.analysis.verdict.latency import launch_latency
from explane.capture.host_names import WAIT
from explane.capture.model import I64, Bools, Capture, Kind
from explane.capture.program import Program

_DECIDED: Final = frozenset({"conditional", "while"})
"""Opcodes whose own copies bring a predicate to the host."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Transfers of matched collectives; columns are aligned with `MatchedCollectives.row`.

    Attributes:
        transfer_ps: Time of each.
        bus_bytes: Bytes that each puts on the bus, NaN where that is unknown.
        moved: Those of several GPUs that took time and moved bytes; there are some.
        best_bytes_per_ps: The best rate among them.
        shortest_ps: The shortest of them: what stands for the latency.
    """

    transfer_ps: I64
    bus_bytes: npt.NDArray[np.float64]
    moved: Bools
    best_bytes_per_ps: float
    shortest_ps: int


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
        """Least time from the start of its call to the start of each kernel; see `latency`.

        A call that lasts until its copy is done (to memory that is not pinned) does not say how
        long the copy has to wait for it; the usual call stands in.
        """
        latency = launch_latency(self.capture, self.join, whole_device=True)
        blocked = latency.has_launch & self.is_blocking[self.join.kernel_launch]
        call_ps = np.where(
            blocked, np.minimum(latency.call_ps, self.usual_call_ps), latency.call_ps
        )
        lag: I64 = call_ps + latency.floor_ps
        return lag

    @cached_property
    def is_blocking(self) -> Bools:
        """Calls that return only after their work has ended; a last False for no call."""
        kernels, calls = self.capture.kernels, self.capture.launches
        launch = self.join.kernel_launch
        known = np.flatnonzero((launch >= 0) & kernels.time_ok)
        ends = np.full(len(calls) + 1, np.iinfo(np.int64).min, np.int64)
        np.maximum.at(ends, launch[known], kernels.ends(known))
        done = (ends[:-1] > calls.start_ps) & (ends[:-1] <= calls.end_ps)
        return np.append(done, False)

    @cached_property
    def usual_call_ps(self) -> int:
        """Median length of the calls that don't wait for their work; 0 without any."""
        lengths = self.capture.launches.duration_ps[~self.is_blocking[:-1]]
        return int(np.median(lengths)) if len(lengths) else 0

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
        """GPUs that take longer than the others for the same work."""
        return find_slow_gpus(self.capture, self.attribution)

    @cached_property
    def condition_copies(self) -> Bools:
        """Copies of predicates to the host, among all kernels; see `conditions`."""
        stored = self.attribution.stored(self.programs)
        decided = np.array([f is not None and f[1].opcode in _DECIDED for f in stored] + [False])
        is_copy = self.capture.kernels.kind == Kind.MEMCPY
        copies: Bools = decided[self.attribution.instruction] & is_copy
        return copies

    @cached_property
    def transfers(self) -> Transfers | None:
        """Transfers of the matched collectives; None when none is known to have moved bytes."""
        matched = self.collectives
        if self.bus_bytes is None or not len(matched):
            return None
        transfer_ps = matched.transfer_ps(self.capture)
        moved = (transfer_ps > 0) & (matched.n_devices > 1) & (self.bus_bytes > 0)
        if not moved.any():
            return None
        rate = float((self.bus_bytes[moved] / transfer_ps[moved]).max())
        return Transfers(transfer_ps, self.bus_bytes, moved, rate, int(transfer_ps[moved].min()))

    def best_transfer_ps(self, rows: I64) -> I64:
        """Transfer time of some kernels at the best rate seen among all collectives.

        A transfer takes the latency, for which the shortest one seen stands, and its bytes at
        the best rate; a kernel whose bytes are unknown keeps its own time, and one that is no
        collective too.

        Args:
            rows: Rows in `Capture.kernels`.
        """
        limit = self.capture.kernels.duration_ps[rows].copy()
        seen = self.transfers
        if seen is None:
            return limit
        at_best = np.nan_to_num(seen.bus_bytes) / seen.best_bytes_per_ps + seen.shortest_ps
        known_bytes = ~np.isnan(seen.bus_bytes)
        by_row = np.full(len(self.capture.kernels), -1, np.int64)
        by_row[self.collectives.row] = np.where(
            known_bytes, at_best.astype(np.int64), seen.transfer_ps
        )
        known = by_row[rows] >= 0
        limit[known] = by_row[rows[known]]
        return limit
