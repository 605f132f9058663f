"""One output file: written whole or not at all, never over a file that was there, unless asked.

trace.pftrace                       the old file, untouched until the last moment
.trace.pftrace.explane-new          written here
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from explane.errors import UsageError
from explane.report.lock import only_writer
from explane.report.output import resolved


@contextmanager
def new_file(path: Path, inputs: Sequence[Path] = (), force: bool = False) -> Iterator[BinaryIO]:
    """A file to write; it appears when the block ends without an error.

    Args:
        path: The file to make.
        inputs: Files and folders that are read; nothing may be written into them.
        force: Whether a file that exists may be replaced.

    Raises:
        UsageError: When the file may not or can't be written.
    """
    target = resolved(path)
    refuse_file(target, inputs, force)
    new = target.with_name(f".{target.name}.explane-new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(target):
            try:
                with new.open("wb") as stream:
                    yield stream
                new.replace(target)
            finally:
                new.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is not None and Path(str(error.filename)).parent != target.parent:
            raise
        reason = f"can't be written: {error.strerror or error}"
        remedy = "free space there or choose another file with -o"
        raise UsageError(target, reason, remedy, "output-failed") from error


def refuse_file(path: Path, inputs: Sequence[Path] = (), force: bool = False) -> None:
    """Refuses a file that exists, or that would lie inside the capture's folder.

    Cheap enough to be called before the work begins.

    Raises:
        UsageError: With what is wrong and what to do.
    """
    target = resolved(path)
    for given in inputs:
        folder = resolved(given) if given.is_dir() else resolved(given).parent
        if target.is_relative_to(folder):
            reason = "lies inside the capture's folder, which is never written to"
            raise UsageError(target, reason, "choose a file elsewhere with -o", "output-input")
    if target.exists() and not target.is_file():
        remedy = "give the name of a file with -o"
        raise UsageError(target, "exists and is no file", remedy, "output-foreign")
    if target.exists() and not force:
        remedy = "choose another with -o, or replace it with --force"
        raise UsageError(target, "exists", remedy, "output-exists")
