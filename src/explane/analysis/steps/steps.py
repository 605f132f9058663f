"""Steps: one repetition of the workload on each device, from markers or inferred.

A step's window on a device ends with its last kernel and begins where the step before ended, so
windows touch, never overlap, and their length is the device's period: the gap in front of a step
is part of it, since the step's own dispatch ends it.

    kernels   ├─6─┤ ├6┤    ├─7─┤ ├7┤     ├─8─┤├─8─┤
    windows   ├── 6 ──┤├────── 7 ──────┤├─── 8 ───┤
                       ^ idle time before step 7's first kernel belongs to step 7

Host markers are not step times: with asynchronous dispatch they only say how fast the host
enqueues. Left out of aggregates (`complete` false, with the reason): the first step, whose
beginning isn't in the capture, unless it is the only one; a step whose number doesn't follow the
one before; a step during which the host compiles; a step whose number of kernels is odd; one of
few steps that take much longer or shorter than the others.
"""

from __future__ import annotations

import numpy as np

from explane.analysis.intervals import covered_in_windows, intervals, union
from explane.analysis.steps.executions import steps_by_executions, steps_by_repetition
from explane.analysis.steps.guess import StepGuess
from explane.analysis.steps.host_events import names_like
from explane.analysis.steps.launches import LaunchJoin, join_launches
from explane.analysis.steps.markers import steps_by_markers
from explane.analysis.steps.rows import SPREAD_LIMIT, Steps
from explane.capture.host_names import COMPILE
from explane.capture.model import I32, I64, Bools, Capture
from explane.units import PS_PER_MS, format_ps

# Compilation of this length, or of this share of the step, makes it a compile step.
_COMPILE_PS = PS_PER_MS
_COMPILE_RATIO = 0.01
# Kernels per step: when at least half of the steps agree on one count, others are odd; else
# (records lost at random, loops that depend on data) only counts this far from the median are.
_USUAL_RATIO = 0.5
_ODD_RATIO = 0.25
# Of the steps that are left, at most this share may be outliers by length; more of them, and the
# steps simply differ.
_OUTLIER_RATIO = 0.25

__all__ = ["Steps", "find_steps"]


def find_steps(capture: Capture, join: LaunchJoin | None = None) -> Steps:
    """Find the steps of a capture, per device.

    Args:
        capture: The capture.
        join: Its launches, when already joined.
    """
    join = join or join_launches(capture)
    guess = (
        steps_by_markers(capture, join)
        or steps_by_executions(capture, join)
        or steps_by_repetition(capture, join)
    )
    return _windows(capture, guess or _no_steps(capture))


def _no_steps(capture: Capture) -> StepGuess:
    """Nothing repeats and nothing is marked."""
    none = np.zeros(0, dtype=np.int64)
    index = np.full(len(capture.kernels), -1, dtype=np.int32)
    note = (
        "steps unknown: no markers and no repetition; mark them with"
        " jax.profiler.StepTraceAnnotation('train', step_num=i)"
    )
    return StepGuess("unknown", none, none, none, index, (note,))


def _windows(capture: Capture, guess: StepGuess) -> Steps:
    """Windows of every step on every device, and which of them are complete."""
    kernels = capture.kernels
    devices = np.unique(kernels.device)
    used = kernels.time_ok & (guess.kernel_index >= 0)
    cell = np.searchsorted(devices, kernels.device[used]) * guess.n_steps
    cell = cell + guess.kernel_index[used]
    n_cells = len(devices) * guess.n_steps
    first = np.full(n_cells, np.iinfo(np.int64).max, dtype=np.int64)
    last = np.full(n_cells, np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(first, cell, kernels.start_ps[used])
    np.maximum.at(last, cell, kernels.ends(used))
    count = np.bincount(cell, minlength=n_cells)
    present = np.flatnonzero(count)
    device = devices[present // max(guess.n_steps, 1)]
    index = (present % max(guess.n_steps, 1)).astype(np.int32)
    start, end, follows = _tile(device, index, guess.number, first[present], last[present])
    compile_ps = _compile_time(capture, guess)[index]
    reasons = _reasons(device, start, end, count[present], follows, compile_ps)
    return Steps(
        host=capture.host,
        source=guess.source,
        device=device,
        index=index,
        step=guess.number[index],
        start_ps=start,
        end_ps=end,
        first_kernel_ps=first[present],
        n_kernels=count[present].astype(np.int64),
        complete=np.array([not reason for reason in reasons], dtype=bool),
        reason=tuple(reasons),
        host_start_ps=guess.host_start_ps[index],
        host_end_ps=guess.host_end_ps[index],
        ahead=_ahead(guess, index, first[present]),
        compile_ps=compile_ps,
        kernel_index=guess.kernel_index,
        covered_ratio=_covered(capture, used),
        notes=guess.notes,
    )


def _tile(device: I32, index: I32, number: I64, first: I64, last: I64) -> tuple[I64, I64, Bools]:
    """Windows from one step's end to the next; `follows` where the step before is right there."""
    end = last.copy()
    start = first.copy()
    follows = np.zeros(len(device), dtype=bool)
    for value in np.unique(device).tolist():
        rows = np.flatnonzero(device == value)
        end[rows] = np.maximum.accumulate(last[rows])
        follows[rows[1:]] = (np.diff(index[rows]) == 1) & (np.diff(number[index[rows]]) <= 1)
        before = end[rows[:-1]]
        start[rows[1:]] = np.where(follows[rows[1:]], before, np.maximum(before, first[rows[1:]]))
    return np.minimum(start, end), end, follows


def _ahead(guess: StepGuess, index: I32, first: I64) -> I64:
    """Steps begun on the host after each step and before its first kernel started."""
    begun = np.searchsorted(np.sort(guess.host_start_ps), first, side="right") - 1
    ahead: I64 = np.maximum(begun - index, 0)
    return ahead


def _covered(capture: Capture, used: Bools) -> float:
    """Share of the kernel time that belongs to a step; 1 without any kernel time."""
    duration = capture.kernels.duration_ps
    total = int(duration[capture.kernels.time_ok].sum())
    return int(duration[used].sum()) / total if total else 1.0


def _compile_time(capture: Capture, guess: StepGuess) -> I64:
    """Time that some thread compiles between a step's dispatch and that of the step before."""
    events = capture.host_events
    rows = names_like(capture, events.name, COMPILE)
    if not rows.any() or not guess.n_steps:
        return np.zeros(guess.n_steps, dtype=np.int64)
    busy = union(intervals(events.start_ps[rows], events.ends(rows)))
    before = np.concatenate(([np.iinfo(np.int64).min >> 1], guess.host_end_ps[:-1]))
    return covered_in_windows(busy, before, guess.host_end_ps)


def _reasons(
    device: I32, start: I64, end: I64, count: I64, follows: Bools, compile_ps: I64
) -> list[str]:
    """Why each step is left out of aggregates; empty texts where it is not."""
    length = end - start
    compiles = (compile_ps >= _COMPILE_PS) | (
        (compile_ps > 0) & (compile_ps >= _COMPILE_RATIO * length)
    )
    reasons = [""] * len(device)
    for value in np.unique(device).tolist():
        rows = np.flatnonzero(device == value)
        usual, low, high = _usual_count(count[rows])
        for row in rows.tolist():
            if compiles[row]:
                reasons[row] = f"the host compiles for {format_ps(int(compile_ps[row]))}"
            elif row == rows[0] and len(rows) > 1:
                reasons[row] = "first step: its beginning is not in the capture"
            elif row != rows[0] and not follows[row]:
                reasons[row] = "the step before it is missing, so its beginning is unknown"
            elif not low <= count[row] <= high:
                reasons[row] = f"{count[row]} kernels where {usual} are usual"
        _mark_outliers(reasons, length, [row for row in rows.tolist() if not reasons[row]])
    return reasons


def _mark_outliers(reasons: list[str], length: I64, rows: list[int]) -> None:
    """Few steps that are much longer or shorter than the others of a device are no sample."""
    if not rows:
        return
    median = max(int(np.sort(length[rows])[(len(rows) - 1) // 2]), 1)
    factor = length[rows] / median
    far = np.flatnonzero((factor > SPREAD_LIMIT) | (factor < 1 / SPREAD_LIMIT))
    if len(far) <= _OUTLIER_RATIO * len(rows):
        for place in far.tolist():
            reasons[rows[place]] = f"takes {factor[place]:.2f} times as long as the median step"


def _usual_count(count: I64) -> tuple[int, float, float]:
    """Usual number of kernels of a device's steps, and the range that is not odd."""
    values, times = np.unique(count, return_counts=True)
    mode = int(values[np.argmax(times)])
    if times.max() > _USUAL_RATIO * len(count):
        return mode, mode, mode
    median = int(np.sort(count)[(len(count) - 1) // 2])
    return median, (1 - _ODD_RATIO) * median, (1 + _ODD_RATIO) * median
