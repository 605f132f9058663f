"""Events of one track that overlap, on as many lanes as they need.

Viewers draw nested slices of a track, not overlapping ones. Most streams need one lane:

    stream   ├─ a ─┤├─── b ───┤          lane 0   ├─ a ─┤├─── b ───┤    ├ d ┤
                       ├─ c ─┤  ├ d ┤    lane 1             ├─ c ─┤
"""

from __future__ import annotations

from typing import Final

import numpy as np

from explane.capture.model import I64

MOST_LANES: Final = 64
"""A track whose events lie deeper than this upon each other can't be read anyway."""


def lanes(track: I64, start_ps: I64, end_ps: I64) -> I64:
    """The lane of each event: the first one that is free at its start; -1 beyond `MOST_LANES`.

    Args:
        track: Number of each event's track.
        start_ps: Starts; events must be sorted by (track, start_ps).
        end_ps: Exclusive ends.
    """
    lane = np.full(len(track), -1, np.int64)
    bounds = np.flatnonzero(np.diff(track, prepend=np.nan, append=np.nan) != 0)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        lane[first:last] = _lanes_of_track(start_ps[first:last], end_ps[first:last])
    return lane


def _lanes_of_track(start_ps: I64, end_ps: I64) -> I64:
    lane = np.full(len(start_ps), -1, np.int64)
    rest = np.arange(len(start_ps))
    for number in range(MOST_LANES):
        if not len(rest):
            break
        free = _one_after_another(start_ps[rest], end_ps[rest])
        lane[rest[free]] = number
        rest = np.delete(rest, free)
    return lane


def _one_after_another(start_ps: I64, end_ps: I64) -> I64:
    """Events that a lane takes when each takes the first event that begins after it ended.

    Each event points to its follower; all that can be reached from the first one are found by
    doubling the length of the jumps, so a million events take twenty passes.
    """
    n = len(start_ps)
    # An event without length may end where it starts: its follower must still lie behind it.
    follower = np.maximum(np.searchsorted(start_ps, end_ps), np.arange(1, n + 1))
    jump = np.append(follower, n)
    reached = np.zeros(n + 1, bool)
    reached[0] = True
    for _ in range(n.bit_length()):
        reached[jump[reached]] = True
        jump = jump[jump]
    return np.flatnonzero(reached[:n])
