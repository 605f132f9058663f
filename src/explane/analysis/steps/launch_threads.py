"""Which thread's host events tell what a launching thread was doing.

On CUDA and old ROCm captures launch calls lie on the line of the thread that made them, beside
its TraceMe events. rocprofiler-sdk writes them on lines of their own (`Host Threads/<OS tid>`)
whose ids mean nothing to the TraceMe lines, so the thread has to be found in time:

    TraceMe line    ├──── jit_f:XLA GPU module ────┤        the line whose events contain the
    API line           ├launch┤   ├launch┤                  launches, and most tightly, is home
    other line      ├─────────── Execute ───────────────┤
"""

from __future__ import annotations

import numpy as np

from explane.analysis.steps.host_events import thread_bounds
from explane.analysis.steps.nesting import innermost
from explane.capture.model import I32, I64, Capture

# A TraceMe line is taken for the home of an API line when its events contain this share of the
# launches; among several such lines the tightest one wins.
_ENOUGH = 0.9
_LEAST = 0.5
_SAMPLE = 2_000


def home_threads(capture: Capture) -> I32:
    """The thread whose host events surround the launches of each thread.

    Returns:
        Shape (n_threads,): index of a thread, the thread itself where its own events do or where
        no other thread's events contain at least half of its launches.
    """
    home = np.arange(len(capture.threads), dtype=np.int32)
    first, last = thread_bounds(capture)
    candidates = np.flatnonzero(last > first)
    for thread in np.unique(capture.launches.thread).tolist():
        starts = capture.launches.start_ps[capture.launches.thread == thread]
        sample = starts[:: max(len(starts) // _SAMPLE, 1)]
        home[thread] = _home_of(capture, thread, sample, candidates)
    return home


def _home_of(capture: Capture, thread: int, starts: I64, candidates: I64) -> int:
    """The best candidate for one launching thread, or itself."""
    first, last = thread_bounds(capture)
    scores = []
    for candidate in dict.fromkeys((thread, *candidates.tolist())):
        rows = slice(first[candidate], last[candidate])
        begin = capture.host_events.start_ps[rows]
        end = begin + capture.host_events.duration_ps[rows]
        event = innermost(begin, end, starts)
        ratio = float((event >= 0).mean())
        if candidate == thread and ratio >= _LEAST:
            return thread
        if ratio >= _LEAST:
            length = float(np.median((end - begin)[event[event >= 0]]))
            scores.append((-min(ratio, _ENOUGH), length, candidate))
    return min(scores)[2] if scores else thread
