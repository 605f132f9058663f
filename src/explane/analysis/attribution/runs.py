"""Executions of programs and iterations of their loops, counted from the places of kernels.

In launch order the places of one program's kernels rise through the schedule. Where they fall back
inside a loop, its next iteration has begun; where they fall back otherwise, the next execution.
Kernels of one graph launch count as one step, at the launch's first place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.windows import ProgramKernels
from explane.analysis.distinct import Ints, all_or_some, distinct

Flags = npt.NDArray[np.bool_]

_MOST_CYCLE = 64


@dataclass(frozen=True, slots=True)
class Runs:
    """Counted executions and iterations; aligned with a program's kernels.

    Attributes:
        execution: Running number over all devices, -1 for kernels without a place.
        iteration: Index into `iterations`, -1 outside loops.
        iterations: Loop positions, outermost first, such as `while.5:3/while.7:0/`.
    """

    execution: Ints
    iteration: Ints
    iterations: tuple[str, ...]


def count_runs(
    schedule: Schedule, kernels: ProgramKernels, position: Ints, in_frame: Flags
) -> Runs:
    """Counts executions and iterations.

    Args:
        schedule: The program's schedule.
        kernels: Its kernels.
        position: Place of each kernel, or -1.
        in_frame: Kernels of graph launches that stand for one run of the schedule; those of one
            launch count as one step.
    """
    execution = np.full(len(position), -1, dtype=np.int32)
    iteration = np.full(len(position), -1, dtype=np.int32)
    placed = position >= 0
    if not placed.any():
        return Runs(execution, iteration, ())
    rows = all_or_some(placed)
    whole, device = in_frame[rows], kernels.device[rows]
    place, first, of_row = _steps(position[rows], kernels.group[rows], device, whole)
    new_device = np.ones(len(place), dtype=np.bool_)
    new_device[1:] = np.diff(device[first]) != 0
    single = np.array([x.max_kernels == 1 for x in schedule.launches])[place]
    again = single.copy()
    again[1:] &= np.diff(kernels.types[rows][first]) == 0
    if len(place) and (place == place[0]).all():
        again |= _cycle_starts(kernels.types[rows][first], new_device)
    again |= whole[first]
    falls = _falls(place, new_device, again)
    run, counts = _count(schedule, place, falls, new_device)
    execution[rows] = run[of_row]
    texts, codes = _texts(schedule, counts, len(place))
    iteration[rows] = codes[of_row]
    return Runs(execution, iteration, texts)


def _steps(position: Ints, launch: Ints, device: Ints, whole: Flags) -> tuple[Ints, Ints, Ints]:
    """Lowest place of each step, its first kernel, and the step of each kernel."""
    new = np.ones(len(position), dtype=np.bool_)
    new[1:] = (launch[1:] != launch[:-1]) | (device[1:] != device[:-1]) | ~whole[1:]
    first = np.flatnonzero(new).astype(np.int32)
    of_row = np.cumsum(new, dtype=np.int32)
    of_row -= 1
    return np.minimum.reduceat(position, first), first, of_row


def _cycle_starts(types: Ints, new_device: Flags) -> Flags:
    """Where the kernels of a program with one instruction begin anew, on each device.

    Nothing else in the schedule tells two executions apart; the shortest sequence of kernels that
    comes back does. A last cycle may be cut.
    """
    starts = np.zeros(len(types), dtype=np.bool_)
    bounds = [*np.flatnonzero(new_device).tolist(), len(types)]
    for begin, end in pairwise(bounds):
        mine = types[begin:end]
        longest = min(len(mine) // 2, _MOST_CYCLE)
        periods = (p for p in range(1, longest + 1) if np.array_equal(mine[p:], mine[:-p]))
        period = next(periods, len(mine))
        starts[begin + period : end : period] = True
    return starts


def _falls(place: Ints, new_device: Flags, again: Flags) -> Flags:
    """True where a step does not come after the step before it.

    Equal places are one instruction's further kernels, unless it launches one kernel only and
    this is the same kernel, or a whole graph launch, again.
    """
    falls = np.zeros(len(place), dtype=np.bool_)
    before, here = place[:-1], place[1:]
    falls[1:] = (here < before) | ((here == before) & again[1:])
    return falls & ~new_device


def _count(
    schedule: Schedule, place: Ints, falls: Flags, new_device: Flags
) -> tuple[Ints, dict[int, Ints]]:
    """Running number of executions, and for each loop the iteration of each step or -1."""
    pending = falls.copy()
    wraps: dict[int, Flags] = {}
    for index in reversed(range(len(schedule.loops))):
        loop = schedule.loops[index]
        inside = (place >= loop.first) & (place < loop.end)
        both = np.zeros(len(place), dtype=np.bool_)
        both[1:] = inside[1:] & inside[:-1]
        wraps[index] = pending & both
        pending &= ~wraps[index]
    restart = pending | new_device
    counts: dict[int, Ints] = {}
    for index, loop in enumerate(schedule.loops):
        inside = (place >= loop.first) & (place < loop.end)
        entered = inside.copy()
        entered[1:] &= ~inside[:-1] | restart[1:]
        total = np.cumsum(wraps[index])
        since = np.maximum.accumulate(np.where(entered, np.arange(len(place)), 0))
        counts[index] = np.where(inside, total - total[since], -1)
        restart = restart | wraps[index]
    return np.cumsum(pending | new_device, dtype=np.int32) - 1, counts


def _texts(
    schedule: Schedule, counts: dict[int, Ints], n_steps: int
) -> tuple[tuple[str, ...], Ints]:
    """Iteration texts and each step's index into them, or -1."""
    if not counts:
        return (), np.full(n_steps, -1, dtype=np.int32)
    found = distinct(*(counts[i] for i in range(len(schedule.loops))))
    texts: dict[str, int] = {}
    of_distinct = np.full(len(found), -1, dtype=np.int32)
    for i, column in enumerate(found.rows()):
        parts = [f"{schedule.loops[k].instruction}:{n}/" for k, n in enumerate(column) if n >= 0]
        if parts:
            of_distinct[i] = texts.setdefault("".join(parts), len(texts))
    return tuple(texts), of_distinct[found.code]
