"""Host events that delay the launch calls of a step.

GPU    ├─ last kernel ─┤                          ├ next kernel
host                   ├──── next_batch ────┤├call┤
                       |<- time before the call ->|   filled by next_batch

An event that fills most of the time before one call also delays the other calls of its thread
that come after it, however much else fills the time before them. So do all outermost events
between: what the host does one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import StepGraph
from explane.analysis.steps.host_events import thread_bounds
from explane.analysis.verdict.host_causes import host_events_of
from explane.capture.model import I64
from explane.units import PS_PER_US

_LEAST_PS: Final = 5 * PS_PER_US
"""Shorter delays are the pace of the launching loop itself."""


_MOST_MARKED: Final = 100
"""Calls of a step for which an event inside the step marker is looked for."""

_MOST_EVENTS: Final = 200
"""Events that are looked for before other calls too, the longest ones."""


@dataclass(frozen=True, slots=True)
class LateEvents:
    """Calls that a host event delays; one entry per call and event.

    Attributes:
        moment: Start of the call in the step's graph.
        call: Index of the call in the step.
        time_ps: Time before the call that the event fills.
        name: Name of the event.
    """

    moment: I64
    call: I64
    time_ps: I64
    name: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        """Names of all events, the one with most time first."""
        total: dict[str, int] = {}
        for name, time_ps in zip(self.name, self.time_ps.tolist(), strict=True):
            total[name] = total.get(name, 0) + time_ps
        return tuple(sorted(total, key=lambda name: (-total[name], name)))

    def of_event(self, name: str) -> LateEvents:
        """The calls that one event delays."""
        rows = np.flatnonzero(np.array([n == name for n in self.name], bool))
        names = (name,) * len(rows)
        return LateEvents(self.moment[rows], self.call[rows], self.time_ps[rows], names)


def late_events(facts: StepFacts, step: StepGraph) -> LateEvents:
    """What the host does before the calls that it makes late.

    Args:
        facts: The capture and what is known of it.
        step: Graph of the step; time before its start is not counted.
    """
    capture, graph = facts.capture, step.graph
    moments = np.arange(len(step.launches)) + 2 * len(step.kernels)
    time_ps = graph.time_ps[moments]
    delay = np.minimum(graph.residual_ps[moments], np.maximum(time_ps, 0))
    call = np.flatnonzero(delay >= _LEAST_PS)
    since = time_ps[call] - delay[call] + step.origin_ps
    rows = host_events_of(capture, facts.join, step.launches[call], since)
    rows = _largest_inside(facts, rows, since, capture.launches.start_ps[step.launches[call]])
    until = capture.launches.start_ps[step.launches[call]]
    place, rows = _with_shared(facts, step.launches[call], rows, since, until)
    events = capture.host_events
    ends, starts = events.end_ps[rows], events.start_ps[rows]
    filled = np.minimum(ends, until[place]) - np.maximum(starts, since[place])
    names = tuple(capture.text(int(code)) for code in events.name[rows])
    return LateEvents(moments[call[place]], call[place], np.maximum(filled, 0), names)


def _with_shared(
    facts: StepFacts, calls: I64, rows: I64, since: I64, until: I64
) -> tuple[I64, I64]:
    """The events that fill the time before calls, and others that lie before them.

    Args:
        facts: The capture and what is known of it.
        calls: Rows of the late calls.
        rows: For each call the row of its host event, or -1.
        since: Since when each call is late.
        until: When it comes.

    Returns:
        Places in `calls` and rows of host events, of equal length; each pair once.
    """
    events = facts.capture.host_events
    known = np.flatnonzero(rows >= 0)
    # The thread whose events delay a call: its own where that has any, else the dispatching one.
    thread = facts.join.home_thread[calls].astype(np.int64)
    thread[known] = events.thread[rows[known]]
    thread[(rows < 0) & ~np.isin(thread, events.thread)] = facts.dispatch_thread
    outermost = [
        _outermost(facts, t, int(since[thread == t].min()), int(until[thread == t].max()))
        for t in np.unique(thread).tolist()
        if t >= 0
    ]
    named = np.unique(np.concatenate([rows[known], *outermost]))
    longest = named[np.argsort(-events.duration_ps[named], kind="stable")[:_MOST_EVENTS]]
    after = np.minimum(events.end_ps[longest], until[:, None]) > np.maximum(
        events.start_ps[longest], since[:, None]
    )
    place, event = np.nonzero(after & (events.thread[longest] == thread[:, None]))
    pairs = np.stack(
        [np.concatenate([known, place]), np.concatenate([rows[known], longest[event]])]
    )
    places, found = np.unique(pairs, axis=1)
    return places, found


def _outermost(facts: StepFacts, thread: int, begin: int, end: int) -> I64:
    """Events of one thread between two moments that lie in no other one there.

    Step markers and what encloses the whole time (the training loop itself) say nothing.
    """
    events = facts.capture.host_events
    first, last = thread_bounds(facts.capture)
    own = slice(int(first[thread]), int(last[thread]))
    near = own.start + np.flatnonzero(
        (events.start_ps[own] < end)
        & (events.end_ps[own] > begin)
        & ((events.start_ps[own] > begin) | (events.end_ps[own] < end))
        & (events.step_num[own] < 0)
        & (events.duration_ps[own] >= _LEAST_PS)
    )
    reach = np.maximum.accumulate(np.append(begin, events.end_ps[near]))[:-1]
    found: I64 = near[events.end_ps[near] > reach] if len(near) else near
    return found


def _largest_inside(facts: StepFacts, rows: I64, since: I64, until: I64) -> I64:
    """Where only a step marker covers most of the time: the event inside with the largest share.

    A step marker says nothing of what the host does.

    Args:
        facts: The capture and what is known of it.
        rows: Rows of host events; step markers among them are replaced.
        since: Since when each call is late.
        until: When it comes.
    """
    events = facts.capture.host_events
    if not len(events):
        return rows
    marked = np.flatnonzero((rows >= 0) & (events.step_num[rows] >= 0))[:_MOST_MARKED]
    better = rows.copy()
    first, last = thread_bounds(facts.capture)
    for thread in np.unique(events.thread[rows[marked]]).tolist():
        own = slice(int(first[thread]), int(last[thread]))
        for index in marked[events.thread[rows[marked]] == thread].tolist():
            found = _largest_of(facts, own, int(since[index]), int(until[index]))
            better[index] = found if found >= 0 else rows[index]
    return better


def _largest_of(facts: StepFacts, own: slice, begin: int, end: int) -> int:
    """The event of one thread, no marker, with most time between two moments; -1 for none."""
    events = facts.capture.host_events
    begun = own.start + int(np.searchsorted(events.start_ps[own], end))
    near = slice(own.start, begun)
    start, stop = events.start_ps[near], events.start_ps[near] + events.duration_ps[near]
    inside = np.flatnonzero((stop > begin) & (events.step_num[near] < 0))
    if not len(inside):
        return -1
    shared = np.minimum(stop[inside], end) - np.maximum(start[inside], begin)
    largest = int(np.argmax(shared))
    return int(inside[largest] + own.start)
