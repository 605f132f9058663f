"""Host events too short to explain a delay, left out before they cost memory.

Nine of ten host events of a usual capture last less than half a microsecond: calls of the Python
tracer, garbage collection, allocations. An event is left out, and counted, when it

- lasts less than `SHORTEST_PS`,
- lies within a longer event of its thread that says that the thread was busy (no wait and no step
  marker), so that when the thread was busy stays the same to the picosecond, and
- has no step number and no name that is looked for (`host_names.is_looked_for`).

    train   ├──────────────────────────────────┤     stays
    update    ├────────────┤  ├┤                     the short one goes: train covers it
    wait                        ├────────┤           stays: a wait
    free                          ├┤                 the short one goes: train covers it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.capture.host_names import WAIT, is_looked_for
from explane.capture.model import I32, I64, U8, Bools, HostEvents
from explane.units import PS_PER_US

SHORTEST_PS: Final = PS_PER_US // 2
"""Events of at least this length are always kept."""

_KNOWN, _LOOKED_FOR, _WAITS = 1, 2, 4
_BLOCK: Final = 1 << 20


@dataclass(slots=True)
class _Line:
    """How far a line is read: its last start, and the latest end of an event that covers."""

    start_ps: int = np.iinfo(np.int64).min
    reach_ps: int = np.iinfo(np.int64).min
    is_sorted: bool = True


class ShortEvents:
    """Finds, line by line and block by block, the host events that can be left out.

    Args:
        strings: Pool of the events' names; it may grow.
    """

    def __init__(self, strings: Sequence[str]):
        self._strings = strings
        self._natures: U8 = np.zeros(1, dtype=np.uint8)
        self._lines: dict[int, _Line] = {}

    def kept(self, line: int, start_ps: I64, duration_ps: I64, name: I32, step_num: I64) -> Bools:
        """Which events of the next block of a line stay; all of them once starts fall.

        Args:
            line: Any number of the line.
            start_ps: Starts, from any moment that is the same for all blocks of the line.
            duration_ps: Durations.
            name: Codes of the names.
            step_num: Step numbers; negative where an event has none.
        """
        told = self._lines.setdefault(line, _Line())
        told.is_sorted = told.is_sorted and _rises(told.start_ps, start_ps)
        if not told.is_sorted or not len(start_ps):
            return np.ones(len(start_ps), dtype=bool)
        end_ps, unmarked = start_ps + duration_ps, step_num < 0
        nature = self._nature(name)
        covers = unmarked & (nature & _WAITS == 0) & (duration_ps >= SHORTEST_PS)
        reach = np.maximum.accumulate(np.where(covers, end_ps, told.reach_ps))
        inside = end_ps <= np.append(told.reach_ps, reach[:-1])
        told.start_ps, told.reach_ps = int(start_ps[-1]), int(reach[-1])
        short = (duration_ps >= 0) & (duration_ps < SHORTEST_PS)
        gone: Bools = inside & short & unmarked & (nature & _LOOKED_FOR == 0)
        return ~gone

    def _nature(self, name: I32) -> U8:
        """What is known of each name; missing ones are kept."""
        n_strings = len(self._strings)
        if len(self._natures) <= n_strings:
            grown = np.zeros(n_strings + 1, dtype=np.uint8)
            grown[: len(self._natures) - 1] = self._natures[:-1]
            grown[-1] = _KNOWN | _LOOKED_FOR
            self._natures = grown
        seen = np.zeros(len(self._natures), dtype=bool)
        seen[name] = True
        for code in np.flatnonzero(seen & (self._natures == 0)).tolist():
            text = self._strings[code]
            looked_for = _LOOKED_FOR if is_looked_for(text) else 0
            self._natures[code] = _KNOWN | looked_for | (_WAITS if WAIT.search(text) else 0)
        found: U8 = self._natures[name]
        return found


def kept_rows(events: HostEvents, strings: Sequence[str]) -> I64:
    """Rows of the host events that stay; all events must be there, in the order of the model."""
    thread = events.thread
    borders = np.flatnonzero(thread[1:] != thread[:-1]) + 1
    borders = np.unique([*borders.tolist(), *range(0, len(thread), _BLOCK), len(thread)])
    rule, kept = ShortEvents(strings), [np.zeros(0, dtype=np.int64)]
    for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        rows = slice(first, last)
        stays = rule.kept(
            int(thread[first]),
            events.start_ps[rows],
            events.duration_ps[rows],
            events.name[rows],
            events.step_num[rows],
        )
        kept.append(first + np.flatnonzero(stays))
    return np.concatenate(kept)


def _rises(before: int, start_ps: I64) -> bool:
    """Whether starts never fall, from the last one of the block before."""
    return not len(start_ps) or bool(
        start_ps[0] >= before and np.all(start_ps[1:] >= start_ps[:-1])
    )
