"""Which program each kernel belongs to, where its own stats do not say.

In this order: the kernel's own `program_id`; the label on its launch call (rocprofiler-sdk); the
module name, if one stored program has it; its siblings in the same launch; the program whose
kernel names a graph launch shows; the host's `<module>:XLA GPU module` event around the call; the
programs before and after it; and what is left is aligned with all programs at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.alignment import FORBIDDEN
from explane.analysis.attribution.host import HostRuns, host_runs
from explane.analysis.attribution.launches import LaunchGroups
from explane.analysis.attribution.mixture import place_in_programs
from explane.analysis.attribution.names import KernelClass, base_name, class_of_kernel
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import STRONG, KernelType, score_types
from explane.analysis.distinct import Ints, distinct
from explane.capture.model import I32, I64, Bools, Capture

_MIN_EXPLAINED: Final = 0.8


@dataclass(frozen=True, slots=True)
class Owners:
    """Programs of kernels.

    Attributes:
        program: Program id of each kernel, or -1.
        inferred: True where the kernel's own stats do not name it.
        loose: True where the kernel was only offered to the program around it: a direct launch
            without any label, kept only if the schedule has a place for it there.
    """

    program: I64
    inferred: Bools
    loose: Bools


def find_owners(
    capture: Capture, groups: LaunchGroups, schedules: Mapping[int, Schedule], fixed: I32
) -> Owners:
    """Finds the program of every kernel that has one.

    Args:
        capture: The capture.
        groups: Its kernels by launch.
        schedules: Schedules of its stored programs.
        fixed: Per kernel, place in its program's schedule where the label gives it, or -1.
    """
    finder = _Finder(capture, groups, schedules, fixed)
    loose = np.zeros(len(finder.program), dtype=np.bool_)
    if (finder.program < 0).any():
        finder.read()
        finder.siblings()
        if (finder.program < 0).any() and finder.ids:
            finder.by_names()
            finder.by_alignment()
        loose = finder.offer_loose()
    own = capture.kernels.program_id
    return Owners(finder.program, (finder.program >= 0) & (own != finder.program), loose)


class _Finder:
    def __init__(
        self, capture: Capture, groups: LaunchGroups, schedules: Mapping[int, Schedule], fixed: I32
    ) -> None:
        self.capture = capture
        self.groups = groups
        self.schedules = schedules
        self.fixed = fixed
        self.ids = tuple(p for p in sorted(schedules) if len(schedules[p]))
        self.program = capture.kernels.program_id.astype(np.int64).copy()

    def read(self) -> None:
        """What the file says: launch labels and module names."""
        launch = self.groups.launch[self.groups.group]
        known = (self.program < 0) & (launch >= 0)
        self.program[known] = self.capture.launches.program_id[launch[known]]
        missing = (self.program < 0) & (self.capture.kernels.hlo_module >= 0)
        for code in np.unique(self.capture.kernels.hlo_module[missing]).tolist():
            ids = self._ids_named(self.capture.text(code))
            if len(ids) == 1:
                self.program[missing & (self.capture.kernels.hlo_module == code)] = ids[0]

    def _ids_named(self, module: str) -> list[int]:
        return [p for p in sorted(self.schedules) if self.schedules[p].module == module]

    def siblings(self) -> None:
        """A launch whose known kernels agree gives the others their program."""
        low, high = self._range_by_group()
        agreed = (low == high)[self.groups.group] & (self.program < 0)
        self.program[agreed] = high[self.groups.group[agreed]]

    def _range_by_group(self) -> tuple[Ints, Ints]:
        n = len(self.groups.size)
        high = np.full(n, -1, dtype=np.int64)
        np.maximum.at(high, self.groups.group, self.program)
        low = np.full(n, np.iinfo(np.int64).max)
        known = self.program >= 0
        np.minimum.at(low, self.groups.group[known], self.program[known])
        return np.where(high < 0, -1, low), high

    def by_names(self) -> None:
        """Graph launches whose names fit one program, or one of the few that fit by context."""
        fits = self._fitting_programs()
        _, high = self._range_by_group()
        undecided = (high < 0) & self.groups.is_graph
        runs = host_runs(self.capture)
        fits = self._narrow(fits, undecided, runs)
        single = undecided & (fits.sum(axis=1) == 1)
        self._give(np.flatnonzero(single), np.array(self.ids)[fits[single].argmax(axis=1)])
        self._between(undecided & ~single, fits)

    def _fitting_programs(self) -> Bools:
        """(groups, programs): one run of the program can have launched the whole group.

        It knows nearly all XLA names of the launch, has room for each as often as it occurs, and
        can launch every other kernel of it.
        """
        kernels = self.capture.kernels
        found = distinct(kernels.name, kernels.kind)
        types = [_type(self.capture.text(n), kind) for n, kind in found.rows()]
        is_xla = np.array([t.family is KernelClass.XLA for t in types])
        pairs = distinct(self.groups.group, found.code)
        group, kind, counts = *pairs.columns, pairs.counts
        n = len(self.groups.size)
        fits = np.zeros((n, len(self.ids)), dtype=np.bool_)
        for i, program_id in enumerate(self.ids):
            scores = score_types(self.schedules[program_id], types)
            room = (scores.first >= STRONG).sum(axis=1)
            best = np.maximum(np.maximum(scores.first, scores.before), scores.follow)
            named = is_xla | (room > 0)
            able = named | (best.max(axis=1, initial=FORBIDDEN) > FORBIDDEN)
            total = np.bincount(group, counts * named[kind], n)
            unable = np.bincount(group, counts * ~able[kind], n)
            known = np.bincount(group, np.minimum(room[kind], counts), n)
            fits[:, i] = (known > 0) & (known >= _MIN_EXPLAINED * total) & (unable == 0)
        return fits

    def _narrow(self, fits: Bools, undecided: Bools, runs: HostRuns) -> Bools:
        """Keeps programs of the module that the host was running at the launch call."""
        rows = np.flatnonzero(undecided & (self.groups.launch >= 0) & (fits.sum(axis=1) > 1))
        modules = runs.module_at(self.capture, self.groups.launch[rows])
        for module in np.unique(modules[modules >= 0]).tolist():
            name = self.capture.text(module).removesuffix(":XLA GPU module")
            same = np.array([self.schedules[p].module == name for p in self.ids])
            mine = rows[modules == module]
            kept = fits[mine] & same
            useful = kept.any(axis=1)
            fits[mine[useful]] = kept[useful]
        return fits

    def _between(self, undecided: Bools, fits: Bools) -> None:
        """A launch between two kernels of one fitting program belongs to it."""
        before, after = self._neighbours()
        first = self._first_kernel()
        for i, program_id in enumerate(self.ids):
            inside = (before[first] == program_id) & (after[first] == program_id)
            rows = np.flatnonzero(undecided & fits[:, i] & inside)
            self._give(rows, np.full(len(rows), program_id))

    def _first_kernel(self) -> Ints:
        order = self.groups.order
        group = self.groups.group[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = np.diff(group) != 0
        return order[new]

    def _give(self, groups: Ints, programs: Ints) -> None:
        to = np.full(len(self.groups.size), -1, dtype=np.int64)
        to[groups] = programs
        wanted = (self.program < 0) & (to[self.groups.group] >= 0)
        self.program[wanted] = to[self.groups.group[wanted]]

    def _neighbours(self) -> tuple[Ints, Ints]:
        """For each kernel, the program known last before it and first after it on its device."""
        order = self.groups.order
        device = self.capture.kernels.device[order]
        known = self.program[order]
        before = np.empty(len(order), dtype=np.int64)
        after = np.empty(len(order), dtype=np.int64)
        before[order] = _last_known(known, device)
        after[order] = _last_known(known[::-1], device[::-1])[::-1]
        return before, after

    def by_alignment(self) -> None:
        """Aligns what is left with all programs at once."""
        kernels = self.capture.kernels
        names = np.unique(kernels.name)
        known = [
            n
            for n in names.tolist()
            if any(
                base_name(self.capture.text(n)) in self.schedules[p].by_kernel_name
                for p in self.ids
            )
        ]
        named = np.isin(kernels.name, known)
        open_ = (self.program < 0) & (named | self.groups.is_graph[self.groups.group])
        if open_.any():
            self.program = place_in_programs(
                self.capture, self.groups, self.schedules, self.fixed, self.program, open_
            )

    def offer_loose(self) -> Bools:
        """Offers direct launches without a label to the program that runs around them.

        Only on a stream that the program is known to use: copies of the framework run on others.
        """
        kernels = self.capture.kernels
        before, after = self._neighbours()
        loose = np.asarray((self.program < 0) & (before >= 0) & (before == after))
        rows = np.flatnonzero(loose)
        if not len(rows):
            return loose
        lanes = distinct(kernels.device, kernels.stream, self.program)
        pairs = {lane for lane in lanes.rows() if lane[2] >= 0}
        used = [
            (d, s, p) in pairs
            for d, s, p in zip(
                kernels.device[rows].tolist(),
                kernels.stream[rows].tolist(),
                before[rows].tolist(),
                strict=True,
            )
        ]
        kept = np.zeros(len(loose), dtype=np.bool_)
        kept[rows[np.array(used, dtype=np.bool_)]] = True
        self.program[kept] = before[kept]
        return kept


def _type(name: str, kind: int) -> KernelType:
    return KernelType(name, class_of_kernel(name, kind))


def _last_known(known: Ints, device: npt.NDArray[np.int32]) -> Ints:
    """Last value >= 0 at or before each item on its device, or -1."""
    index = np.arange(len(known))
    last = np.maximum.accumulate(np.where(known >= 0, index, -1))
    safe = np.maximum(last, 0)
    return np.where((last >= 0) & (device[safe] == device), known[safe], -1)
