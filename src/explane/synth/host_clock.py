"""Hosts have clocks of their own; what they store differs from true time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explane.capture.model import I64
from explane.synth.tables import PlaneTable
from explane.synth.truth import TruthBlock


@dataclass(frozen=True, slots=True)
class HostClock:
    """One host of a job and how its clock differs from true time.

    Attributes:
        host: Host name.
        offset_ps: Added to all its times.
        drift_ppm: How much faster than true time it runs, in parts per million.
    """

    host: str
    offset_ps: int = 0
    drift_ppm: int = 0

    def stored_ps(self, true_ps: I64) -> I64:
        """What the host's collectors store for a true time."""
        return true_ps + self.offset_ps + true_ps * self.drift_ppm // 1_000_000


def in_clock(plane: PlaneTable, clock: HostClock) -> PlaneTable:
    """A plane with its events as the host stores them."""
    events = plane.events
    if events is None or not (clock.offset_ps or clock.drift_ppm):
        return plane
    start, duration = _stored(events.start_ps, events.duration_ps, clock)
    return replace(plane, events=replace(events, start_ps=start, duration_ps=duration))


def block_in_clock(block: TruthBlock, clock: HostClock) -> TruthBlock:
    """The truth of events as the host stores them."""
    start, duration = _stored(block.start_ps, block.duration_ps, clock)
    return replace(block, start_ps=start, duration_ps=duration)


def _stored(start_ps: I64, duration_ps: I64, clock: HostClock) -> tuple[I64, I64]:
    start = clock.stored_ps(start_ps)
    return start, clock.stored_ps(start_ps + duration_ps) - start
