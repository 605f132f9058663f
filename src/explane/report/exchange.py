"""Puts a finished folder in the place of another one in a single step of the file system."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_RENAME_SWAP: Final = 2


def put_in_place(new: Path, target: Path, old: Path) -> None:
    """Moves `new` to `target`; what stood there is removed afterwards.

    Where the system can exchange two names (Linux, macOS) there is no moment at which `target` is
    missing or mixed. Elsewhere the old folder is moved to `old` first; `restore` puts it back when
    the process died between the two moves.

    Args:
        new: A finished folder in the same parent.
        target: Its final name; may be missing, an empty folder, or an older output.
        old: Name for the old folder while both exist.

    Raises:
        OSError: When the file system refuses.
    """
    if not target.exists():
        new.rename(target)
    elif _exchanged(new, target):
        shutil.rmtree(new, ignore_errors=True)
    else:
        target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def restore(target: Path, old: Path) -> None:
    """Puts the old output back after a process died between the two moves of `put_in_place`."""
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(left: Path, right: Path) -> bool:
    """Exchanges two names; False where the system or the file system can't."""
    try:
        system = ctypes.CDLL(None, use_errno=True)
        a, b = os.fsencode(left), os.fsencode(right)
        if sys.platform == "darwin":
            return bool(system.renamex_np(a, b, _RENAME_SWAP) == 0)
        return bool(system.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):
        return False
