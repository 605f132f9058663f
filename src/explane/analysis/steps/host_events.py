"""Host events by name and by thread."""

from __future__ import annotations

import re

import numpy as np

from explane.capture.model import I32, Bools, Capture


def names_like(capture: Capture, codes: I32, pattern: re.Pattern[str]) -> Bools:
    """Which rows have a name that the pattern finds something in.

    Args:
        capture: Holds the strings.
        codes: Text codes, one per row; -1 never matches.
        pattern: Searched once in each distinct name.
    """
    hit, seen = (np.zeros(len(capture.strings) + 1, dtype=bool) for _ in range(2))
    seen[codes] = True  # a missing code marks the place behind the last string
    for code in np.flatnonzero(seen[:-1]).tolist():
        hit[code] = pattern.search(capture.strings[code]) is not None
    return hit[codes]


def thread_bounds(capture: Capture) -> tuple[I32, I32]:
    """First and past-last row of each thread in `Capture.host_events` (sorted by thread)."""
    numbers = np.arange(len(capture.threads) + 1)
    bounds = np.searchsorted(capture.host_events.thread, numbers).astype(np.int32)
    return bounds[:-1], bounds[1:]
