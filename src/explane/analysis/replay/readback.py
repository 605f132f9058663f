"""Steps that the host begins only after it has waited for the result of the step before.

GPU     ├── step 1 ──┤                ├── step 2 ──┤
host    ├calls┤├ Await ─┤├ next_batch ┤├calls┤├ Await …
                     ^ the wait outlasts the step: nothing is queued when the GPU runs dry
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.intervals import covered_in_windows, intervals, union
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import StepGraph
from explane.capture.model import I32, Kind

_LATEST_RATIO: Final = 0.1
"""A wait may outlast the last kernel before the step by this share of the step's length."""


@dataclass(frozen=True, slots=True)
class Readback:
    """A wait of the host between two steps.

    Attributes:
        name: Host event that waits.
        host_ps: Time of the step in which the dispatching thread does not wait.
    """

    name: str
    host_ps: int


def find_readback(facts: StepFacts, step: StepGraph) -> Readback | None:
    """The wait across the beginning of a step, if the step's first call came after it.

    Args:
        facts: The capture and what is known of it.
        step: Graph of the step; its origin is the end of the last kernel before it.
    """
    capture = facts.capture
    calls = _calls_of_work(facts, step)
    if not len(calls):
        return None
    first_call = int(capture.launches.start_ps[calls].min())
    end = int(capture.kernels.ends(step.kernels).max(initial=step.origin_ps))
    events = capture.host_events
    waits = facts.wait_rows[events.thread[facts.wait_rows] == facts.dispatch_thread]
    limit = step.origin_ps + int(_LATEST_RATIO * (end - step.origin_ps))
    begun, over = events.start_ps[waits], events.ends(waits)
    across = (begun < step.origin_ps) & (over >= step.origin_ps) & (over <= min(first_call, limit))
    if not across.any():
        return None
    longest = waits[across][np.argmax(events.duration_ps[waits[across]])]
    waited = union(intervals(begun, over))
    window = np.array([step.origin_ps]), np.array([end])
    waited_ps = int(covered_in_windows(waited, *window)[0])
    return Readback(capture.text(int(events.name[longest])), end - step.origin_ps - waited_ps)


def _calls_of_work(facts: StepFacts, step: StepGraph) -> I32:
    """Rows of the step's calls without the copies that no instruction asks for.

    Without step markers what is read back of a step counts to the one behind it, and the next
    batch may be copied ahead: neither says that the host did not wait.
    """
    kernels = facts.capture.kernels
    copies = np.isin(kernels.kind[step.kernels], (Kind.MEMCPY, Kind.MEMSET))
    copies &= facts.attribution.instruction[step.kernels] < 0
    calls = facts.join.kernel_launch[step.kernels[~copies]]
    return calls[calls >= 0]
