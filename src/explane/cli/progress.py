"""Progress bars on a terminal for work that takes longer than a second, and timings."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from explane.errors import one_line
from explane.progress import NULL, Progress, Stage

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_PATIENCE_S: Final = 1.0
_REDRAWS_PER_S: Final = 10


@contextmanager
def open_progress(quiet: bool, timings: bool) -> Iterator[Progress]:
    """The progress for one use case: bars on a terminal, else nothing; timings at the end."""
    with _bars_on_terminal(quiet) as progress:
        if not timings:
            yield progress
            return
        clock = TimedProgress(progress)
        try:
            yield clock
        finally:
            for line in clock.lines():
                print(line, file=sys.stderr)


@contextmanager
def _bars_on_terminal(quiet: bool) -> Iterator[Progress]:
    if quiet or not sys.stderr.isatty():
        yield NULL
        return
    bars = BarProgress()
    try:
        yield bars
    finally:
        bars.close()


class TimedProgress:
    """Passes stages on and keeps the wall time of each, in the order in which they began."""

    def __init__(self, inner: Progress):
        self._inner = inner
        self._depth = 0
        self._start_s = time.perf_counter()
        self._rows: list[tuple[int, str, float]] = []

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A stage whose wall time is kept."""
        return self._timed(name, total)

    @contextmanager
    def _timed(self, name: str, total: int | None) -> Iterator[Stage]:
        row, depth = len(self._rows), self._depth
        self._rows.append((depth, name, 0.0))
        self._depth += 1
        start_s = time.perf_counter()
        try:
            with self._inner.stage(name, total) as stage:
                yield stage
        finally:
            self._depth = depth
            self._rows[row] = (depth, name, time.perf_counter() - start_s)

    def lines(self) -> list[str]:
        """One line per stage, indented by nesting, then the whole and the peak of memory."""
        total_s = time.perf_counter() - self._start_s
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows = [f"{s:9.3f} s  {'  ' * depth}{one_line(name)}" for depth, name, s in self._rows]
        return [*rows, f"{total_s:9.3f} s  total, peak memory {peak_mib:.0f} MiB"]


class BarProgress:
    """Bars on standard error, drawn only once the work has taken longer than a second.

    rich is imported by the timer that draws first, so short commands never pay for it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: list[_Bar] = []
        self._bars: Bars | None = None
        self._timer = threading.Timer(_PATIENCE_S, self._show)
        self._timer.daemon = True
        self._timer.start()

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A stage with its own bar."""
        return self._running_bar(name, total)

    @contextmanager
    def _running_bar(self, name: str, total: int | None) -> Iterator[Stage]:
        bar = _Bar(one_line(name, 60), total)
        with self._lock:
            self._running.append(bar)
            if self._bars is not None:
                bar.show(self._bars)
        try:
            yield bar
        finally:
            with self._lock:
                self._running.remove(bar)
                bar.hide()

    def close(self) -> None:
        """Removes every bar; nothing is drawn afterwards."""
        self._timer.cancel()
        with self._lock:
            if self._bars is not None:
                self._bars.stop()

    def _show(self) -> None:
        bars = _new_bars()
        with self._lock:
            if self._timer.finished.is_set():
                return
            self._bars = bars
            for bar in self._running:
                bar.show(bars)
            bars.start()


class _Bar:
    """One stage: how far it is, and its bar once bars are shown."""

    def __init__(self, name: str, total: int | None):
        self._name = name
        self._total = total
        self._done = 0
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def advance(self, amount: int) -> None:
        self._done += amount
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=self._done)

    def show(self, bars: Bars) -> None:
        self._task = bars.add_task(self._name, total=self._total, completed=self._done)
        self._bars = bars

    def hide(self) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.remove_task(self._task)


def _new_bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=_REDRAWS_PER_S,
        transient=True,
    )
