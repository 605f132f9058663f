"""Memory that was freed, given back to the system.

The C library keeps what arrays have freed for arrays to come. After a stage that made many large
ones that is a third of all memory of the process, and the next stage rarely fits into the holes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

from explane.progress import Progress

Result = TypeVar("Result")

_MANY: Final = 1 << 18


@contextmanager
def lean_stage(progress: Progress, name: str) -> Iterator[None]:
    """A stage (`Progress.stage`) that gives back what it has freed."""
    with progress.stage(name):
        yield
        give_back()


def freed(result: Result, n_rows: int = _MANY) -> Result:
    """Hands a result on when what was freed while it was made is given back.

    Args:
        result: The result.
        n_rows: Rows of what it was made of; of few there is nothing to give back.
    """
    if n_rows >= _MANY:
        give_back()
    return result


def give_back() -> None:
    """Gives freed memory back to the system where the C library is glibc; else does nothing."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, another system
        return None
