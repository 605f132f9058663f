"""What the host's record says about executions: which module ran when, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.distinct import Ints
from explane.capture.model import I32, Capture

MODULE_EVENT: Final = ":XLA GPU module"
"""End of the name of the host event around one execution (`<module>:XLA GPU module`)."""


@dataclass(frozen=True, slots=True)
class HostRuns:
    """Executions as the host recorded them, by start.

    Attributes:
        thread, start_ps, end_ps: Of each execution's event.
        name: Code of the event's name.
    """

    thread: I32
    start_ps: Ints
    end_ps: Ints
    name: I32

    def module_at(self, capture: Capture, launches: Ints) -> Ints:
        """Name code of the execution around each launch call, or -1 where none or several are.

        On the call's own thread if that records executions, else on any (rocprofiler-sdk puts
        calls on lines of their own).
        """
        result = np.full(len(launches), -1, dtype=np.int64)
        if not len(self.name):
            return result
        thread = capture.launches.thread[launches]
        start = capture.launches.start_ps[launches]
        with_runs = np.unique(self.thread)
        for own in with_runs:
            mine = self.thread == own
            here = np.flatnonzero((thread == own) | ~np.isin(thread, with_runs))
            at = np.searchsorted(self.start_ps[mine], start[here], side="right") - 1
            inside = (at >= 0) & (start[here] < self.end_ps[mine][np.maximum(at, 0)])
            name = self.name[mine][np.maximum(at, 0)]
            clash = inside & (result[here] >= 0) & (result[here] != name)
            result[here[inside]] = name[inside]
            result[here[clash]] = -2
        return np.maximum(result, -1)

    def pairs(self, texts: Sequence[str]) -> set[tuple[str, str]]:
        """Module names that ran right after one another on one thread."""
        found: set[tuple[str, str]] = set()
        for own in np.unique(self.thread):
            codes = self.name[self.thread == own]
            pairs = np.unique(np.stack([codes[:-1], codes[1:]]), axis=1).T.tolist()
            found |= {
                (texts[a].removesuffix(MODULE_EVENT), texts[b].removesuffix(MODULE_EVENT))
                for a, b in pairs
            }
        return found


def host_runs(capture: Capture) -> HostRuns:
    """Executions that the host recorded; empty where it recorded none."""
    events = capture.host_events
    codes = np.unique(events.name)
    wanted = [c for c in codes.tolist() if capture.text(c).endswith(MODULE_EVENT)]
    rows = np.flatnonzero(np.isin(events.name, wanted))
    rows = rows[np.argsort(events.start_ps[rows], kind="stable")]
    return HostRuns(
        events.thread[rows],
        events.start_ps[rows],
        events.ends(rows),
        events.name[rows],
    )
