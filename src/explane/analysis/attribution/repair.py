"""Settles graph kernels inside their frames: by name, then by order, stream and duration.

The alignment puts kernels in one order; where graph branches ran side by side or kernels were
lost, that order misleads. Here each launch is taken as a set. A type with one slot is settled; the
kernels of a type with several slots are assigned by `swaps`. Where kernels were lost and
two slots fit about equally, the kernel gets none: a wrong answer is worse than no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.alignment import FORBIDDEN, Scores
from explane.analysis.attribution.evidence import Dependencies, Kernel, evidence
from explane.analysis.attribution.frames import Frames, find_frames
from explane.analysis.attribution.names import KernelClass
from explane.analysis.attribution.neighbours import GraphKernels, Neighbours, neighbours
from explane.analysis.attribution.schedule import LaunchKind, Schedule
from explane.analysis.attribution.scores import STRONG
from explane.analysis.attribution.slots import SlotGroup, slot_groups
from explane.analysis.attribution.swaps import SURE_MARGIN, Assignment, Candidates, assign
from explane.analysis.attribution.windows import Places, ProgramKernels
from explane.analysis.distinct import Ints, distinct, order_by
from explane.capture.model import I64, Bools, Kernels

_FIXED_MARGIN: Final = 6.0
_PASSES: Final = 2
_SAMPLE: Final = 500


class Timing:
    """When a program's kernels ran; aligned with its kernels, and gathered when it is asked for.

    Args:
        kernels: All kernels.
        rows: The program's.
    """

    def __init__(self, kernels: Kernels, rows: Ints):
        self._kernels, self._rows = kernels, rows

    @cached_property
    def start_ps(self) -> I64:
        """Start of each kernel."""
        return self._kernels.start_ps[self._rows]

    @cached_property
    def duration_ps(self) -> I64:
        """Length of each kernel."""
        return self._kernels.duration_ps[self._rows]


@dataclass(frozen=True, slots=True)
class Settled:
    """The result.

    Attributes:
        position: Launch index in the schedule, or -1.
        named: The kernel's name fits only that launch of its frame.
        ambiguous: Left without a place because several fit and kernels were lost.
        frames: The frames.
    """

    position: Ints
    named: Bools
    ambiguous: Bools
    frames: Frames


def settle(
    schedule: Schedule, scores: Scores, kernels: ProgramKernels, places: Places, timing: Timing
) -> Settled:
    """Places graph kernels within the frames of their launches."""
    frames = find_frames(schedule, scores, kernels, places)
    nobody = np.zeros(len(kernels), dtype=np.bool_)
    if not frames.ranges:
        return Settled(places.position, nobody, nobody, frames)
    n_streams = _streams_of_groups(kernels.group, kernels.stream)
    if frames.dense and (n_streams[frames.of_kernel >= 0] == 1).all():
        # Nothing ran side by side and nothing is missing: order says it all.
        named = _only_candidates(scores, kernels, places, frames)
        return Settled(places.position, named, nobody, frames)
    repair = _Repair(schedule, kernels, places, timing, frames)
    groups = list(slot_groups(scores, kernels, places, frames))
    tails = [g for g in groups if _is_tail(kernels, g) and repair.is_serial_loss(g)]
    repair.settle_all([g for g in groups if g not in tails])
    if tails:
        behind = replace(places, position=repair.behind_mains(scores))
        repair.initial = behind.position
        again = slot_groups(scores, kernels, behind, frames)
        repair.settle_all([g for g in again if _is_tail(kernels, g) and repair.is_serial_loss(g)])
    return Settled(repair.position, repair.named, repair.ambiguous, frames)


def _is_tail(kernels: ProgramKernels, group: SlotGroup) -> bool:
    return bool(kernels.family[group.rows[0]] == KernelClass.GEMM_TAIL)


def _only_candidates(
    scores: Scores, kernels: ProgramKernels, places: Places, frames: Frames
) -> Bools:
    """Kernels whose name fits one place of their frame, and who have it to themselves."""
    found = distinct(frames.of_kernel, kernels.types)
    single = np.zeros(len(found), dtype=np.bool_)
    for i, (frame, kind) in enumerate(found.rows()):
        if frame >= 0:
            fitting = scores.first[kind, slice(*frames.ranges[frame])]
            single[i] = np.count_nonzero(fitting >= STRONG) == 1
    in_launch = distinct(kernels.group, kernels.types)
    alone = (in_launch.counts == 1)[in_launch.code]
    return np.asarray(single[found.code] & alone & (places.position >= 0))


class _Repair:
    def __init__(
        self,
        schedule: Schedule,
        kernels: ProgramKernels,
        places: Places,
        timing: Timing,
        frames: Frames,
    ) -> None:
        self.schedule = schedule
        self.kernels = kernels
        self.timing = timing
        self.frames = frames
        self.position = places.position.copy()
        n = len(kernels)
        self.named = np.zeros(n, dtype=np.bool_)
        self.ambiguous = np.zeros(n, dtype=np.bool_)
        self.fixed = np.zeros(n, dtype=np.bool_)
        self.around: Neighbours | None = None
        self.log_duration = np.zeros(n)
        self.identity = _identities(kernels)
        self.needs = _dependencies(schedule)
        self.initial = places.position
        self.n_streams = _streams_of_groups(kernels.group, kernels.stream)

    def settle_all(self, groups: Sequence[SlotGroup]) -> None:
        """Groups with one slot first, since they tell about the others."""
        several = [group for group in groups if len(np.unique(group.slots)) > 1]
        for group in groups:
            if len(np.unique(group.slots)) == 1:
                self.settle_single(group)
        for _ in range(_PASSES if several else 0):
            self.look_around()
            for group in several:
                self.settle_several(group)

    def is_serial_loss(self, group: SlotGroup) -> bool:
        """Kernels were lost, and nothing of the group's launches ran side by side."""
        return not self.frames.dense and bool((self.n_streams[group.rows] == 1).all())

    def behind_mains(self, scores: Scores) -> Ints:
        """Places where a GEMM's last kernels go with the kernel that ran right before them.

        The alignment can't tell whose they are where main kernels were lost.
        """
        position = self.position.copy()
        rows = np.flatnonzero(self.kernels.family == KernelClass.GEMM_TAIL)
        before = np.maximum(rows - 1, 0)
        same = (rows > 0) & (self.kernels.group[before] == self.kernels.group[rows])
        place = np.where(same, self.position[before], -1)
        fits = scores.follow[self.kernels.types[rows], np.maximum(place, 0)] > FORBIDDEN
        position[rows] = np.where((place >= 0) & fits, place, -1)
        return position

    def settle_single(self, group: SlotGroup) -> None:
        """One slot: the kernel is that instruction's, wherever it ran."""
        place = int(group.slots[0])
        nth = _nth_in_group(self.kernels.group[group.rows])
        room = max(len(group.slots), self.schedule.launches[place].max_kernels)
        taken = nth < room
        self.position[group.rows] = np.where(taken, place, -1)
        single = taken & (nth == 0) & taken.all()
        self.fixed[group.rows] = single
        self.named[group.rows] = single & group.named

    def look_around(self) -> None:
        """Takes in what the settled kernels say about time, order and speed."""
        self.around = neighbours(
            GraphKernels(
                self.kernels.group,
                self.kernels.stream,
                self.timing.start_ps,
                self.timing.start_ps + self.timing.duration_ps,
                self.position,
                self.fixed,
            ),
            self.needs.reads,
            self.around.waits if self.around is not None else None,
        )
        self.log_duration = self._device_free_durations()

    def _device_free_durations(self) -> npt.NDArray[np.float64]:
        """Log durations with each device's factor (median over settled places) taken out."""
        value = np.log(np.maximum(self.timing.duration_ps, 1))
        device = self.kernels.device
        rows = np.flatnonzero(self.fixed)
        if not len(rows) or len(np.unique(device)) == 1:
            return value
        n_places = len(self.schedule)
        usual = _medians(self.position[rows], value[rows], n_places)
        offset = _medians(device[rows], value[rows] - usual[self.position[rows]], device.max() + 1)
        return np.asarray(value - offset[device])

    def settle_several(self, group: SlotGroup) -> None:
        """Several slots: assigned together over all launches of the frame."""
        launch, column, counts = _table(self.kernels.group[group.rows])
        fits = counts <= len(group.slots)
        keep = fits[launch]
        if not keep.any():
            return
        renumber = np.cumsum(fits) - 1
        rows, launch, column = group.rows[keep], renumber[launch[keep]], column[keep]
        index = np.full((int(fits.sum()), len(group.slots)), -1, dtype=np.int64)
        index[launch, column] = rows
        complete = counts[fits] == self._inside(index, group.slots).sum(axis=1)
        certain = (self.n_streams[index[:, 0]] == 1) & (self.frames.dense | complete)
        initial = self._initial(index, group.slots, complete)
        if certain.all():
            return
        result = assign(self._candidates(index, group), initial, complete, certain)
        self._write(index[~certain], group, result.of(~certain), complete[~certain])

    def _inside(self, index: Ints, slots: Ints) -> Bools:
        """(U, g): slots within the span of each launch."""
        first, end = (span[index[:, 0], None] for span in self.frames.span)
        return np.asarray((slots[None, :] >= first) & (slots[None, :] < end))

    def _initial(self, index: Ints, slots: Ints, complete: Bools) -> Ints:
        """Kernel per slot as the alignment had it; by order where that is no assignment."""
        n_launches, g = index.shape
        present = index >= 0
        held = np.full((n_launches, g), -1, dtype=np.int64)
        position = np.where(present, self.initial[index], -2)
        for column in range(g):
            wanted = (slots[None, :] == position[:, column, None]) & (held < 0)
            rows = np.flatnonzero(wanted.any(axis=1) & present[:, column])
            held[rows, wanted[rows].argmax(axis=1)] = column
        lacking = complete & (present.sum(axis=1) == g) | (
            (held >= 0).sum(axis=1) < present.sum(axis=1)
        )
        by_order = np.where(present, np.arange(g), -1)
        held[lacking] = by_order[lacking]
        return held

    def _candidates(self, index: Ints, group: SlotGroup) -> Candidates:
        assert self.around is not None
        rows = np.maximum(index, 0)
        kinds = {self.schedule.launches[p].kind for p in group.slots}
        scale_ps = max(float(np.median(self.timing.duration_ps[group.rows])), 1.0)
        start = self.timing.start_ps[rows]
        kernel = Kernel(
            rows,
            self.kernels.group[index[:, 0]],
            start,
            start + self.timing.duration_ps[rows],
            self.frames.span[0][rows],
            self.frames.span[1][rows],
        )
        return Candidates(
            present=index >= 0,
            start_ps=start,
            stream=self.kernels.stream[rows],
            log_duration=self.log_duration[rows],
            types=np.where(index >= 0, self.identity[rows], -1),
            evidence=evidence(kernel, group.slots, self.around, self.needs, scale_ps),
            timed=LaunchKind.COLLECTIVE not in kinds,
            scale_ps=scale_ps,
        )

    def _write(self, index: Ints, group: SlotGroup, result: Assignment, complete: Bools) -> None:
        filled = result.kernel >= 0
        launch, slot = np.nonzero(filled)
        rows = index[launch, result.kernel[launch, slot]]
        margin = result.margin[launch, slot]
        doubtful = ~complete[launch] & (margin < SURE_MARGIN)
        self.position[rows] = np.where(doubtful, -1, group.slots[slot])
        self.ambiguous[rows] = doubtful
        self.fixed[rows] = margin >= _FIXED_MARGIN


def _identities(kernels: ProgramKernels) -> Ints:
    """What is the same at every launch of a graph: the node where it is known, else the type."""
    other = np.where(kernels.node >= 0, kernels.device, kernels.types)
    return distinct(kernels.node, other).code


def _dependencies(schedule: Schedule) -> Dependencies:
    read_by: list[list[int]] = [[] for _ in schedule.launches]
    for place, sources in enumerate(schedule.after):
        for source in sources:
            read_by[source].append(place)
    return Dependencies(schedule.after, read_by)


def _streams_of_groups(group: Ints, stream: Ints) -> Ints:
    """For each kernel, on how many streams its launch ran."""
    number = _table(group)[0]
    return np.bincount(distinct(number, stream).columns[0])[number]


def _nth_in_group(group: Ints) -> Ints:
    """Running number of each kernel in its launch; equal launches are adjacent."""
    return _table(group)[1]


def _table(group: Ints) -> tuple[Ints, Ints, Ints]:
    """Launch number, column and kernels per launch of adjacent groups."""
    new = np.ones(len(group), dtype=np.bool_)
    new[1:] = np.diff(group) != 0
    launch = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(group)))
    return launch, np.arange(len(group)) - first[launch], counts


def _medians(keys: Ints, values: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.float64]:
    """Median of the values of each key in range(n); 0 where there is none."""
    result = np.zeros(int(n))
    order = order_by(keys)
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    for part in np.split(order, cuts):
        result[keys[part[0]]] = np.median(values[part[:: max(len(part) // _SAMPLE, 1)]])
    return result
