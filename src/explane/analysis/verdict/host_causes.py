"""What the host did while a device waited for it: one host event per late launch.

The launching thread is asked first. Threads that only launch (one per device) have no events
between two dispatches; then the thread that gives them work is asked, the one with the step
markers or else with most execute calls.
"""

from __future__ import annotations

import numpy as np

from explane.analysis.intervals import Intervals, intervals
from explane.analysis.steps.host_events import names_like, thread_bounds
from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.steps.nesting import innermost
from explane.capture.host_names import DISPATCH
from explane.capture.model import I32, I64, Capture

#: Share of the time between the begin of a gap and its launch call that an event has to cover.
LEAST_COVER_RATIO = 0.5


def host_events_of(
    capture: Capture,
    join: LaunchJoin,
    calls: I32,
    since_ps: I64,
    dispatching: int | None = None,
) -> I64:
    """The innermost host event that covers most of the time before each late launch call.

    Args:
        capture: The capture.
        join: Its launches.
        calls: Rows of the launch calls; shape (n,).
        since_ps: Since when each call was late, not after its start.
        dispatching: The `dispatch_thread`, where it is known.

    Returns:
        Shape (n,): rows of host events, or -1 where no event covers enough.
    """
    found = np.full(len(calls), -1, dtype=np.int64)
    if not len(calls) or not len(capture.host_events):
        return found
    windows = intervals(since_ps, capture.launches.start_ps[calls])
    own = join.home_thread[calls]
    for thread in np.unique(own).tolist():
        rows = np.flatnonzero(own == thread)
        found[rows] = _on_thread(capture, thread, windows.take(rows))
    rest = np.flatnonzero(found < 0)
    main = dispatch_thread(capture) if dispatching is None else dispatching
    if len(rest) and main >= 0:
        found[rest] = _on_thread(capture, main, windows.take(rest))
    return found


def dispatch_thread(capture: Capture) -> int:
    """Thread with most step markers, else with most time in execute calls; -1 without either."""
    events = capture.host_events
    n_threads = len(capture.threads)
    marked = events.step_num >= 0
    if marked.any():
        return int(np.argmax(np.bincount(events.thread[marked], minlength=n_threads)))
    calls = names_like(capture, events.name, DISPATCH)
    if not calls.any():
        return -1
    time_ps = np.zeros(n_threads, dtype=np.int64)
    np.add.at(time_ps, events.thread[calls], events.duration_ps[calls])
    return int(np.argmax(time_ps))


def _on_thread(capture: Capture, thread: int, windows: Intervals) -> I64:
    """Rows of the events of one thread that fill the windows, or -1."""
    first, last = thread_bounds(capture)
    rows = slice(first[thread], last[thread])
    start = capture.host_events.start_ps[rows]
    middle = windows.start_ps + windows.duration_ps // 2
    event = innermost(
        start,
        start + capture.host_events.duration_ps[rows],
        middle,
        windows,
        LEAST_COVER_RATIO,
    )
    return np.where(event >= 0, event + int(first[thread]), -1)
