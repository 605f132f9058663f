"""What the settled kernels of a graph launch say about the others' place in order and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_SHIFT: Final = 32
_FAR_PS: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Settled kernels around others.

    Attributes:
        after: For each kernel, the place of the last settled kernel before it on its stream in
            its launch, or -1.
        before: The place of the first settled kernel after it there, or a large number.
        key, start_ps: Settled kernels of each launch's main stream: (launch, place) packed into
            one ascending key, and when they start.
    """

    after: Ints
    before: Ints
    key: Ints
    start_ps: Ints

    def times_of(self, groups: Ints, slots: Ints) -> tuple[Ints, Ints]:
        """(U, g) times between which a kernel of each slot would start in each launch.

        The start of the settled main-stream kernels next to the slot; open ends are far away.
        """
        wanted = (groups[:, None] << _SHIFT) | slots[None, :]
        if not len(self.key):
            return np.full_like(wanted, -_FAR_PS), np.full_like(wanted, _FAR_PS)
        left = np.searchsorted(self.key, wanted, side="left") - 1
        right = np.searchsorted(self.key, wanted, side="right")
        return self._at(left, groups, -_FAR_PS), self._at(right, groups, _FAR_PS)

    def _at(self, index: Ints, groups: Ints, otherwise: int) -> Ints:
        inside = (index >= 0) & (index < len(self.key))
        safe = np.clip(index, 0, len(self.key) - 1)
        same = inside & ((self.key[safe] >> _SHIFT) == groups[:, None])
        return np.where(same, self.start_ps[safe], otherwise)


def neighbours(
    group: Ints, stream: Ints, start_ps: Ints, position: Ints, settled: npt.NDArray[np.bool_]
) -> Neighbours:
    """Neighbours of every kernel of a program.

    Args:
        group: Launch of each kernel.
        stream: Where it ran.
        start_ps: When it began.
        position: Place, meaningful where settled.
        settled: Whether the place is beyond doubt.
    """
    order = np.lexsort((start_ps, stream, group))
    lane = np.ones(len(order), dtype=np.bool_)
    lane[1:] = (np.diff(group[order]) != 0) | (np.diff(stream[order]) != 0)
    known = np.where(settled[order], position[order], -1)
    after = np.empty(len(order), dtype=np.int64)
    before = np.empty(len(order), dtype=np.int64)
    after[order] = _last_known(known, lane)
    lane_end = np.ones(len(order), dtype=np.bool_)
    lane_end[:-1] = lane[1:]
    reverse = _last_known(known[::-1], lane_end[::-1])[::-1]
    before[order] = np.where(reverse < 0, np.iinfo(np.int64).max, reverse)
    main = settled & (stream == _main_stream(group, stream))
    rows = np.flatnonzero(main)
    rows = rows[np.lexsort((position[rows], group[rows]))]
    return Neighbours(after, before, (group[rows] << _SHIFT) | position[rows], start_ps[rows])


def _last_known(known: Ints, lane: npt.NDArray[np.bool_]) -> Ints:
    """Last value >= 0 strictly before each item within its lane, or -1."""
    index = np.arange(len(known))
    marks = np.where(known >= 0, index, -1)
    last = np.concatenate(([-1], np.maximum.accumulate(marks)[:-1]))
    start = np.maximum.accumulate(np.where(lane, index, 0))
    return np.where((last >= start) & (last >= 0), known[last], -1)


def _main_stream(group: Ints, stream: Ints) -> Ints:
    """For each kernel, the stream that has most kernels of its launch."""
    pairs, counts = np.unique(np.stack([group, stream]), axis=1, return_counts=True)
    best = np.lexsort((-counts, pairs[0]))
    groups, first = np.unique(pairs[0][best], return_index=True)
    return np.asarray(pairs[1][best][first][np.searchsorted(groups, group)])
