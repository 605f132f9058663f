"""Aligns kernels of unknown program with all programs at once, to learn whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from explane.analysis.attribution.alignment import Sequence_, align
from explane.analysis.attribution.host import host_runs
from explane.analysis.attribution.launches import LaunchGroups
from explane.analysis.attribution.names import class_of_kernel
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import KernelType
from explane.analysis.attribution.union import Union, join_programs, union_scores
from explane.analysis.distinct import Ints
from explane.capture.model import I32, I64, Bools, Capture

_MAX_WINDOW: Final = 2000


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows without a program between two kernels that have one."""

    rows: Ints
    before: int
    after: int


def place_in_programs(
    capture: Capture,
    groups: LaunchGroups,
    schedules: Mapping[int, Schedule],
    fixed: I32,
    program: I64,
    wanted: Bools,
) -> I64:
    """Programs of the wanted kernels by alignment; others keep theirs.

    Args:
        capture: The capture.
        groups: Its kernels by launch.
        schedules: All programs.
        fixed: Per kernel, place in its program's schedule where the label gives it, or -1.
        program: Per kernel, its program or -1.
        wanted: Kernels to place.
    """
    union = join_programs(schedules, _known_pairs(capture, groups, schedules, fixed, program))
    kinds = _Kinds(capture, fixed, program, wanted)
    scores = union_scores(union, schedules, kinds.seen_by)
    windows = _windows(capture, groups, program, wanted)
    keys: dict[tuple[object, ...], list[_Window]] = {}
    todo: list[Sequence_] = []
    for window in windows:
        begin = _states(union, schedules, program, fixed, window.before, 1)
        end = _states(union, schedules, program, fixed, window.after, 0)
        starts = _starts(groups, window.rows)
        key = (begin, end, kinds.of_row[window.rows].tobytes(), starts.tobytes())
        if key not in keys:
            todo.append(Sequence_(kinds.of_row[window.rows], starts, begin, end))
        keys.setdefault(key, []).append(window)
    result = program.copy()
    for same, aligned in zip(keys.values(), align(union.track, scores, todo), strict=True):
        owner = union.owner[np.maximum(aligned.position, 0)]
        ids = np.where(aligned.position >= 0, np.array(union.programs)[owner], -1)
        for window in same:
            result[window.rows] = _fill(ids, groups.group[window.rows])
    return result


def _fill(ids: Ints, group: Ints) -> Ints:
    """Kernels left out inside a launch go with the kernel before (or after) them in it."""
    index = np.arange(len(ids))
    for step in (1, -1):
        i, g = ids[::step], group[::step]
        last = np.maximum.accumulate(np.where(i >= 0, index, -1))
        safe = np.maximum(last, 0)
        filled = np.where((i < 0) & (last >= 0) & (g[safe] == g), i[safe], i)
        ids = filled[::step]
    return ids


def _known_pairs(
    capture: Capture,
    groups: LaunchGroups,
    schedules: Mapping[int, Schedule],
    fixed: I32,
    program: I64,
) -> set[tuple[int, int]]:
    """Programs seen to follow one another: from labelled kernels, else from the host's record."""
    rows = groups.order
    a, b = rows[:-1], rows[1:]
    same = capture.kernels.device[a] == capture.kernels.device[b]
    known = same & (program[a] >= 0) & (program[b] >= 0) & (program[a] != program[b])
    pairs = np.unique(np.stack([program[a[known]], program[b[known]]]), axis=1).T.tolist()
    found = {(int(x), int(y)) for x, y in pairs}
    named = host_runs(capture).pairs(capture.strings)
    by_name: dict[str, list[int]] = {}
    for program_id in sorted(schedules):
        by_name.setdefault(schedules[program_id].module, []).append(program_id)
    starts = {x for x, _ in found}
    for first, second in sorted(named):
        for x in by_name.get(first, ()):
            if x not in starts:
                found |= {(x, y) for y in by_name.get(second, ())}
    return found


class _Kinds:
    """Types of the wanted kernels by name and launch shape, as each program sees them."""

    def __init__(self, capture: Capture, fixed: I32, program: I64, wanted: Bools) -> None:
        kernels = capture.kernels
        columns = np.stack([kernels.name, kernels.details, kernels.kind.astype(np.int32)])
        distinct, inverse = np.unique(columns[:, wanted], axis=1, return_inverse=True)
        self.of_row = np.full(len(kernels), -1, dtype=np.int64)
        self.of_row[wanted] = np.asarray(inverse).reshape(-1)
        self.capture = capture
        self.table = distinct.T.tolist()
        exact = (fixed >= 0) & (program >= 0)
        seen = np.stack([program, kernels.name, kernels.details, fixed])[:, exact]
        self.seen: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for owner, name, details, place in np.unique(seen, axis=1).T.tolist():
            self.seen.setdefault((owner, name), []).append((details, place))

    def seen_by(self, program_id: int) -> list[KernelType]:
        """The types with what exact kernels of one program teach."""
        types = []
        for name, details, kind in self.table:
            text = self.capture.text(name)
            family = class_of_kernel(text, kind, self.capture.text(details))
            here = self.seen.get((program_id, name), [])
            learned = {place for shape, place in here if shape == details}
            other = {place for shape, place in here if shape != details} - learned
            types.append(
                KernelType(
                    text,
                    family,
                    learned=tuple(sorted(learned)),
                    unlikely=tuple(sorted(other)),
                )
            )
        return types


def _windows(capture: Capture, groups: LaunchGroups, program: I64, wanted: Bools) -> list[_Window]:
    """Runs of wanted kernels in launch order, with the kernels of known program around them."""
    order = groups.order
    order = order[wanted[order] | (program[order] >= 0)]
    if not len(order):
        return []
    device = capture.kernels.device[order]
    edge = np.ones(len(order) + 1, dtype=np.bool_)
    edge[1:-1] = (wanted[order][1:] != wanted[order][:-1]) | (device[1:] != device[:-1])
    cuts = np.flatnonzero(edge)
    windows = []
    for a, b in pairwise(cuts.tolist()):
        if not wanted[order[a]]:
            continue
        before = int(order[a - 1]) if a > 0 and device[a - 1] == device[a] else -1
        after = int(order[b]) if b < len(order) and device[b] == device[a] else -1
        for c in range(a, b, _MAX_WINDOW):
            d = min(c + _MAX_WINDOW, b)
            windows.append(_Window(order[c:d], before if c == a else -1, after if d == b else -1))
    return windows


def _states(
    union: Union,
    schedules: Mapping[int, Schedule],
    program: I64,
    fixed: I32,
    row: int,
    passed: int,
) -> tuple[int, ...]:
    """States at a neighbouring kernel: after its place, all of its program's, or anywhere."""
    if row < 0 or int(program[row]) not in union.offset:
        return ()
    owner = int(program[row])
    if fixed[row] >= 0:
        return (union.offset[owner] + int(fixed[row]) + passed,)
    return union.states_of(owner, len(schedules[owner]))


def _starts(groups: LaunchGroups, rows: Ints) -> Bools:
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = groups.group[rows[1:]] != groups.group[rows[:-1]]
    return starts
