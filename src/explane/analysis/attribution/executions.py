"""Executions with their expected and missing launches: what the collector lost is counted."""

from __future__ import annotations

from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.result import Execution
from explane.analysis.attribution.runs import Runs
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.distinct import Ints, all_or_some, one_of_each

_MOST_TIMES: Final = 1 << 40
"""Nested loops are not counted beyond this: no capture holds as many launches."""


def executions_of(
    schedule: Schedule, device: Ints, rows: Ints, position: Ints, runs: Runs
) -> tuple[Execution, ...]:
    """One record per execution.

    Args:
        schedule: The program's schedule.
        device: Device of each kernel.
        rows: Rows of the kernels table.
        position: Place of each kernel, or -1.
        runs: Executions and iterations of the kernels.
    """
    found = all_or_some(runs.execution >= 0)
    execution, place = runs.execution[found], position[found]
    if not len(execution):
        return ()
    n = int(execution.max()) + 1
    some = one_of_each(execution, runs.iteration[found], place)
    seen, at = execution[some], place[some]
    required = np.array([not launch.optional for launch in schedule.launches])
    n_found = np.bincount(seen[required[at]], minlength=n)
    times, branched = _repeats(schedule)
    unknown = (times < 0) & required & ~branched
    fixed = int(times[required & ~branched & ~unknown].sum())
    open_found = np.bincount(seen[unknown[at]], minlength=n)
    taken = np.bincount(seen[(required & branched)[at]], minlength=n)
    first = np.full(n, np.iinfo(np.int64).max)
    last = np.full(n, -1, dtype=np.int64)
    np.minimum.at(first, execution, rows[found])
    np.maximum.at(last, execution, rows[found])
    on = np.zeros(n, dtype=np.int64)
    on[execution] = device[found]
    expected = fixed + open_found + taken
    missing = np.maximum(expected - n_found, 0)
    columns = (column.tolist() for column in (on, first, last, expected, missing))
    return tuple(map(Execution, repeat(schedule.program_id), *columns))


def _repeats(schedule: Schedule) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """How often each launch happens in one execution (-1: unknown), and which are in branches."""
    times = np.ones(len(schedule), dtype=np.int64)
    for loop in schedule.loops:
        inside = slice(loop.first, loop.end)
        trips = min(loop.trip_count, _MOST_TIMES)
        if trips < 0:
            times[inside] = -1
            continue
        repeated = np.minimum(times[inside], _MOST_TIMES // max(trips, 1)) * trips
        times[inside] = np.where(times[inside] < 0, -1, repeated)
    branched = np.zeros(len(schedule), dtype=np.bool_)
    for branches in schedule.branches:
        for first, end in branches.ranges:
            branched[first:end] = True
    return times, branched
