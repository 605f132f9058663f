"""What the settled kernels of a graph launch say about the others' place in order and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.distinct import Ints, distinct, order_by

Flags = npt.NDArray[np.bool_]

FAR_PS: Final = 1 << 60
"""Beyond any time: an open end."""

_SHIFT: Final = 32
_SLACK_PS: Final = 200_000
_MAX_BROKEN: Final = 0.02
_SAMPLE: Final = 64


@dataclass(frozen=True, slots=True)
class GraphKernels:
    """Kernels of one program with the places found so far; equal launches are adjacent.

    Attributes:
        group: Launch of each kernel.
        stream: Where it ran.
        start_ps: When it began.
        end_ps: When it ended.
        position: Its place, meaningful where settled.
        settled: Whether the place is beyond doubt.
    """

    group: Ints
    stream: Ints
    start_ps: Ints
    end_ps: Ints
    position: Ints
    settled: Flags


@dataclass(frozen=True, slots=True)
class Timetable:
    """Settled kernels by launch and place: when each began and ended.

    Attributes:
        key: (launch, place) packed into one ascending key.
        start_ps: Earliest start of the place's kernels.
        end_ps: Latest end.
    """

    key: Ints
    start_ps: Ints
    end_ps: Ints

    def end_of(self, groups: Ints, place: int) -> Ints:
        """When a place's kernels ended in each launch; far in the past where unknown."""
        at, found = self._find(groups, place)
        return np.where(found, self.end_ps[at], -FAR_PS) if len(self.key) else at - FAR_PS

    def start_of(self, groups: Ints, place: int) -> Ints:
        """When a place's kernels began in each launch; far in the future where unknown."""
        at, found = self._find(groups, place)
        return np.where(found, self.start_ps[at], FAR_PS) if len(self.key) else at + FAR_PS

    def _find(self, groups: Ints, place: int) -> tuple[Ints, Flags]:
        wanted = (groups.astype(np.int64) << _SHIFT) | place
        if not len(self.key):
            return np.zeros_like(wanted), np.zeros(len(wanted), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return at, self.key[at] == wanted

    def around(self, groups: Ints, slots: Ints) -> tuple[Ints, Ints]:
        """(U, g) starts of the nearest places before and after each slot in each launch."""
        wanted = (groups[:, None].astype(np.int64) << _SHIFT) | slots[None, :]
        if not len(self.key):
            return np.full_like(wanted, -FAR_PS), np.full_like(wanted, FAR_PS)
        left = np.searchsorted(self.key, wanted, side="left") - 1
        right = np.searchsorted(self.key, wanted, side="right")
        return self._at(left, groups, -FAR_PS), self._at(right, groups, FAR_PS)

    def _at(self, index: Ints, groups: Ints, otherwise: int) -> Ints:
        inside = (index >= 0) & (index < len(self.key))
        safe = np.clip(index, 0, len(self.key) - 1)
        same = inside & ((self.key[safe] >> _SHIFT) == groups[:, None])
        return np.where(same, self.start_ps[safe], otherwise)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Settled kernels around others.

    Attributes:
        after: For each kernel, the place of the last settled kernel before it on its stream in
            its launch, or -1.
        before: The place of the first settled kernel after it there, or a large number.
        free_ps: When its stream was free for it: the end of the kernel before it there, or the
            start of its launch's first kernel.
        everywhere: Settled kernels of all streams.
        main: Those of each launch's main stream.
        waits: Kernels are seen to wait for what they read, also across streams.
    """

    after: Ints
    before: Ints
    free_ps: Ints
    everywhere: Timetable
    main: Timetable
    waits: bool


def neighbours(
    kernels: GraphKernels, reads: Sequence[Sequence[int]], waits: bool | None = None
) -> Neighbours:
    """Neighbours of every kernel of a program.

    Args:
        kernels: The kernels, by launch and start.
        reads: For each place, the places whose results it reads.
        waits: Whether kernels wait for what they read; None: found out from settled ones.
    """
    order = order_by(kernels.group, kernels.stream)
    group = kernels.group[order]
    lane = np.ones(len(order), dtype=np.bool_)
    lane[1:] = (np.diff(group) != 0) | (np.diff(kernels.stream[order]) != 0)
    known = np.where(kernels.settled[order], kernels.position[order], -1)
    after = np.empty(len(order), dtype=np.int64)
    before = np.empty(len(order), dtype=np.int64)
    after[order] = _last_known(known, lane)
    lane_end = np.ones(len(order), dtype=np.bool_)
    lane_end[:-1] = lane[1:]
    reverse = _last_known(known[::-1], lane_end[::-1])[::-1]
    before[order] = np.where(reverse < 0, np.iinfo(np.int64).max, reverse)
    everywhere = _timetable(kernels, kernels.settled)
    main = kernels.settled & (kernels.stream == _main_stream(kernels.group, kernels.stream))
    return Neighbours(
        after,
        before,
        _free_since(kernels, order, lane),
        everywhere,
        _timetable(kernels, main),
        _waits_for_inputs(kernels, everywhere, reads) if waits is None else waits,
    )


def _free_since(kernels: GraphKernels, order: Ints, lane: Flags) -> Ints:
    new = np.ones(len(kernels.group), dtype=np.bool_)
    new[1:] = np.diff(kernels.group) != 0
    first = np.flatnonzero(new)
    begin = np.minimum.reduceat(kernels.start_ps, first)[np.cumsum(new) - 1]
    previous = np.concatenate(([0], kernels.end_ps[order][:-1]))
    free = np.empty(len(order), dtype=np.int64)
    free[order] = np.where(lane, begin[order], previous)
    return free


def _timetable(kernels: GraphKernels, chosen: Flags) -> Timetable:
    rows = np.flatnonzero(chosen)
    key = (kernels.group[rows].astype(np.int64) << _SHIFT) | kernels.position[rows]
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    if not len(key):
        return Timetable(key, key, key)
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = np.diff(key) != 0
    first = np.flatnonzero(new)
    return Timetable(
        key[first],
        np.minimum.reduceat(kernels.start_ps[rows], first),
        np.maximum.reduceat(kernels.end_ps[rows], first),
    )


def _waits_for_inputs(
    kernels: GraphKernels, table: Timetable, reads: Sequence[Sequence[int]]
) -> bool:
    """Whether settled kernels start after what they read has ended, on whatever stream.

    Only launches on several streams can tell. False where there is nothing to see.
    """
    groups = _spread_groups(kernels)
    groups = groups[:: max(len(groups) // _SAMPLE, 1)]
    seen = broken = 0
    for place, sources in enumerate(reads):
        if not len(groups):
            break
        start = table.start_of(groups, place)
        for source in sources:
            end = table.end_of(groups, source)
            both = (start < FAR_PS) & (end > -FAR_PS)
            seen += int(both.sum())
            broken += int((both & (start < end - _SLACK_PS)).sum())
    return seen > 0 and broken <= _MAX_BROKEN * seen


def _spread_groups(kernels: GraphKernels) -> Ints:
    """Launches that ran on several streams."""
    groups = distinct(distinct(kernels.group, kernels.stream).columns[0])
    return groups.columns[0][groups.counts > 1]


def _last_known(known: Ints, lane: Flags) -> Ints:
    """Last value >= 0 strictly before each item within its lane, or -1."""
    index = np.arange(len(known))
    marks = np.where(known >= 0, index, -1)
    last = np.concatenate(([-1], np.maximum.accumulate(marks)[:-1]))
    start = np.maximum.accumulate(np.where(lane, index, 0))
    return np.where((last >= start) & (last >= 0), known[last], -1)


def _main_stream(group: Ints, stream: Ints) -> Ints:
    """For each kernel, the stream that has most kernels of its launch."""
    pairs = distinct(group, stream)
    best = np.lexsort((-pairs.counts, pairs.columns[0]))
    of_group = distinct(group).code
    main = np.empty(int(of_group.max()) + 1, dtype=np.int64)
    first = np.ones(len(best), dtype=np.bool_)
    first[1:] = np.diff(pairs.columns[0][best]) != 0
    main[:] = pairs.columns[1][best[first]]
    return main[of_group]
