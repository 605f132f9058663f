"""One writer per output at a time, across processes, with a lock that dies with its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from explane.errors import UsageError

if sys.platform != "win32":
    import fcntl


@contextmanager
def only_writer(target: Path) -> Iterator[None]:
    """Holds the lock of an output while it is written.

    The lock file lies beside the output and is removed at the end. The system drops the lock when
    the process dies, however it dies, so a left-over lock file never blocks anyone.

    Args:
        target: The output; its folder must exist.

    Raises:
        UsageError: When another process is writing this output.
        OSError: When the lock file can't be made.
    """
    path = target.with_name(f".{target.name}.explane-lock")
    handle = _locked(path, target)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _locked(path: Path, target: Path) -> int:
    """An open, locked file that still has its name (the last holder may just have removed it)."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        if not _try_lock(handle):
            os.close(handle)
            raise UsageError(
                target,
                "another explane is writing this output",
                "wait for it, or choose another folder with -o",
                "output-busy",
            )
        if _is_named(handle, path):
            return handle
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Takes the lock without waiting. Windows has no such lock; there the rename alone decides."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
