"""Steps whose pace the host sets: however fast the GPUs are, they are no shorter.

GPU     ├── step 1 ──┤ late ├── step 2 ──┤ late ├── step 3
host    ├──────── calls ────────┤├──────── calls ────────┤      never waits for the GPU

A step that begins with a GPU out of work, while the host did not wait for anything, takes as long
as the host takes. Where the host waited for the step before (`readback`), the GPU's time and the
host's add up, and the graph of the step says all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from explane.analysis.intervals import covered_in_windows, intervals, union
from explane.analysis.replay.critical_path import Piece
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import StepGraph
from explane.analysis.replay.readback import find_readback
from explane.analysis.steps.host_events import thread_bounds
from explane.capture.model import Bools

_LATE_RATIO: Final = 0.01
"""Share of the step that the GPU has nothing to do at its beginning."""

_BUSY_RATIO: Final = 0.5
"""Share of the step that events of the host must cover: else it may wait unrecorded."""


def host_pace_ps(
    facts: StepFacts, step: StepGraph, pieces: Sequence[Piece], length_ps: int
) -> int:
    """The least length of a step that the host's own work allows; 0 where it does not set it.

    Args:
        facts: The capture and what is known of it.
        step: Graph of the step.
        pieces: Its critical path.
        length_ps: Its length from its origin.
    """
    first = pieces[0] if pieces else None
    late = first is not None and first.kind == "host_late"
    if first is None or not late or first.end_ps - first.start_ps < _LATE_RATIO * length_ps:
        return 0
    if find_readback(facts, step) is not None:
        return 0
    threads = {facts.dispatch_thread, *facts.join.home_thread[step.launches].tolist()} - {-1}
    if not threads:
        return 0
    events = facts.capture.host_events
    waits = np.zeros(len(events), bool)
    waits[facts.wait_rows] = True
    busy = [_covered(facts, t, ~waits & (events.step_num < 0), step, length_ps) for t in threads]
    if max(busy) < _BUSY_RATIO * length_ps:
        return 0
    return length_ps - max(_covered(facts, t, waits, step, length_ps) for t in threads)


def _covered(facts: StepFacts, thread: int, chosen: Bools, step: StepGraph, length_ps: int) -> int:
    """Time of the step that some events of a thread cover."""
    events = facts.capture.host_events
    first, last = thread_bounds(facts.capture)
    mine = slice(int(first[thread]), int(last[thread]))
    start, end = events.start_ps[mine], events.ends(mine)
    begin_ps, end_ps = step.origin_ps, step.origin_ps + length_ps
    near = chosen[mine] & (start < end_ps) & (end > begin_ps)
    spans = union(intervals(start[near], end[near]))
    return int(covered_in_windows(spans, np.array([begin_ps]), np.array([end_ps]))[0])
