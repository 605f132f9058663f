"""The dependency graph of one step: what each call and kernel of it had to wait for.

    host    ├launch a┤├launch b┤ …  host order; after a synchronisation also the kernel waited for
               │          │
    stream     ▼ ├─ a ─┤  ▼├─ b ─┤  launch -> kernel; stream order; joins between streams
                        ╲
    GPU 1  ├─── all-reduce ───┤     a collective ends its transfer after the last GPU's start

Edges, most certain first:
- a kernel lasts as long as it did; a collective's transfer follows the latest start of its group;
- a kernel follows the kernel before it on its stream; a graph launch is one unit there, and its
  kernels follow all of the unit before;
- a kernel follows its launch call by the call and the latency seen on an idle GPU;
- a collective on its own stream follows what was launched before it (XLA makes its stream wait),
  and what comes after its `-done` in the schedule follows the collective;
- a kernel that starts right after another stream's kernel ended, for no other reason, follows it;
- a call follows the call before it on its thread, and after a wait of the host for the GPU also
  the kernel whose end the wait lasted for; after the copy of a loop's condition it follows that;
  a call that outlasts its own work (a copy to memory that is not pinned) ends after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final

import numpy as np

from explane.analysis.replay.conditions import calls_that_wait
from explane.analysis.replay.event_graph import EdgeList, EventGraph
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.joins import Joins, find_joins
from explane.capture.model import I32, I64, Kind

_SAME_TIME_PS: Final = 20_000_000
"""A kernel that starts this soon after another stream's kernel ended may have waited for it."""


class Edge(IntEnum):
    """What an edge stands for."""

    DURATION = 0
    TRANSFER = 1
    STREAM = 2
    LAUNCH = 3
    JOIN = 4
    CALL = 5
    HOST = 6
    SYNC = 7


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The graph of one step, times relative to the step's start.

    Moments are numbered: starts of the kernels, ends of the kernels, starts of the calls, ends of
    the calls.

    Attributes:
        graph: Moments and edges. Of n kernels and m calls the moments are: n starts and n ends of
            the kernels, then m starts and m ends of the calls.
        kernels: Rows in `Capture.kernels`, by (start, row).
        launches: Rows in `Capture.launches`, by start.
        origin_ps: Start of the step in the capture's time.
        n_contradicted: Edges that the measured times contradict, left out.
    """

    graph: EventGraph
    kernels: I64
    launches: I32
    origin_ps: int
    n_contradicted: int


def build_step_graph(facts: StepFacts, rows: I64, origin_ps: int) -> StepGraph:
    """The graph of the kernels of one step on all GPUs.

    Args:
        facts: The capture and what is known of it.
        rows: Rows in `Capture.kernels`.
        origin_ps: Start of the step.
    """
    kernels, calls = facts.capture.kernels, facts.capture.launches
    rows = rows[kernels.time_ok[rows]]
    rows = rows[np.argsort(kernels.start_ps[rows], kind="stable")]
    launch_rows = np.unique(facts.join.kernel_launch[rows])
    launch_rows = launch_rows[launch_rows >= 0]
    launch_rows = launch_rows[np.argsort(calls.start_ps[launch_rows], kind="stable")]
    times = np.concatenate(
        [
            kernels.start_ps[rows],
            kernels.ends(rows),
            calls.start_ps[launch_rows],
            calls.ends(launch_rows),
        ]
    )
    edges = EdgeList(times - origin_ps)
    builder = _Builder(facts, rows, launch_rows, edges)
    builder.durations()
    builder.streams()
    builder.launches()
    builder.joins()
    builder.host()
    return StepGraph(edges.graph(), rows, launch_rows, origin_ps, edges.n_contradicted)


class _Builder:
    """Adds the edges of one step, one kind after the other."""

    def __init__(self, facts: StepFacts, rows: I64, launch_rows: I32, edges: EdgeList):
        self.facts, self.rows, self.launch_rows, self.edges = facts, rows, launch_rows, edges
        kernels = facts.capture.kernels
        self.n = len(rows)
        self.start, self.end = kernels.start_ps[rows], kernels.ends(rows)
        self.device = kernels.device[rows].astype(np.int64)
        self.kind = kernels.kind[rows]
        self.stream = kernels.stream[rows]
        order = np.argsort(launch_rows)
        place = np.searchsorted(launch_rows[order], facts.join.kernel_launch[rows])
        known = facts.join.kernel_launch[rows] >= 0
        self.launch = np.full(self.n, -1, np.int64)
        self.launch[known] = order[place[known]]
        self.in_graph = facts.join.in_graph[rows]

    def durations(self) -> None:
        """Kernels last as measured; collectives end their transfer after the latest start."""
        index_of_row = {int(row): index for index, row in enumerate(self.rows)}
        matched = self.facts.collectives
        here = np.array([index_of_row.get(int(r), -1) for r in matched.row], np.int64)
        shared = np.zeros(self.n, bool)
        for part in _groups_of(matched.operation):
            members = here[part]
            members = members[members >= 0]
            if len(np.unique(self.device[members])) < 2:
                continue
            latest = int(self.start[members].max())
            joined = members[self.end[members] > latest]
            shared[joined] = True
            transfer = self.end[joined] - latest
            for other in members:
                source = np.full(len(joined), other)
                self.edges.add(source, joined + self.n, transfer, Edge.TRANSFER)
        alone = np.flatnonzero(~shared)
        lasting = self.end[alone] - self.start[alone]
        self.edges.add(alone, alone + self.n, lasting, Edge.DURATION)

    def streams(self) -> None:
        """Kernels of one stream run one after the other; a graph launch is one unit."""
        for part in _groups_of(_codes(self.device, self.stream)):
            before, after = part[:-1], part[1:]
            self._after_end(before, after)
        for device in np.unique(self.device):
            self._units(np.flatnonzero(self.device == device))

    def _units(self, mine: I64) -> None:
        """The kernels of a graph follow all kernels of the unit before it, and so on."""
        if not self.in_graph[mine].any():
            return
        chain = mine[self.in_graph[mine] | (self.kind[mine] != Kind.COLLECTIVE)]
        unit = np.where(self.in_graph[chain], self.launch[chain], -2 - chain)
        fresh = np.flatnonzero(np.diff(unit)) + 1
        units = np.split(chain, fresh)
        for before, after in pairwise(units):
            last = _last_by_stream(before, self.stream)
            first = _first_by_stream(after, self.stream)
            for source in last:
                self.edges.add(np.full(len(first), source + self.n), first, 0, Edge.STREAM)

    def _after_end(self, before: I64, after: I64, kind: Edge = Edge.STREAM) -> None:
        """After the end of another kernel; where they overlap much, only after its start.

        Kernels of one stream may overlap a little (programmatic dependent launch, clock steps):
        the next one then still follows the end of the one before, by that much less.
        """
        apart = self.start[after] - self.end[before]
        slight = (apart > -_SAME_TIME_PS) & (-2 * apart <= self.end[before] - self.start[before])
        lag = np.minimum(apart[slight], 0)
        self.edges.add(before[slight] + self.n, after[slight], lag, kind)
        if kind is Edge.STREAM:
            self.edges.add(before[~slight], after[~slight], 0, kind)

    def launches(self) -> None:
        """Kernels follow their calls by the call's time and the floor of the latency."""
        known = np.flatnonzero(self.launch >= 0)
        lag = self.facts.launch_lag_ps[self.rows[known]]
        self.edges.add(self.launch[known] + 2 * self.n, known, lag, Edge.LAUNCH)

    def joins(self) -> None:
        """Streams that wait for each other."""
        joins: Joins = find_joins(self.facts, self.rows, self.launch)
        self.edges.add(joins.before + self.n, joins.after, 0, Edge.JOIN)
        self._joins_seen()

    def _joins_seen(self) -> None:
        """Kernels that start about when another stream's kernel of their GPU ends.

        Only where that end is later than the end of the kernel before on their own stream, which
        would explain the start as well.
        """
        own_end = self._end_before()
        for device in np.unique(self.device):
            mine = np.flatnonzero(self.device == device)
            by_end = mine[np.argsort(self.end[mine], kind="stable")]
            place = np.searchsorted(self.end[by_end], self.start[mine], side="right")
            for offset in (-1, 0):  # the last end before the start, and the first one after it
                near = np.clip(place + offset, 0, len(by_end) - 1)
                before = by_end[near]
                apart = np.abs(self.start[mine] - self.end[before])
                good = (apart <= _SAME_TIME_PS) & (self.stream[before] != self.stream[mine])
                good &= (before < mine) & (self.end[before] > own_end[mine])
                self._after_end(before[good], mine[good], Edge.JOIN)

    def _end_before(self) -> I64:
        """End of the kernel before on the same stream; far in the past without one."""
        ends = np.full(self.n, np.iinfo(np.int64).min, np.int64)
        for part in _groups_of(_codes(self.device, self.stream)):
            ends[part[1:]] = self.end[part[:-1]]
        return ends

    def host(self) -> None:
        """Calls of one thread follow each other; after a wait they follow the kernel."""
        calls = self.facts.capture.launches
        thread = calls.thread[self.launch_rows].astype(np.int64)
        start, end = calls.start_ps[self.launch_rows], calls.ends(self.launch_rows)
        n_calls, first = len(self.launch_rows), 2 * self.n
        every = np.arange(n_calls)
        blocking = self.facts.is_blocking[self.launch_rows]
        lasts = np.where(blocking, np.minimum(end - start, self.facts.usual_call_ps), end - start)
        self.edges.add(every + first, every + first + n_calls, lasts, Edge.CALL)
        awaited = np.flatnonzero(np.append(blocking, False)[self.launch])  # -1: no launch
        returned = self.launch[awaited] + first + n_calls
        self.edges.add(awaited + self.n, returned, 0, Edge.SYNC)
        for part in _groups_of(thread):
            before, after = part[:-1], part[1:]
            clear = end[before] <= start[after]
            self.edges.add(before[clear] + first + n_calls, after[clear] + first, 0, Edge.HOST)
            self.edges.add(before[~clear] + first, after[~clear] + first, 0, Edge.HOST)
            self._waits(part, start, first)
        copies, waiting = calls_that_wait(self.facts, self.launch_rows, self.rows)
        self.edges.add(copies + self.n, waiting + first, 0, Edge.SYNC)

    def _waits(self, part: I64, call_start: I64, first: int) -> None:
        """Calls of one thread that came after a wait of the host for the GPU."""
        events = self.facts.capture.host_events
        waits = self.facts.wait_rows
        if not len(waits) or not self.n:
            return
        by_end = np.argsort(self.end, kind="stable")
        first_end, last_end = self.end[by_end[0]], self.end[by_end[-1]]
        near = (events.start_ps[waits] < last_end) & (events.ends(waits) >= first_end)
        waits = waits[near]
        place = np.searchsorted(self.end[by_end], events.ends(waits), side="right") - 1
        kernel = by_end[np.maximum(place, 0)]
        awaited = (place >= 0) & (self.end[kernel] > events.start_ps[waits])
        following = np.searchsorted(call_start[part], events.ends(waits))
        good = awaited & (following < len(part)) & (following > 0)
        good[good] &= call_start[part[following[good] - 1]] <= events.start_ps[waits[good]]
        self.edges.add(kernel[good] + self.n, part[following[good]] + first, 0, Edge.SYNC)


def _groups_of(codes: I64) -> list[I64]:
    """Indices of each group, in their order, groups by code."""
    if not len(codes):
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _codes(*columns: I64) -> I64:
    """One small code for each distinct combination of values."""
    _, codes = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return codes.reshape(-1)


def _last_by_stream(part: I64, stream: I64) -> list[int]:
    return [int(part[stream[part] == s][-1]) for s in np.unique(stream[part])]


def _first_by_stream(part: I64, stream: I64) -> I64:
    return np.array([part[stream[part] == s][0] for s in np.unique(stream[part])], np.int64)
