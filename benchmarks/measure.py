"""Wall time and peak memory of a whole process, and how several measurements are printed."""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """What one run of a command took; `failed` says why it did not end well.

    `cpu_s` is the time of all its threads and processes, in the system too: it depends less than
    `seconds` on what else the machine does.
    """

    seconds: float
    cpu_s: float
    peak_mib: float
    failed: str = ""


def run(words: Sequence[str], limit_s: float, limit_gib: float) -> Usage:
    """Runs a command to its end, within limits of time and of memory.

    Peak memory is that of all its processes together, mapped pages of files included: pages that
    two of them share count twice. It is looked at twenty times a second, and is at least that of
    the largest process, which the system tells exactly.
    """

    def limit() -> None:
        size = int(limit_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))

    begin = time.perf_counter()
    child = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=limit,
        text=True,
        errors="replace",
    )
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    peak = _Peak(child.pid)
    peak.start()
    text = child.stderr.read() if child.stderr else ""
    _, status, usage = os.wait4(child.pid, 0)
    peak.ended.set()
    peak.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    failed = ""
    if child.returncode not in (0, 3):
        last = (text.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        failed = f"> {limit_s:.0f} s" if seconds >= limit_s else last
    cpu_s = usage.ru_utime + usage.ru_stime
    return Usage(seconds, cpu_s, max(usage.ru_maxrss / 1024, peak.mib), failed)


class _Peak(threading.Thread):
    """Samples the memory of all processes of a session."""

    def __init__(self, session: int):
        super().__init__(daemon=True)
        self.session, self.mib, self.ended = session, 0.0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.05):
            self.mib = max(self.mib, sum(map(self._mib, Path("/proc").glob("[0-9]*"))))

    def _mib(self, process: Path) -> float:
        """Memory of a process of the session, 0 for any other."""
        try:
            if os.getsid(int(process.name)) != self.session:
                return 0.0
            pages = int((process / "statm").read_text().split()[1])
        except (OSError, ValueError):
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Median and range of the ratios of runs that belong together."""
    return spread([a / b for a, b in zip(above, below, strict=True)], 2)
