"""The slots of a frame: which places take which kernels, learned from all its graph launches.

Every launch of a graph runs the same kernels, so what most launches gave to a place it takes in
all. Kernels that XLA named share slots with kernels of their own name; library kernels, copies and
fills share them with their family, since what tells two of them apart (shape, size, duration) is
itself learned. A group with one slot is settled; others are left to `swaps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from explane.analysis.attribution.alignment import Scores
from explane.analysis.attribution.frames import Frames
from explane.analysis.attribution.names import KernelClass
from explane.analysis.attribution.scores import FITTING, STRONG
from explane.analysis.attribution.windows import Places, ProgramKernels
from explane.analysis.distinct import Ints, distinct, order_by

_ENOUGH: Final = 2.0
_SELDOM: Final = 0.2
_RARE: Final = 6
"""A slot counts when at least one launch in so many filled it; fewer are misplaced kernels."""
_HELPERS: Final = (-1 - KernelClass.GEMM_TAIL, -1 - KernelClass.CONVOLUTION_HEAD)
"""Keys of kernels that come with a main kernel, so they don't own its place."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotGroup:
    """Kernels of one name or family in the launches of one frame, and the places they may have.

    Attributes:
        frame: Index of the frame.
        slots: Places, ascending; a place stands as often as it takes kernels of the group.
        rows: Kernels (index into the program's kernels), by launch and start.
        named: The kernels' own name supports the places.
    """

    frame: int
    slots: Ints
    rows: Ints
    named: bool


def slot_groups(
    scores: Scores, kernels: ProgramKernels, places: Places, frames: Frames
) -> Iterator[SlotGroup]:
    """Every group of kernels that share slots."""
    rows = np.flatnonzero(frames.of_kernel >= 0)
    if not len(rows):
        return
    key = _keys(scores, kernels)
    order = rows[order_by(frames.of_kernel[rows], key[rows])]
    cuts = np.flatnonzero((np.diff(frames.of_kernel[order]) != 0) | (np.diff(key[order]) != 0)) + 1
    taken = _Taken(kernels, places, frames, rows, key)
    for part in np.split(order, cuts):
        f, k = int(frames.of_kernel[part[0]]), int(key[part[0]])
        fitting = scores.first[kernels.types[part[0]], slice(*frames.ranges[f])]
        named = np.flatnonzero(fitting >= STRONG) + frames.ranges[f][0]
        if len(named):
            slots = named[[taken.owner.get((f, p), k) == k for p in named.tolist()]]
            yield SlotGroup(f, slots if len(slots) else named, part, True)
        else:
            n_usual = int(distinct(kernels.group[part]).counts.max())
            likely = np.flatnonzero(fitting >= FITTING) + frames.ranges[f][0]
            slots = taken.slots_of(f, k, n_usual, None if frames.dense else likely)
            yield SlotGroup(f, slots, part, False)


def _keys(scores: Scores, kernels: ProgramKernels) -> Ints:
    """What kernels share slots by: their type where a name supports it, else their family."""
    named = scores.first.max(axis=1) >= STRONG
    return np.where(named[kernels.types], kernels.types, -1 - kernels.family)


class _Taken:
    """Which places most launches gave to which kernels."""

    def __init__(
        self, kernels: ProgramKernels, places: Places, frames: Frames, rows: Ints, key: Ints
    ) -> None:
        placed = rows[places.position[rows] >= 0]
        frame, position = frames.of_kernel[placed], places.position[placed]
        first, end = np.array([*frames.ranges]).T
        inside = (position >= first[frame]) & (position < end[frame])
        placed, frame, position = placed[inside], frame[inside], position[inside]
        nth = _running_number(kernels.group[placed], position, key[placed])
        launches = distinct(frame, kernels.group[placed]).columns[0]
        self.n_launches = np.bincount(launches, minlength=len(frames.ranges))
        table = distinct(frame, key[placed], position, nth)
        self.slot = table.code
        self.launch = kernels.group[placed]
        self.votes: dict[tuple[int, int], list[_Vote]] = {}
        self.owner: dict[tuple[int, int], int] = {}
        best: dict[tuple[int, int], int] = {}
        counted = zip(table.rows(), table.counts.tolist(), strict=True)
        for code, ((f, k, p, n), count) in enumerate(counted):
            self.votes.setdefault((f, k), []).append(_Vote(count, p, code))
            if n == 0 and k not in _HELPERS and count > best.get((f, p), 0):
                best[f, p], self.owner[f, p] = count, k

    def slots_of(self, frame: int, key: int, n_usual: int, likely: Ints | None) -> Ints:
        """Places of a family: the most voted, and likely ones that nothing else took.

        Args:
            frame: Index of the frame.
            key: The family's key.
            n_usual: Most kernels of the family in one launch.
            likely: Places that run just such kernels, where the votes may have missed some; None
                where no kernels were lost.
        """
        votes = sorted(self.votes.get((frame, key), ()), key=lambda v: (-v.n_launches, v.place))
        if likely is None:
            return np.sort(np.array([v.place for v in votes[:n_usual]], dtype=np.int64))
        least = self.n_launches[frame] / _RARE
        votes = [v for i, v in enumerate(votes) if v.n_launches >= least or i < n_usual]
        kept = [v.place for v in self._real(votes, int(self.n_launches[frame]))]
        own = {p for p in likely.tolist() if self.owner.get((frame, p), key) == key}
        return np.sort(np.array(kept + sorted(own - set(kept)), dtype=np.int64))

    def _real(self, votes: Sequence[_Vote], n_launches: int) -> list[_Vote]:
        """Leaves out slots that are hardly ever filled together with a more voted one.

        Lost kernels leave the others to the slot next to theirs; two real slots are filled
        together as often as chance has it.
        """
        launches = [np.unique(self.launch[self.slot == v.slot]) for v in votes]
        kept: list[int] = []
        for i, vote in enumerate(votes):
            for j in kept:
                expected = vote.n_launches * votes[j].n_launches / max(n_launches, 1)
                together = len(np.intersect1d(launches[i], launches[j], assume_unique=True))
                if expected >= _ENOUGH and together < _SELDOM * expected:
                    break
            else:
                kept.append(i)
        return [votes[i] for i in kept]


class _Vote(NamedTuple):
    """How many launches filled a slot: its place, and its number among all slots."""

    n_launches: int
    place: int
    slot: int


def _running_number(group: Ints, position: Ints, key: Ints) -> Ints:
    """How many kernels of the same launch, place and key come before each."""
    same = distinct(group, position, key).code
    order = order_by(same)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.diff(same[order]) != 0
    index = np.arange(len(order))
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = index - np.maximum.accumulate(np.where(new, index, 0))
    return nth
