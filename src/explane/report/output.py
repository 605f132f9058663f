"""The output folder: written whole or not at all, and never over anything that is not ours.

    target/                     the old output, untouched until the last moment
    .target.explane-new/        written here
    .target.explane-lock        held while writing

A folder that explane wrote holds a file `.explane` with the digest of every other file. Only such
a folder is replaced, and only while its files are as they were written: a report in which someone
has added notes is replaced only when that is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

from explane.capture.filenames import OUTPUT_MARKER
from explane.errors import UsageError
from explane.report.exchange import put_in_place, restore
from explane.report.lock import only_writer

MARKER: Final = OUTPUT_MARKER
"""File that marks a folder as written by explane."""


class OutputFolder:
    """A folder to write, as a context: it appears when the block ends without an error.

    Args:
        path: The folder to make.
        inputs: Files and folders that are read; nothing may be written into them.
        force: Whether an output of explane may be replaced although its files were changed.

    Raises:
        UsageError: On entry when the folder can't be written, on leaving when the disk is full.
    """

    def __init__(self, path: Path, inputs: Sequence[Path] = (), force: bool = False):
        self.target = resolved(path)
        self._new = self.target.with_name(f".{self.target.name}.explane-new")
        self._old = self.target.with_name(f".{self.target.name}.explane-old")
        self._inputs, self._force = tuple(inputs), force
        self._digests: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> OutputFolder:
        refuse_unsafe(self.target, self._inputs, self._force)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(_terminable())
            self._stack.enter_context(only_writer(self.target))
            self._stack.callback(_remove, self._new)
            restore(self.target, self._old)
            shutil.rmtree(self._new, ignore_errors=True)
            self._new.mkdir()
        except OSError as error:
            self._stack.close()
            raise _cannot_write(self.target, error) from error
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
            elif isinstance(error, OSError) and _is_within(error.filename, self._new):
                raise _cannot_write(self.target, error) from error
        finally:
            self._stack.close()

    def file(self, relative: str) -> Path:
        """Path to write one file to; its folders are made.

        Args:
            relative: Slash-separated path inside the folder.

        Raises:
            ValueError: When it would lead outside.
        """
        path = self._new / relative
        self._digests.pop(relative, None)
        if not path.resolve().is_relative_to(self._new) or path == self._new:
            raise ValueError(f"outside the output folder: {relative!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, relative: str, text: str) -> None:
        """Writes a text file as UTF-8 with line feeds."""
        self.write_bytes(relative, text.encode("utf-8", "replace"))

    def write_parts(self, relative: str, parts: Iterable[str]) -> None:
        """Writes a text file as `write_text`, from parts that need not be in memory at once."""
        path = self.file(relative)
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(parts)

    def write_bytes(self, relative: str, content: bytes) -> None:
        """Writes a file."""
        self.file(relative).write_bytes(content)

    def digest(self, relative: str) -> str:
        """SHA-256 of a file that has been written; it is read once, also for the marker."""
        if relative not in self._digests:
            self._digests[relative] = file_digest(self._new / relative)
        return self._digests[relative]

    def _finish(self) -> None:
        """Marks the folder and puts it in its place."""
        try:
            refuse_unsafe(self.target, self._inputs, self._force)
            marker = {"written_by": "explane", "files": self._all_digests()}
            text = json.dumps(marker, indent=1, ensure_ascii=False)
            (self._new / MARKER).write_text(text + "\n", encoding="utf-8")
            put_in_place(self._new, self.target, self._old)
        except OSError as error:
            raise _cannot_write(self.target, error) from error

    def _all_digests(self) -> dict[str, str]:
        """SHA-256 of every file, by slash-separated path, sorted."""
        return {name: self.digest(name) for name in _names(self._new)}


def _remove(folder: Path) -> None:
    """Removes a folder, to the end also when a signal interrupts it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def refuse_unsafe(target: Path, inputs: Sequence[Path] = (), force: bool = False) -> None:
    """Refuses an output that would touch the input or anything that explane did not write.

    Cheap enough to be called before the work begins.

    Raises:
        UsageError: With what is wrong and what to do.
    """
    target = resolved(target)
    for path in inputs:
        folder = resolved(path) if path.is_dir() else resolved(path).parent
        if target == folder or target.is_relative_to(folder):
            reason, slug = "lies inside the capture's folder, which is never written to", "input"
        elif folder.is_relative_to(target):
            reason, slug = "holds the capture, which must not be replaced", "input"
        else:
            continue
        raise UsageError(target, reason, "choose a folder elsewhere with -o", f"output-{slug}")
    if not os.path.lexists(target):
        return
    problem = _not_replaceable(target, force)
    if problem:
        raise UsageError(target, *problem)


def resolved(path: Path) -> Path:
    """The path without links and relative parts.

    Raises:
        UsageError: When it can't be a path (a NUL in it, links that lead in a circle).
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"is no usable path: {error}"
        raise UsageError(path, reason, "choose another", "bad-path") from error


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder but the marker, by slash-separated path, sorted."""
    return {name: file_digest(folder / name) for name in _names(folder)}


def _names(folder: Path) -> list[str]:
    """Slash-separated paths of the files in a folder, sorted, without the marker."""
    files = sorted(p for p in folder.rglob("*") if not p.is_dir() and p != folder / MARKER)
    return [p.relative_to(folder).as_posix() for p in files]


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_replaceable(target: Path, force: bool) -> tuple[str, str, str] | None:
    """Why an existing output must stay: reason, remedy, slug; None when it may go."""
    if not target.is_dir():
        return "exists and is not a folder", "choose another with -o", "output-foreign"
    try:
        if not any(target.iterdir()):
            return None
        marker = json.loads((target / MARKER).read_text(encoding="utf-8"))
        files = dict(marker["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        reason = "exists and was not written by explane"
        return reason, "choose another with -o, or remove it yourself", "output-foreign"
    changed = sorted({k for k, _ in files.items() ^ digests(target).items()})
    if changed and not force:
        reason = f"{changed[0]} was changed or added since explane wrote the folder"
        return reason, "choose another with -o, or replace it with --force", "output-edited"
    return None


def _cannot_write(target: Path, error: OSError) -> UsageError:
    reason = f"can't be written: {error.strerror or error}"
    remedy = "free space there or choose another folder with -o"
    return UsageError(target, reason, remedy, "output-failed")


def _is_within(name: object, folder: Path) -> bool:
    """Whether an error names a file in the folder; errors of native writers name none."""
    if name is None:
        return True
    return isinstance(name, str | bytes) and Path(os.fsdecode(name)).is_relative_to(folder)


@contextmanager
def _terminable() -> Iterator[None]:
    """Lets SIGTERM end the process by an exception, so that nothing half-written is left.

    Only in the main thread, and only where nobody else handles the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGTERM)
    if previous is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
