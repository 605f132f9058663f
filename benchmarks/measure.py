"""Wall time and peak memory of a whole process, and how several measurements are printed."""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


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

    Peak memory is that of the largest process, mapped pages of files included.
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
    text = child.stderr.read() if child.stderr else ""
    _, status, usage = os.wait4(child.pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    failed = ""
    if child.returncode not in (0, 3):
        last = (text.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        failed = f"> {limit_s:.0f} s" if seconds >= limit_s else last
    cpu_s = usage.ru_utime + usage.ru_stime
    return Usage(seconds, cpu_s, usage.ru_maxrss / 1024, failed)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Median and range of the ratios of runs that belong together."""
    return spread([a / b for a, b in zip(above, below, strict=True)], 2)
