"""Progress bars on a terminal for work that takes longer than a second, and timings."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from explane.cli.clock import BEGAN_S
from explane.errors import one_line
from explane.progress import NULL, Progress, Stage
from explane.timings import TimedProgress, Timing, by_part

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
        clock = TimedProgress(progress, BEGAN_S)
        try:
            yield clock
        finally:
            for line in timing_lines(clock.timings()):
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


def timing_lines(timings: Sequence[Timing]) -> list[str]:
    """One line per stage, indented by nesting; the whole; and sums by part.

    What ran beside other stages is marked with `|` and is in no sum but its own.
    """
    lines = []
    for one in timings:
        mark = "|" if one.beside else " "
        lines.append(f"{one.seconds:9.3f} s {mark}{'  ' * one.depth}{one_line(one.name)}")
    total_s = sum(one.own_s for one in timings if not one.beside)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines.append(f"{total_s:9.3f} s  total, peak memory {peak_mib:.0f} MiB")
    for word, beside in (("of it", False), ("beside", True)):
        sums = by_part(timings, beside=beside)
        if sums:
            parts = ", ".join(f"{one_line(part)} {s:.3f} s" for part, s in sums.items())
            lines.append(f"{word}: {parts}")
    return lines


class BarProgress:
    """Bars on standard error, drawn only once the work has taken longer than a second.

    rich is imported by the timer that draws first, so short commands never pay for it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: list[_Bar] = []
        self._threads: set[int] = set()
        self._bars: Bars | None = None
        self._timer = threading.Timer(_PATIENCE_S, self._show)
        self._timer.daemon = True
        self._timer.start()

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A stage with its own bar, unless it is within another one of the same thread."""
        return self._running_bar(name, total)

    @contextmanager
    def _running_bar(self, name: str, total: int | None) -> Iterator[Stage]:
        bar = _Bar(one_line(name, 60), total)
        thread = threading.get_ident()
        if thread in self._threads:
            yield bar
            return
        with self._lock:
            self._threads.add(thread)
            self._running.append(bar)
            if self._bars is not None:
                bar.show(self._bars)
        try:
            yield bar
        finally:
            with self._lock:
                self._threads.remove(thread)
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
