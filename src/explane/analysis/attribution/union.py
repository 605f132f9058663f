"""Several programs as one track, for kernels that do not say which program they belong to.

The programs' schedules lie one after the other, with a separator between them that nothing passes.
An execution of one program may be followed by one of any other; a pair that is known to follow
each other (from labelled kernels, or from the host's record of executions) costs nothing.

    hub | program 1 | program 2 | …        program's end -> hub -> any program's start
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.attribution.alignment import FORBIDDEN, Jump, Scores, Track
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import KernelType, score_types, skip_costs
from explane.analysis.attribution.windows import track_of

_BARRIER: Final = 1_000_000
_UNKNOWN_PAIR: Final = 4
_AGAIN: Final = 1
_INSIDE: Final = 8


@dataclass(frozen=True, slots=True)
class Union:
    """Several programs on one track.

    Attributes:
        programs: Program ids, in track order.
        offset: State and position at which each program begins.
        track: The joined track.
        owner: Program of each position (index into `programs`), or -1 for separators.
    """

    programs: tuple[int, ...]
    offset: Mapping[int, int]
    track: Track
    owner: np.ndarray[tuple[int], np.dtype[np.int64]]

    def states_of(self, program_id: int, size: int) -> tuple[int, ...]:
        """All states of one program."""
        first = self.offset[program_id]
        return tuple(range(first, first + size + 1))


def join_programs(
    schedules: Mapping[int, Schedule], followed_by: Collection[tuple[int, int]]
) -> Union:
    """Joins programs that launch anything.

    Args:
        schedules: By program id.
        followed_by: Pairs of programs of which the second was seen to run right after the first.
    """
    programs = tuple(p for p in sorted(schedules) if len(schedules[p]))
    costs, owner, offset = [_BARRIER], [-1], {}
    jumps: list[Jump] = []
    for index, program_id in enumerate(programs):
        schedule = schedules[program_id]
        first = len(costs)
        offset[program_id] = first
        costs += [*skip_costs(schedule).tolist(), _BARRIER]
        owner += [index] * len(schedule) + [-1]
        inner = track_of(schedule).jumps[:-1]
        jumps += [Jump(j.source + first, j.target + first, j.cost, j.inside) for j in inner]
    ends = {p: offset[p] + len(schedules[p]) for p in programs}
    for a, b in sorted(followed_by):
        if a in ends and b in ends:
            jumps.append(Jump(ends[a], offset[b], 0, _INSIDE))
    jumps += [Jump(ends[p], offset[p], _AGAIN, _INSIDE + _AGAIN) for p in programs]
    jumps += [Jump(ends[p], 0, _UNKNOWN_PAIR, _UNKNOWN_PAIR + _INSIDE) for p in programs]
    jumps += [Jump(0, offset[p]) for p in programs]
    track = Track(np.array(costs, dtype=np.int64), tuple(jumps))
    return Union(programs, offset, track, np.array(owner, dtype=np.int64))


def union_scores(
    union: Union,
    schedules: Mapping[int, Schedule],
    types_of: Callable[[int], Sequence[KernelType]],
) -> Scores:
    """Scores of kernel types for every position of the joined track.

    Args:
        union: The joined programs.
        schedules: By program id.
        types_of: The types as one program sees them; the same number and order for each.
    """
    parts = {p: score_types(schedules[p], types_of(p)) for p in union.programs}
    n_types = max((len(s.leave_cost) for s in parts.values()), default=0)
    first = np.full((n_types, len(union.track)), FORBIDDEN, dtype=np.int64)
    before = first.copy()
    follow = first.copy()
    leave = np.zeros(n_types, dtype=np.int64)
    for program_id, scores in parts.items():
        begin = union.offset[program_id]
        where = slice(begin, begin + len(schedules[program_id]))
        first[:, where], before[:, where] = scores.first, scores.before
        follow[:, where] = scores.follow
        leave = np.maximum(leave, scores.leave_cost)
    return Scores(first, before, follow, leave)
