"""The slots of a frame: which kernel types its launches take, learned from all graph launches.

Every launch of a graph runs the same kernels, so a place that took a kernel of some type in most
launches takes that type in all. Types with one slot in a frame are settled by that alone. The
slots of a type with several are left to `attribute_swaps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.alignment import Scores
from explane.analysis.attribute_frames import Frames
from explane.analysis.attribute_scores import FITTING, STRONG
from explane.analysis.attribute_windows import Places, ProgramKernels

Ints = npt.NDArray[np.int64]

_RARE: Final = 6
"""A slot counts when at least one launch in so many filled it; fewer are misplaced kernels."""


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """Kernels of one type in the launches of one frame, and the places they may have.

    Attributes:
        frame: Index of the frame.
        kernel_type: The type.
        slots: Places, ascending; a place stands as often as it takes kernels of the type.
        rows: Kernels (index into the program's kernels), by launch and start.
        named: The type's own name supports the places.
    """

    frame: int
    kernel_type: int
    slots: Ints
    rows: Ints
    named: bool


def slot_groups(
    scores: Scores, kernels: ProgramKernels, places: Places, frames: Frames
) -> Iterator[SlotGroup]:
    """Every (frame, type) that occurs, with its slots."""
    rows = np.flatnonzero(frames.of_kernel >= 0)
    if not len(rows):
        return
    order = rows[np.lexsort((rows, kernels.types[rows], frames.of_kernel[rows]))]
    frame, kernel_type = frames.of_kernel[order], kernels.types[order]
    cuts = np.flatnonzero((np.diff(frame) != 0) | (np.diff(kernel_type) != 0)) + 1
    owners = _owners(kernels, places, frames, rows)
    for part in np.split(order, cuts):
        f, t = int(frames.of_kernel[part[0]]), int(kernels.types[part[0]])
        first, end = frames.ranges[f]
        fitting = scores.first[t, first:end]
        named = np.flatnonzero(fitting >= STRONG) + first
        if len(named) > 1:
            named = named[[owners.owner.get((f, p), t) == t for p in named.tolist()]]
        slots = named
        if not len(named):
            free = np.flatnonzero(fitting >= FITTING) + first
            free = free[[(f, p) not in owners.owner for p in free.tolist()]]
            slots = np.sort(np.concatenate((owners.slots.get((f, t), free[:0]), free)))
        yield SlotGroup(f, t, slots, part, bool(len(named)))


@dataclass(frozen=True, slots=True)
class _Owners:
    """Which type took which place in most launches.

    Attributes:
        slots: Places by (frame, type).
        owner: Type of the first kernel by (frame, place).
    """

    slots: dict[tuple[int, int], Ints]
    owner: dict[tuple[int, int], int]


def _owners(kernels: ProgramKernels, places: Places, frames: Frames, rows: Ints) -> _Owners:
    """Places that most launches gave to each type.

    A place that takes several kernels has one slot for each (its n-th kernel).
    """
    placed = rows[places.position[rows] >= 0]
    nth = _nth_of_place(kernels, places, placed)
    columns = np.stack(
        [frames.of_kernel[placed], places.position[placed], nth, kernels.types[placed]]
    )
    distinct, counts = np.unique(columns, axis=1, return_counts=True)
    best = np.lexsort((-counts, distinct[2], distinct[1], distinct[0]))
    slot = distinct[:3, best]
    top = np.ones(len(best), dtype=np.bool_)
    top[1:] = (np.diff(slot, axis=1) != 0).any(axis=0)
    launches = np.unique(np.stack([frames.of_kernel[placed], kernels.group[placed]]), axis=1)
    n_launches = np.bincount(launches[0], minlength=len(frames.ranges))
    found: dict[tuple[int, int], list[int]] = {}
    owner: dict[tuple[int, int], int] = {}
    for i in best[top]:
        f, p, n, t = distinct[:, i].tolist()
        first, end = frames.ranges[f]
        if first <= p < end and _RARE * counts[i] >= n_launches[f]:
            found.setdefault((f, t), []).append(p)
            if n == 0:
                owner[f, p] = t
    slots = {key: np.sort(np.array(value, dtype=np.int64)) for key, value in found.items()}
    return _Owners(slots, owner)


def _nth_of_place(kernels: ProgramKernels, places: Places, placed: Ints) -> Ints:
    """How many kernels of the same launch and place come before each."""
    key = np.lexsort((placed, places.position[placed], kernels.group[placed]))
    group, position = kernels.group[placed][key], places.position[placed][key]
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = (np.diff(group) != 0) | (np.diff(position) != 0)
    index = np.arange(len(key))
    nth = np.empty(len(key), dtype=np.int64)
    nth[key] = index - np.maximum.accumulate(np.where(new, index, 0))
    return nth
