"""Finds a launch of the schedule for every kernel of one program, in two passes.

First each distinct graph launch is aligned by itself, anywhere in the program; where a name that
only one launch can carry supports the place, the whole graph launch is an anchor, as exact kernels
are. What is left between two anchors (a window) is aligned between their places. Equal graph
launches and equal windows are solved once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from explane.analysis.attribution.alignment import Jump, Scores, Sequence_, Track, align
from explane.analysis.attribution.consensus import Signature, agree_on_order
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import FITTING, STRONG, skip_costs
from explane.analysis.distinct import Ints
from explane.capture.model import I32, I64, Bools

_INSIDE_LOOP: Final = 24
_INSIDE_WRAP: Final = 8
_MIN_EXPLAINED: Final = 0.7
_MAX_WINDOW: Final = 3000


@dataclass(frozen=True, slots=True)
class ProgramKernels:
    """Kernels of one program on all devices, by device, launch and start.

    Attributes:
        types: Kernel type of each.
        family: `KernelClass` of each, by name.
        group: Launch of each; equal values are adjacent.
        device: Device of each.
        stream: Stream of each.
        in_graph: True for kernels of graph launches.
        node: Key of the graph node, or -1.
        graph: Index into `Schedule.graphs` that the tracer's label names, or -1.
        fixed: Launch index in the schedule where the tracer's label gives it, else -1.
    """

    types: I32
    family: Ints
    group: I32
    device: I32
    stream: I64
    in_graph: Bools
    node: I64
    graph: I32
    fixed: I32

    def __len__(self) -> int:
        return len(self.types)


@dataclass(frozen=True, slots=True)
class Places:
    """Where kernels were placed.

    Attributes:
        position: Launch index in the schedule, or -1.
        follows: True where a kernel continues the instruction of the one before it.
        rank: Place of each kernel in the agreed order of its launch.
    """

    position: I32
    follows: Bools
    rank: I32


def track_of(schedule: Schedule) -> Track:
    """The walk through a program: its loops, its branches, and the next execution."""
    jumps = []
    for loop in reversed(schedule.loops):
        if loop.trip_count < 0:
            jumps.append(Jump(loop.first, loop.end))
        jumps.append(Jump(loop.end, loop.first, 0, _INSIDE_LOOP))
    for branches in reversed(schedule.branches):
        start, end = branches.ranges[0][0], branches.ranges[-1][1]
        for first, last in branches.ranges:
            jumps += [Jump(start, first), Jump(last, end)]
    jumps.append(Jump(len(schedule), 0, 0, _INSIDE_WRAP))
    return Track(skip_costs(schedule), tuple(jumps))


def place(schedule: Schedule, scores: Scores, kernels: ProgramKernels) -> Places:
    """Places every kernel of a program that can be placed."""
    solver = _Solver(schedule, scores, kernels)
    solver.anchor_graphs()
    solver.fill_windows()
    return Places(solver.position, solver.follows, solver.rank)


class _Solver:
    def __init__(self, schedule: Schedule, scores: Scores, kernels: ProgramKernels) -> None:
        self.schedule = schedule
        self.track = track_of(schedule)
        self.scores = scores
        self.kernels = kernels
        n = len(kernels)
        self.position = kernels.fixed.copy()
        self.follows = np.zeros(n, dtype=np.bool_)
        self.done = kernels.fixed >= 0
        self.rank = np.arange(n, dtype=np.int32)

    def anchor_graphs(self) -> None:
        """Places graph launches that a name ties to one place."""
        rows = np.flatnonzero(self.kernels.in_graph & ~self.done)
        k = self.kernels
        signatures = agree_on_order(k.types[rows], k.group[rows], k.node[rows], k.stream[rows])
        signatures = [Signature(s.types, rows[s.members], s.groups) for s in signatures]
        for s in signatures:
            self.rank[s.members] = np.sort(s.members, axis=1)
        signatures = [part for s in signatures for part in self._by_neighbours(s)]
        todo = [
            Sequence_(
                s.types, _one_launch(len(s.types)), *self._states(self._edges(s.members[:1])[0])
            )
            for s in signatures
        ]
        unique = (self.scores.first >= STRONG).sum(axis=1) == 1
        results = align(self.track, self.scores, todo) if todo else []
        for s, result in zip(signatures, results, strict=True):
            found = result.position >= 0
            supported = (unique[s.types] & found).any()
            if supported and found.mean() >= _MIN_EXPLAINED:
                self.position[s.members] = result.position
                self.follows[s.members] = result.follows
                self.done[s.members] = True

    def _by_neighbours(self, signature: Signature) -> list[Signature]:
        """Launches of one signature apart by the labelled kernels right before and after them."""
        edges = self._edges(signature.members)
        return [
            Signature(signature.types, signature.members[mine], signature.groups[mine])
            for mine in (np.array([e == edge for e in edges]) for edge in dict.fromkeys(edges))
        ]

    def _edges(self, members: Ints) -> list[tuple[int, int]]:
        """For each launch, places of the labelled kernels next to it, or -1."""
        first, last = members.min(axis=1), members.max(axis=1)
        before, after = np.maximum(first - 1, 0), np.minimum(last + 1, len(self.kernels) - 1)
        device = self.kernels.device
        low = np.where((first > 0) & (device[before] == device[first]), before, first)
        high = np.where((after > last) & (device[after] == device[last]), after, last)
        fixed = self.kernels.fixed
        return list(zip(fixed[low].tolist(), fixed[high].tolist(), strict=True))

    def fill_windows(self) -> None:
        """Places what is left between anchors."""
        order = np.empty(len(self.rank), dtype=np.int32)
        order[self.rank] = np.arange(len(self.rank), dtype=np.int32)
        windows = self._windows(order)
        keys: dict[tuple[tuple[int, int], bytes, bytes], list[Ints]] = {}
        for begin, end, rows in windows:
            starts = self._starts(rows)
            key = ((begin, end), self.kernels.types[rows].tobytes(), starts.tobytes())
            keys.setdefault(key, []).append(rows)
        todo = [
            Sequence_(self.kernels.types[rows[0]], self._starts(rows[0]), *self._states(key[0]))
            for key, rows in keys.items()
        ]
        results = align(self.track, self.scores, todo) if todo else []
        for rows_of_key, result in zip(keys.values(), results, strict=True):
            for rows in rows_of_key:
                self.position[rows] = result.position
                self.follows[rows] = result.follows

    def _states(self, edges: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """States where kernels may begin and must end, from the places before and after, or -1.

        An instruction of several kernels may reach across either edge.
        """
        before, after = edges
        launches = self.schedule.launches
        begin: tuple[int, ...] = ()
        end: tuple[int, ...] = ()
        if before >= 0:
            begin = (before, before + 1) if launches[before].max_kernels > 1 else (before + 1,)
        if after >= 0:
            end = (after, after + 1) if launches[after].max_kernels > 1 else (after,)
        return begin, end

    def _starts(self, rows: Ints) -> Bools:
        starts = np.ones(len(rows), dtype=np.bool_)
        starts[1:] = self.kernels.group[rows[1:]] != self.kernels.group[rows[:-1]]
        return starts

    def _windows(self, order: Ints) -> list[tuple[int, int, Ints]]:
        """(place before, place after, rows) of every run of kernels without a place."""
        open_ = ~self.done[order]
        edge = np.ones(len(order) + 1, dtype=np.bool_)
        device = self.kernels.device[order]
        edge[1:-1] = (open_[1:] != open_[:-1]) | (device[1:] != device[:-1])
        cuts = np.flatnonzero(edge)
        windows = []
        for a, b in pairwise(cuts.tolist()):
            if not open_[a]:
                continue
            before = self._place_near(order, a - 1, -1, device[a])
            after = self._place_near(order, b, 1, device[a])
            for c in range(a, b, _MAX_WINDOW):
                d = min(c + _MAX_WINDOW, b)
                windows.append((before if c == a else -1, after if d == b else -1, order[c:d]))
        return windows

    def _place_near(self, order: Ints, i: int, step: int, device: int) -> int:
        """Place of the nearest placed kernel of the same launch run, or -1."""
        while 0 <= i < len(order) and self.kernels.device[order[i]] == device:
            if not self.done[order[i]]:
                return -1
            if self.position[order[i]] >= 0:
                return self._edge_of_launch(order, i, step)
            i += step
        return -1

    def _edge_of_launch(self, order: Ints, i: int, step: int) -> int:
        """Outermost place of a graph launch towards a window, whatever ran first in it.

        Kernels without a place may be the ones in front, as far as its default graph reaches.
        """
        place = int(self.position[order[i]])
        group = self.kernels.group[order[i]]
        end = i
        while 0 <= end < len(order) and self.kernels.group[order[end]] == group:
            end += step
        members = order[i:end] if step > 0 else order[end + 1 : i + 1]
        places = self.position[members]
        low, high = int(places[places >= 0].min()), int(places.max())
        if len(members) == 1 or high - low > 2 * len(members):
            return place
        graph = next((g for g in self.schedule.graphs if g[0] <= low and high < g[1]), None)
        place = low if step > 0 else high
        limit = place if graph is None else graph[0] if step > 0 else graph[1] - 1
        loose = self.kernels.types[members[places < 0]]
        while place != limit and len(loose):
            fitting = np.flatnonzero(self.scores.first[loose, place - step] >= FITTING)
            if not len(fitting):
                break
            loose = np.delete(loose, fitting[0])
            place -= step
        return place


def _one_launch(n: int) -> Bools:
    starts = np.zeros(n, dtype=np.bool_)
    starts[:1] = True
    return starts
