"""Which host event lies innermost around a moment, for many moments and millions of events.

Events of one thread nest like a call stack:

    train      ├───────────────────────────┤
    execute      ├───────────────────┤
    launch          ├──┤      ├──┤
                      ^ innermost: launch   (the deepest event that contains the moment)

Each event's depth is the number of events that are open when it starts; events of one depth don't
overlap, so one binary search per depth answers all moments. Events that overlap without nesting
(clock jitter, events of two tracers on one line) may hide each other; they are never invented.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from explane.analysis.intervals import Intervals
from explane.capture.model import I32, I64

_BLOCK: Final = 1 << 18
"""Events or moments that are worked on at once: there may be millions."""


def depths(start_ps: I64, end_ps: I64) -> I64:
    """How many events are open when each event starts (0 = outermost).

    Args:
        start_ps: Starts, sorted ascending, and at equal starts the longest first; shape (n,).
        end_ps: Exclusive ends, each after its start.
    """
    closed = np.searchsorted(np.sort(end_ps), start_ps, side="right")
    return np.arange(len(start_ps), dtype=np.int64) - closed


def innermost(
    start_ps: I64,
    end_ps: I64,
    moment_ps: I64,
    windows: Intervals | None = None,
    least_ratio: float = 0.5,
) -> I32:
    """The innermost event that contains each moment and covers enough of its window.

    Args:
        start_ps: Starts of the events of one thread, in any order; shape (n,).
        end_ps: Exclusive ends; an empty event contains nothing.
        moment_ps: Moments asked for; shape (m,).
        windows: One window per moment. An event counts only if it covers at least `least_ratio`
            of it. An event that covers more than half of a window contains the window's middle,
            so with the middle as moment no such event is missed.
        least_ratio: Share of the window that must be covered.

    Returns:
        Shape (m,): row of the event, or -1.
    """
    found = np.full(len(moment_ps), -1, dtype=np.int32)
    in_order = bool((moment_ps[1:] >= moment_ps[:-1]).all())
    rows = _containing_any(start_ps, end_ps, moment_ps if in_order else np.sort(moment_ps))
    if not len(rows):
        return found
    rows = rows[np.lexsort((-end_ps[rows], start_ps[rows]))]
    depth = depths(start_ps[rows], end_ps[rows])
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(depth.max() + 2))
    for level in range(int(depth.max()), -1, -1):
        mine = rows[by_depth[bounds[level] : bounds[level + 1]]]
        first, last = start_ps[mine], end_ps[mine]
        for begin in range(0, len(moment_ps), _BLOCK):
            asked = np.flatnonzero(found[begin : begin + _BLOCK] < 0) + begin
            moment = moment_ps[asked]
            index = np.searchsorted(first, moment, side="right") - 1
            event = np.maximum(index, 0)
            good = (index >= 0) & (last[event] > moment)
            if windows is not None:
                window = windows.take(asked)
                covered = np.minimum(last[event], window.end_ps) - np.maximum(
                    first[event], window.start_ps
                )
                good &= covered >= least_ratio * window.duration_ps
            found[asked[good]] = mine[event[good]]
    return found


def _containing_any(start_ps: I64, end_ps: I64, moments: I64) -> I64:
    """Rows of the events that contain at least one of the sorted moments."""
    found = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, len(start_ps) if len(moments) else 0, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        first = np.searchsorted(moments, start_ps[block], side="left")
        last = np.searchsorted(moments, end_ps[block], side="left")
        found.append(np.flatnonzero(last > first) + begin)
    return np.concatenate(found)
