"""Processes that work on several hosts at once, and end when the caller does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context


@contextmanager
def worker_processes(n_processes: int) -> Iterator[Executor]:
    """An executor of fresh processes; on an error or a signal in the caller they are ended.

    The processes are spawned, not forked: polars has threads, and a fork of a process with
    threads can wait for ever for a lock that one of them held.
    """
    others = set(active_children())
    context = get_context("spawn")
    with ProcessPoolExecutor(n_processes, context, initializer=_end_at_once) as pool:
        try:
            yield pool
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _end_at_once() -> None:
    """Ctrl-C reaches every process of the terminal: workers end without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
