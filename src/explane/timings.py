"""What took how long: the stages of a use case with their wall time.

A stage is named by what it is part of and what it does, such as `decode: events`. The part tells
stages of different use cases together; sums by part count each moment once:

    read: node000          0.3 s   0.1 s of it in no inner stage   read     0.1 s
      decode: events       0.2 s                                   decode   0.2 s
    draw: pictures         0.9 s   beside the others: in no sum of the stages that it ran beside
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from explane.progress import Progress, Stage

_START: Final = "start: Python and imports"
_REST: Final = "rest: between stages"


@dataclass(frozen=True, slots=True)
class Timing:
    """A stage; several of one name within the same stage and on the same thread are one.

    Attributes:
        name: What it is part of and what it does.
        depth: How many stages it lies in.
        seconds: Wall time; until now while it runs.
        own_s: Of it, what belongs to none of the stages within.
        beside: It ran beside the others, on another thread or in other processes.
    """

    name: str
    depth: int
    seconds: float
    own_s: float
    beside: bool = False


@dataclass(slots=True)
class _Row:
    name: str
    depth: int
    seconds: float = 0.0
    inside_s: float = 0.0
    since_s: float | None = None
    beside: bool = False


class TimedProgress:
    """Passes stages on and keeps the wall time of each, in the order in which they began.

    Stages that another thread than the first opens are beside the others.
    """

    def __init__(self, inner: Progress, began_s: float | None = None):
        """Stages are passed on to `inner`; what was before is counted from `began_s`, if given.

        It is a moment of `time.perf_counter`.
        """
        self._inner = inner
        self._lock = threading.Lock()
        self._home = threading.get_ident()
        self._running: dict[int, list[_Row]] = {}
        self._rows: dict[tuple[int, str, int], _Row] = {}
        now_s = time.perf_counter()
        self._began_s = now_s if began_s is None else began_s
        if began_s is not None:
            self._rows[0, _START, self._home] = _Row(_START, 0, now_s - began_s)

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A stage whose wall time is kept."""
        return self._timed(name, total)

    @contextmanager
    def _timed(self, name: str, total: int | None) -> Iterator[Stage]:
        row = self._open(name)
        try:
            with self._inner.stage(name, total) as stage:
                yield stage
        finally:
            self._close(row)

    def _open(self, name: str) -> _Row:
        with self._lock:
            thread = threading.get_ident()
            outer = self._running.setdefault(thread, [])
            key = (id(outer[-1]) if outer else 0, name, thread)
            new = _Row(name, len(outer), beside=thread != self._home)
            row = self._rows.setdefault(key, new)
            row.since_s = time.perf_counter()
            outer.append(row)
        return row

    def _close(self, row: _Row) -> None:
        with self._lock:
            rows = self._running[threading.get_ident()]
            took_s = time.perf_counter() - (row.since_s or 0.0)
            row.seconds, row.since_s = row.seconds + took_s, None
            rows.remove(row)
            if rows:
                rows[-1].inside_s += took_s

    def add_beside(self, seconds: Mapping[str, float]) -> None:
        """Adds what workers did meanwhile, by the part that it belongs to."""
        with self._lock:
            for name, more_s in seconds.items():
                row = self._rows.setdefault((0, name, 0), _Row(name, 0, beside=True))
                row.seconds += more_s

    def timings(self) -> list[Timing]:
        """All stages so far, and what of the whole lies in none of them."""
        with self._lock:
            now_s = time.perf_counter()
            found = []
            for row in self._rows.values():
                so_far_s = 0.0 if row.since_s is None else now_s - row.since_s
                seconds = row.seconds + so_far_s
                inner_s = row.inside_s + self._open_inside_s(row, now_s)
                found.append(Timing(row.name, row.depth, seconds, seconds - inner_s, row.beside))
        rest_s = now_s - self._began_s
        rest_s -= sum(one.seconds for one in found if one.depth == 0 and not one.beside)
        return [*found, Timing(_REST, 0, rest_s, rest_s)]

    def _open_inside_s(self, row: _Row, now_s: float) -> float:
        """How long the stage within a running one has been running."""
        for rows in self._running.values():
            for outer, inner in pairwise(rows):
                if outer is row and inner.since_s is not None:
                    return now_s - inner.since_s
        return 0.0


def timings_of(progress: Progress) -> Sequence[Timing]:
    """What a progress has timed so far; nothing for one that times nothing."""
    return progress.timings() if isinstance(progress, TimedProgress) else ()


def add_beside(progress: Progress, seconds: Mapping[str, float]) -> None:
    """Adds what workers did meanwhile to a progress that keeps times."""
    if isinstance(progress, TimedProgress):
        progress.add_beside(seconds)


def by_part(timings: Sequence[Timing], *, beside: bool = False) -> dict[str, float]:
    """Seconds by the part that stages belong to, each moment counted once.

    Args:
        timings: Of one progress.
        beside: Sums of what ran beside the others, instead of the others.
    """
    sums: dict[str, float] = {}
    for one in timings:
        if one.beside == beside:
            part = one.name.partition(":")[0]
            sums[part] = sums.get(part, 0.0) + one.own_s
    return sums
