"""Steps without markers: the executions of the program that uses most GPU time.

An execution is one run of a program on one device. It is found, in this order,

1. from the host event that runs it (`…:XLA GPU module`, `ExecuteThunks`, `Execute…`) around the
   kernel's launch on the launching thread, or
2. from the kernels alone: a kernel that occurs once per execution comes back at equal distance.

       a b c c c d | a b c c c d | a b c c c d      a, b and d once per run, c in a loop of three

The rarest kernel whose returns cut the sequence into runs of one length marks the runs.
Everything here is inferred; small programs that run between two executions count to the later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from explane.analysis.distinct import Ints, all_or_some, ranks
from explane.analysis.intervals import intervals, running_end
from explane.analysis.steps.guess import StepGuess, launch_moments
from explane.analysis.steps.host_events import names_like, thread_bounds
from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.steps.nesting import innermost
from explane.capture.host_names import EXECUTE
from explane.capture.model import I32, I64, Bools, Capture

_LEAST_COVERED_RATIO = 0.8
_LEAST_REGULAR_RATIO = 0.75
_MOST_RUNS_TRIED = 64


def steps_by_executions(capture: Capture, join: LaunchJoin) -> StepGuess | None:
    """Executions of the dominant program as steps; None when no program or no run is found."""
    run = execution_runs(capture, join)
    return None if run.max(initial=-1) < 0 else _guess(capture, join, run, "inferred_execution")


def steps_by_repetition(capture: Capture, join: LaunchJoin) -> StepGuess | None:
    """Returns of the whole kernel sequence as steps, for captures without program ids."""
    run = _by_repetition(capture, join, capture.kernels.time_ok)
    return None if run is None else _guess(capture, join, run, "inferred_repetition")


def execution_runs(capture: Capture, join: LaunchJoin) -> I32:
    """Execution of the dominant program that each kernel belongs to, counted on its device.

    Kernels of unknown program (in graphs whose kernels carry nothing) count where they are
    launched inside an execution. Small programs between two executions count to the later one.

    Returns:
        Shape (n_kernels,): 0, 1, … per device, or -1.
    """
    program = program_keys(capture)
    mine = dominant(capture, program)
    unknown: Bools = (program == -1) & capture.kernels.time_ok
    # The last form (`PjitFunction(f)`) is only the Python call: with one thread per device it says
    # less than the sequence of launches.
    ways: tuple[Callable[[], I32 | None], ...] = (
        lambda: _by_host_events(capture, join, mine, EXECUTE[:-1]),
        lambda: _by_repetition(capture, join, mine | unknown),
        lambda: _by_repetition(capture, join, mine),
        lambda: _by_host_events(capture, join, mine, EXECUTE[-1:]),
    )
    for way in ways if mine.any() else ():
        run = way()
        if run is not None:
            return _fill_back(capture, join, run)
    return np.full(len(mine), -1, dtype=np.int32)


def program_keys(capture: Capture) -> I64:
    """One number per program for each kernel: its program_id, else a code of its module's name.

    Module codes are negative (below -1) so that they never meet an id; -1 means neither is known.
    """
    kernels = capture.kernels
    by_module = np.where(kernels.hlo_module >= 0, -2 - kernels.hlo_module.astype(np.int64), -1)
    return np.where(kernels.program_id >= 0, kernels.program_id, by_module)


def dominant(capture: Capture, program: I64) -> Bools:
    """Kernels of the program with most kernel time; the lower key wins a tie."""
    kernels = capture.kernels
    known: Bools = (program != -1) & kernels.time_ok
    if not known.any():
        return np.zeros(len(known), dtype=np.bool_)
    values = np.unique(program[known])
    time_ps = np.zeros(len(values), dtype=np.int64)
    np.add.at(time_ps, np.searchsorted(values, program[known]), kernels.duration_ps[known])
    best: Bools = known & (program == values[int(np.argmax(time_ps))])
    return best


def _by_host_events(
    capture: Capture, join: LaunchJoin, mine: Bools, patterns: Sequence[re.Pattern[str]]
) -> I32 | None:
    """Run number on its device of each kernel of the program, from execute events."""
    if not len(capture.launches) or not len(capture.host_events):
        return None
    total = int(capture.kernels.duration_ps[mine].sum())
    for pattern in patterns:
        wanted = names_like(capture, capture.host_events.name, pattern)
        if not _nested(capture, np.flatnonzero(wanted)):
            continue
        event = execute_events_of_kernels(capture, join, wanted)
        inside = mine & (event >= 0)
        held = int(capture.kernels.duration_ps[inside].sum())
        if inside.any() and held >= _LEAST_COVERED_RATIO * total:
            own = np.isin(event, np.unique(event[inside]))
            return _number_runs(capture, np.where(own, event, -1))
    return None


def _nested(capture: Capture, rows: I64) -> bool:
    """True when no two of the events of a thread overlap without nesting.

    Calls of one thread nest; events that overlap otherwise tell nothing about what ran in them.
    """
    events = capture.host_events
    order = rows[np.lexsort((-events.ends(rows), events.start_ps[rows], events.thread[rows]))]
    parts = intervals(events.start_ps[order], events.ends(order), events.thread[order])
    if len(parts) < 2:
        return True
    reach = running_end(parts)
    inside = (parts.group[1:] == parts.group[:-1]) & (parts.start_ps[1:] < reach[:-1])
    return not bool(np.any(inside & (parts.end_ps[1:] > reach[:-1])))


def execute_events_of_kernels(capture: Capture, join: LaunchJoin, wanted: Bools) -> I32:
    """Row of the innermost wanted host event around each kernel's launch, or -1.

    Args:
        capture: The capture.
        join: Its launches.
        wanted: Which host events count; shape (n_host_events,).
    """
    events, launches = capture.host_events, capture.launches
    of_launch = np.full(len(launches), -1, dtype=np.int32)
    first, last = thread_bounds(capture)
    for thread in np.unique(join.home_thread).tolist():
        rows = np.flatnonzero(wanted[first[thread] : last[thread]]) + int(first[thread])
        here = all_or_some(join.home_thread == thread)
        start = events.start_ps[rows]
        found = innermost(start, start + events.duration_ps[rows], launches.start_ps[here])
        of_launch[here] = np.append(rows, -1)[found]
    result = np.full(len(capture.kernels), -1, dtype=np.int32)
    joined = join.kernel_launch >= 0
    result[joined] = of_launch[join.kernel_launch[joined]]
    return result


def _number_runs(capture: Capture, run: I32) -> I32:
    """Runs numbered 0, 1, … per device in order of their event's start."""
    index = np.full(len(run), -1, dtype=np.int32)
    start = capture.host_events.start_ps
    for device in np.unique(capture.kernels.device).tolist():
        rows = np.flatnonzero((capture.kernels.device == device) & (run >= 0))
        ids, inverse = np.unique(run[rows], return_inverse=True)
        rank = np.empty(len(ids), dtype=np.int32)
        rank[np.argsort(start[ids], kind="stable")] = np.arange(len(ids), dtype=np.int32)
        index[rows] = rank[inverse]
    return index


def _by_repetition(capture: Capture, join: LaunchJoin, mine: Bools) -> I32 | None:
    """Run number on its device of each of the kernels, from the sequence of launches alone.

    The items of the sequence are launches, since collectors lose kernels of graphs but not the
    launch; a kernel without one is an item itself.
    """
    kernels = capture.kernels
    run = np.full(len(kernels), -1, dtype=np.int32)
    moment = launch_moments(capture, join)
    item = np.where(
        join.kernel_launch >= 0, join.kernel_launch, len(capture.launches) + np.arange(len(run))
    )
    key = _item_keys(capture, join)
    for device in np.unique(kernels.device[mine]).tolist():
        rows = np.flatnonzero(mine & (kernels.device == device))
        rows = rows[np.lexsort((kernels.start_ps[rows], moment[rows]))]
        inverse = ranks(item[rows])
        first = np.full(int(inverse.max()) + 1, len(rows))
        np.minimum.at(first, inverse, np.arange(len(rows)))
        order = np.argsort(first, kind="stable")
        runs = np.empty(len(order), dtype=np.int32)
        runs[order] = runs_of_sequence(key[rows[first[order]]])
        run[rows] = runs[inverse]
    return run if run.max(initial=-1) > 0 else None


def _item_keys(capture: Capture, join: LaunchJoin) -> I32:
    """What has to come back for a sequence to repeat: equal numbers for equal items.

    Every launch is known by its own name (blit kernels of ROCm are one for copies of all
    directions, their calls aren't) and label; a graph launch by nothing else, since its kernels
    may be lost, any other by the kernel's name too.
    """
    kernels, launches = capture.kernels, capture.launches
    graph = np.zeros(len(kernels), dtype=bool)
    joined = join.kernel_launch >= 0
    graph[joined] = launches.is_graph[join.kernel_launch[joined]]
    call = np.full(len(kernels), -1, dtype=np.int32)
    call[joined] = launches.name[join.kernel_launch[joined]]
    return ranks(
        call,
        kernels.hlo_op,
        np.where(graph, kernels.graph_id, kernels.name),
        graph,
    )


def runs_of_sequence(key: Ints) -> I32:
    """Number of the repetition that each item of a sequence is in; all 0 when none is found.

    The number of runs n is tried from small to large: keys that occur exactly n times may mark
    runs; the first n whose markers cut the sequence into parts of (nearly always) one length
    counts. When what stands before the first marker stands before the others too, the runs begin
    there: a trace is usually started between two steps. Else those items get the number -1.
    """
    key = ranks(key)
    counts = np.bincount(key)
    for n_runs in np.unique(counts[counts > 1])[:_MOST_RUNS_TRIED].tolist():
        marker = _regular_marker(key, np.flatnonzero(counts == n_runs), n_runs)
        if marker is not None:
            return _cut_at(key, np.flatnonzero(key == marker))
    return np.zeros(len(key), dtype=np.int32)


def _cut_at(key: Ints, places: I64) -> I32:
    """Run numbers from the places of the markers, moved to the start of what repeats with them.

    Not moved when the last run would then be longer than the others: the trace began inside a run.
    """
    lead = int(places[0])
    usual = int(np.median(np.diff(places)))
    same = np.array([np.array_equal(key[p - lead : p], key[:lead]) for p in places[1:].tolist()])
    fits = len(key) - (int(places[-1]) - lead) <= usual
    begin = places - lead if fits and same.mean() >= _LEAST_REGULAR_RATIO else places
    return (np.searchsorted(begin, np.arange(len(key)), side="right") - 1).astype(np.int32)


def _regular_marker(key: Ints, candidates: I64, n_runs: int) -> int | None:
    """The earliest key among candidates whose returns are at one distance, or None."""
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], candidates)
    places = order[first[:, None] + np.arange(n_runs)]
    distance = np.diff(places, axis=1)
    usual = np.median(distance, axis=1).astype(np.int64)
    regular = (distance == usual[:, None]).mean(axis=1) >= _LEAST_REGULAR_RATIO
    # The runs must fill the sequence: a loop body's keys leave long stretches uncovered.
    regular &= usual * (n_runs + 1) >= len(key)
    good = np.flatnonzero(regular)
    if not len(good):
        return None
    return int(candidates[good[np.argmin(places[good, 0])]])


def _guess(capture: Capture, join: LaunchJoin, index: I32, source: str) -> StepGuess:
    """Steps from run numbers."""
    n_steps = int(index.max(initial=-1)) + 1
    has = (index >= 0) & capture.kernels.time_ok
    moment = launch_moments(capture, join)
    call_end = moment.copy()
    joined = join.kernel_launch >= 0
    call_end[joined] = capture.launches.ends(join.kernel_launch[joined])
    start = np.full(n_steps, np.iinfo(np.int64).max, dtype=np.int64)
    end = np.full(n_steps, np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(start, index[has], moment[has])
    np.maximum.at(end, index[has], call_end[has])
    per_device = [
        int(index[capture.kernels.device == d].max(initial=-1)) + 1
        for d in np.unique(capture.kernels.device).tolist()
    ]
    notes = ["no step markers: steps are inferred from the work that repeats"]
    if len(set(per_device)) > 1:
        notes.append(f"devices differ in executions: {min(per_device)} to {max(per_device)}")
    numbers = np.arange(n_steps, dtype=np.int64)
    return StepGuess(source, numbers, start, end, index, tuple(notes))


def _fill_back(capture: Capture, join: LaunchJoin, index: I32) -> I32:
    """Kernels launched between two runs of a device get the number of the later one."""
    moment = launch_moments(capture, join)
    result = index.copy()
    for device in np.unique(capture.kernels.device).tolist():
        rows = np.flatnonzero(capture.kernels.device == device)
        rows = rows[np.lexsort((capture.kernels.start_ps[rows], moment[rows]))]
        known = np.flatnonzero(index[rows] >= 0)
        if not len(known):
            continue
        place = np.searchsorted(known, np.arange(len(rows)))
        filled = np.where(
            place < len(known), index[rows[known[np.minimum(place, len(known) - 1)]]], -1
        )
        filled[: known[0]] = -1
        result[rows] = filled
    return result
