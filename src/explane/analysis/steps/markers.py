"""Kernels to steps by the step markers of the host (`jax.profiler.StepTraceAnnotation`).

A marker is a host event with a `step_num`. Work is dispatched asynchronously, so the kernels of a
step may run long after its marker has closed; what belongs to a step is what was *launched* from
the beginning of its marker to that of the next one:

    host     ├─ step 7 ─┤   ├─ step 8 ─┤   ├─ step 9 ─┤
    launch     7a  7b    7c   8a  8b    8c   9a  9b    c
    GPU                  ├─7a─┤├─7b─┤├7c┤├─8a─┤├─8b─┤├8c┤├─9a─┤├─9b─┤├c┤      (runs behind)

Copies for the next step, read-backs and metrics between two markers take time in every step. An
evaluation or a checkpoint after a few of them makes the step before it odd by its kernels, and the
one behind it begins when they have ended. What is launched after the last marker (c) may be
anything, so it counts only as far as the shortest pause between two markers reaches.
"""

from __future__ import annotations

import numpy as np

from explane.analysis.steps.executions import execution_runs
from explane.analysis.steps.guess import StepGuess, fill_between, launch_moments
from explane.analysis.steps.launches import LaunchJoin
from explane.capture.model import I32, I64, Bools, Capture

# Less kernel time than this launched inside markers: another thread dispatches the work later, so
# what follows the last marker belongs to it.
_LEAST_INSIDE_RATIO = 0.5


def steps_by_markers(capture: Capture, join: LaunchJoin) -> StepGuess | None:
    """Steps from markers; None when no marker has GPU work.

    Of several series the one with most kernel time launched inside its markers makes the steps.
    """
    best: StepGuess | None = None
    most = (0, 0)
    moment = launch_moments(capture, join)
    for rows in _marker_groups(capture):
        begun = np.searchsorted(capture.host_events.start_ps[rows], moment, side="right") - 1
        inside = _inside(capture, join, rows, moment, begun)
        guess = _assign(capture, join, rows, moment, begun, inside)
        found = guess.kernel_index >= 0
        times = (_time_ps(capture, inside), _time_ps(capture, found))
        if times > most or (best is None and found.any()):
            best, most = guess, times
    return best


def _inside(capture: Capture, join: LaunchJoin, rows: I64, moment: I64, begun: I64) -> Bools:
    """Which kernels are launched while a marker of the series is open.

    Args:
        capture: The capture.
        join: Its launches.
        rows: The markers.
        moment: When each kernel is launched.
        begun: The marker that began last before it, or -1.
    """
    ends = capture.host_events.ends(rows)
    open_: Bools = (begun >= 0) & (moment < ends[np.maximum(begun, 0)])
    return open_ & (moment >= 0) & (join.kernel_launch >= 0)


def _time_ps(capture: Capture, chosen: Bools) -> int:
    """Time of some kernels."""
    kernels = capture.kernels
    return int(kernels.duration_ps[chosen & kernels.time_ok].sum())


def _marker_groups(capture: Capture) -> list[I64]:
    """Rows of markers that may form one series: those of a thread, or of one name if they nest."""
    events = capture.host_events
    rows = np.flatnonzero(events.step_num >= 0)
    groups = []
    for thread in np.unique(events.thread[rows]).tolist():
        mine = rows[events.thread[rows] == thread]
        if np.all(events.ends(mine)[:-1] <= events.start_ps[mine][1:]):
            groups.append(mine)
            continue
        groups.extend(mine[events.name[mine] == name] for name in np.unique(events.name[mine]))
    return groups


def _assign(
    capture: Capture, join: LaunchJoin, rows: I64, moment: I64, begun: I64, inside: Bools
) -> StepGuess:
    """Steps of one series of markers, without those that launched nothing."""
    events = capture.host_events
    start, end = events.start_ps[rows], events.ends(rows)
    index = begun.astype(np.int32)
    launched = join.kernel_launch >= 0
    total = _time_ps(capture, launched)
    notes = []
    if launched.any() and _time_ps(capture, inside) < _LEAST_INSIDE_RATIO * total:
        notes.append(
            "most work is launched after its step marker has closed: a launch counts to the marker"
            " that began last"
        )
    else:
        index[moment >= _limit_ps(start, end)] = -1
    index[~launched] = -1
    index = fill_between(capture, index)
    index = _snap(capture, join, index, execution_runs(capture, join))
    if not launched.any():
        notes.append("no launch calls in the capture: kernels count to the marker they run in")
        index = _by_kernel_time(capture, start, end)
    used, dense = np.unique(index[index >= 0], return_inverse=True)
    result = np.full(len(index), -1, dtype=np.int32)
    result[index >= 0] = dense
    numbers = events.step_num[rows][used]
    notes += _number_notes(numbers, len(rows) - len(used))
    return StepGuess("marker", numbers, start[used], end[used], result, tuple(notes))


def _limit_ps(start: I64, end: I64) -> int:
    """Where the step of the last marker ends on the host: no pause is shorter than this one."""
    pause = int((start[1:] - end[:-1]).min()) if len(start) > 1 else 0
    return int(end.max()) + max(pause, 0)


def _snap(capture: Capture, join: LaunchJoin, index: I32, run: I32) -> I32:
    """Keep executions of a program whole: each goes to the marker with most of its launches.

    Where a device has as many executions as there are markers with work (on any device), they are
    paired in order: threads that launch for one device each may run ahead of the one that marks.
    Only taken when it makes the number of launches per step more even: an execution that the
    border of a marker has cut shows there.
    """
    devices = capture.kernels.device
    result = index.copy()
    worked = np.unique(index[index >= 0])
    for device in np.unique(devices).tolist():
        rows = np.flatnonzero((devices == device) & (run >= 0))
        n_runs = int(run[rows].max(initial=-1)) + 1
        if n_runs < 2:
            continue
        calls = rows[np.unique(join.kernel_launch[rows], return_index=True)[1]]
        votes = np.zeros((n_runs, int(index.max(initial=-1)) + 2), dtype=np.int64)
        np.add.at(votes, (run[calls], index[calls] + 1), 1)
        chosen = worked if len(worked) == n_runs else np.argmax(votes, axis=1) - 1
        if _unevenness(chosen[run[calls]]) < _unevenness(index[calls]):
            result[rows] = chosen[run[rows]]
    return result


def _unevenness(index: I32 | I64) -> int:
    """How far the numbers of launches per step are from their median, summed."""
    counts = np.bincount(index + 1)[1:]
    counts = np.sort(counts[counts > 0])
    return int(np.abs(counts - counts[len(counts) // 2]).sum()) if len(counts) else 0


def _number_notes(numbers: I64, n_idle: int) -> list[str]:
    """Duplicates, gaps and markers without work, as sentences."""
    notes = []
    if n_idle:
        notes.append(f"{n_idle} step markers have no GPU work and are left out")
    values, counts = np.unique(numbers, return_counts=True)
    for value in values[counts > 1].tolist():
        notes.append(f"step number {value} occurs more than once")
    jumps = np.flatnonzero(np.diff(values) > 1)
    notes += [
        f"step numbers jump from {int(values[j])} to {int(values[j + 1])}" for j in jumps.tolist()
    ]
    if np.any(np.diff(numbers) < 0):
        notes.append("step numbers do not rise with time")
    return notes


def _by_kernel_time(capture: Capture, start: I64, end: I64) -> I32:
    """The marker in which each kernel starts, or -1."""
    moment = capture.kernels.start_ps
    index = np.searchsorted(start, moment, side="right") - 1
    inside = (index >= 0) & (moment < end[np.maximum(index, 0)])
    return np.where(inside & capture.kernels.time_ok, index, -1).astype(np.int32)
