"""Host events that delay the launch calls of a step.

GPU    ├─ last kernel ─┤                          ├ next kernel
host                   ├──── next_batch ────┤├call┤
                       |<- time before the call ->|   filled by next_batch

An event that fills most of the time before one call also delays the other calls of its thread
that come after it, however much else fills the time before them. So do all outermost events
between: what the host does one after the other.

Threads that launch for one GPU each are given their work by another one. While such a thread does
nothing itself, what the giving thread does delays its calls:

dispatching  ├ next_batch ┤├──── PjitFunction ────┤
launching                      ├─ Execute … ├call┤
             |<- next_batch ->|<->|<- Execute ->|
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.distinct import ranks
from explane.analysis.intervals import (
    Intervals,
    covered_in_windows,
    intervals,
    running_end,
    union,
)
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import StepGraph
from explane.analysis.steps.host_events import names_like, thread_bounds
from explane.analysis.verdict.host_causes import host_events_of
from explane.capture.host_names import DISPATCH
from explane.capture.model import I64, Bools
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
    rows = host_events_of(capture, facts.join, step.launches[call], since, facts.dispatch_thread)
    rows = _largest_inside(facts, rows, since, capture.launches.start_ps[step.launches[call]])
    thread = facts.join.home_thread[step.launches[call]].astype(np.int64)
    thread[~np.isin(thread, capture.host_events.thread)] = facts.dispatch_thread
    until = capture.launches.start_ps[step.launches[call]]
    return _delays(facts, _Late(moments[call], call, thread, since, until), rows)


@dataclass(frozen=True, slots=True)
class _Late:
    """Late calls; one entry each.

    Attributes:
        moment, call: As in `LateEvents`.
        thread: The thread whose events delay the call: the launching one where that has any.
        since, until: Since when it is late, and when it comes.
    """

    moment: I64
    call: I64
    thread: I64
    since: I64
    until: I64


def _delays(facts: StepFacts, late: _Late, rows: I64) -> LateEvents:
    """The events that fill the time before calls, and others that lie before them.

    Args:
        facts: The capture and what is known of it.
        late: The calls.
        rows: For each of them the row of its host event, or -1.
    """
    events, main = facts.capture.host_events, facts.dispatch_thread
    threads = np.unique(late.thread[late.thread >= 0]).tolist()
    spans = {t: _span(late, late.thread == t) for t in threads}
    if threads and main >= 0:
        spans[main] = _span(late, late.thread >= 0)
    outermost = [_outermost(facts, t, *span) for t, span in spans.items()]
    named = np.unique(np.concatenate([rows[rows >= 0], *outermost]))
    named = named[_once(facts, named)]
    longest = named[np.argsort(-events.duration_ps[named], kind="stable")[:_MOST_EVENTS]]
    by = events.thread[longest]
    near = np.minimum(events.ends(longest), late.until[:, None]) > np.maximum(
        events.start_ps[longest], late.since[:, None]
    )
    near &= (by == late.thread[:, None]) | (by == main)
    place, event = np.nonzero(near)
    known = np.flatnonzero(np.isin(rows, named))
    pairs = np.stack(
        [np.concatenate([known, place]), np.concatenate([rows[known], longest[event]])]
    )
    place, event = np.unique(pairs, axis=1)
    time_ps = _filled_ps(facts, late, place, event, spans)
    delays = time_ps > 0
    place, event = place[delays], event[delays]
    names = tuple(facts.capture.text(int(code)) for code in events.name[event])
    return LateEvents(late.moment[place], late.call[place], time_ps[delays], names)


def _span(late: _Late, chosen: Bools) -> tuple[int, int]:
    """From the earliest moment since when one of some calls is late to the last of them."""
    return int(late.since[chosen].min()), int(late.until[chosen].max())


def _once(facts: StepFacts, rows: I64) -> Bools:
    """Which of some host events do not lie in another one of them of the same name."""
    events = facts.capture.host_events
    same = ranks(events.thread[rows], events.name[rows])
    order = np.lexsort((-events.duration_ps[rows], events.start_ps[rows], same))
    parts = intervals(events.start_ps[rows[order]], events.ends(rows[order]), same[order])
    reach = running_end(parts)
    inner = np.zeros(len(rows), bool)
    inner[order[1:]] = (parts.group[1:] == parts.group[:-1]) & (parts.end_ps[1:] <= reach[:-1])
    return ~inner


def _filled_ps(
    facts: StepFacts, late: _Late, place: I64, event: I64, spans: Mapping[int, tuple[int, int]]
) -> I64:
    """Time before a call that an event fills.

    Of an event of another thread than the call's only what happens while the call's own thread
    does nothing: it can't be waited for by a thread that is at work.

    Args:
        facts: The capture and what is known of it.
        late: The calls.
        place: The call of each pair.
        event: The row of its event.
        spans: First and last moment that counts, by thread.
    """
    events = facts.capture.host_events
    begin = np.maximum(events.start_ps[event], late.since[place])
    end = np.maximum(np.minimum(events.ends(event), late.until[place]), begin)
    filled: I64 = end - begin
    handed = events.thread[event] != late.thread[place]
    for thread in np.unique(late.thread[place[handed]]).tolist():
        mine = handed & (late.thread[place] == thread)
        busy = _busy(facts, thread, *spans[thread])
        filled[mine] -= covered_in_windows(busy, begin[mine], end[mine])
    return filled


def _busy(facts: StepFacts, thread: int, begin: int, end: int) -> Intervals:
    """When a thread does anything but wait, as far as its events say between two moments.

    What encloses the whole time (the loop of the thread) says it only where it is an execution.
    """
    capture, events = facts.capture, facts.capture.host_events
    near = _near(facts, thread, begin, end)
    loop = (events.start_ps[near] <= begin) & (events.ends(near) >= end)
    works = ~loop | names_like(capture, events.name[near], DISPATCH)
    works &= ~np.isin(near, facts.wait_rows)
    return union(intervals(events.start_ps[near[works]], events.ends(near[works])))


def _near(facts: StepFacts, thread: int, begin: int, end: int) -> I64:
    """Events of a thread that reach into the time between two moments, without step markers."""
    events = facts.capture.host_events
    first, last = thread_bounds(facts.capture)
    own = slice(int(first[thread]), int(last[thread]))
    near = (events.start_ps[own] < end) & (events.ends(own) > begin)
    return own.start + np.flatnonzero(near & (events.step_num[own] < 0))


def _outermost(facts: StepFacts, thread: int, begin: int, end: int) -> I64:
    """Events of one thread between two moments that lie in no other one there.

    Step markers and what encloses the whole time (the training loop itself) say nothing.
    """
    events = facts.capture.host_events
    near = _near(facts, thread, begin, end)
    inside = (events.start_ps[near] > begin) | (events.ends(near) < end)
    near = near[inside & (events.duration_ps[near] >= _LEAST_PS)]
    reach = np.maximum.accumulate(np.append(begin, events.ends(near)))[:-1]
    found: I64 = near[events.ends(near) > reach] if len(near) else near
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
