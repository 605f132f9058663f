"""Host events that delay the launch calls of a step.

GPU    ├─ last kernel ─┤                          ├ next kernel
host                   ├──── next_batch ────┤├call┤
                       |<- time before the call ->|   filled by next_batch
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.host_causes import host_events_of
from explane.analysis.step_facts import StepFacts
from explane.analysis.step_graph import StepGraph
from explane.capture.model import I64
from explane.units import PS_PER_US

_LEAST_PS: Final = 5 * PS_PER_US
"""Shorter delays are the pace of the launching loop itself."""


@dataclass(frozen=True, slots=True)
class LateEvents:
    """Calls that a host event delays; one entry per call.

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
    found = rows >= 0
    call, since, rows = call[found], since[found], rows[found]
    events = capture.host_events
    until = capture.launches.start_ps[step.launches[call]]
    filled = np.minimum(events.end_ps[rows], until) - np.maximum(events.start_ps[rows], since)
    names = tuple(capture.text(int(code)) for code in events.name[rows])
    return LateEvents(moments[call], call, np.maximum(filled, 0), names)
