"""Walks folders in search of captures: every folder once, in a fixed order, within a bound."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explane.capture.filenames import OUTPUT_MARKER, FileRole, role_of, why_derived
from explane.errors import CaptureError

MAX_FOLDERS: Final = 20_000
MAX_DEPTH: Final = 12


@dataclass(frozen=True, slots=True)
class Folder:
    """What one folder holds.

    Attributes:
        path: The folder, as reached.
        files: Names of regular files (links resolved), sorted.
        n_folders: Number of folders in it.
        broken: Links that lead nowhere and things that are neither file nor folder.
    """

    path: Path
    files: tuple[str, ...]
    n_folders: int
    broken: tuple[str, ...]

    @property
    def is_output(self) -> bool:
        """Whether explane wrote this folder."""
        return OUTPUT_MARKER in self.files

    @property
    def holds_capture(self) -> bool:
        """Whether it holds an xplane or a trace JSON."""
        return bool(self.of_role(FileRole.XPLANE) or self.of_role(FileRole.TRACE_JSON))

    def of_role(self, role: FileRole) -> list[Path]:
        """Its files of one role, sorted by name."""
        return [self.path / name for name in self.files if role_of(name) is role]

    def not_captures(self) -> list[tuple[Path, str]]:
        """Its files that are no captures, with the reason."""
        words = {FileRole.UNFINISHED: "unfinished", FileRole.OTHER: "not a capture by its name"}
        left_out = [
            (self.path / name, why_derived(name) or words[role_of(name)])
            for name in self.files
            if role_of(name) not in (FileRole.XPLANE, FileRole.TRACE_JSON)
        ]
        return left_out + [(self.path / name, "neither file nor folder") for name in self.broken]


@dataclass(frozen=True, slots=True)
class Tree:
    """Folders below a root (the root first), outputs of explane and what could not be listed."""

    folders: tuple[Folder, ...]
    outputs: tuple[Path, ...]
    unreadable: tuple[tuple[Path, str], ...]


def listed(path: Path) -> Folder:
    """Lists one folder.

    Raises:
        CaptureError: When the folder can't be listed.
    """
    folder, _ = _list(path)
    return folder


def search(root: Path) -> Tree:
    """All folders from `root` down, breadth first, hidden ones and outputs of explane left out.

    Raises:
        CaptureError: When the root can't be listed, or more than `MAX_FOLDERS` lie below it.
    """
    folders: list[Folder] = []
    outputs: list[Path] = []
    unreadable: list[tuple[Path, str]] = []
    seen: set[tuple[int, int]] = set()
    queue = deque([(root, 0)])
    while queue:
        path, depth = queue.popleft()
        try:
            identity = path.stat()
            if (identity.st_dev, identity.st_ino) in seen:
                continue
            seen.add((identity.st_dev, identity.st_ino))
            folder, below = _list(path)
        except (OSError, CaptureError) as error:
            if path == root:
                raise
            unreadable.append((path, getattr(error, "reason", None) or str(error)))
            continue
        if folder.is_output:
            outputs.append(path)
            continue
        folders.append(folder)
        if len(folders) > MAX_FOLDERS:
            reason = f"more than {MAX_FOLDERS:,} folders below it"
            raise CaptureError(root, reason, "give the run folder itself", "too-many-folders")
        if depth < MAX_DEPTH:
            queue.extend((sub, depth + 1) for sub in below)
    return Tree(tuple(folders), tuple(outputs), tuple(unreadable))


def _list(path: Path) -> tuple[Folder, list[Path]]:
    """One folder and the folders in it (hidden ones left out), both sorted by name."""
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        reason = f"can't be listed: {error.strerror}"
        raise CaptureError(path, reason, "check its permissions", "unreadable") from None
    files, below, broken = [], [], []
    for entry in found:
        if _is(entry, "file"):
            files.append(entry.name)
        elif _is(entry, "dir"):
            if not entry.name.startswith("."):
                below.append(path / entry.name)
        else:
            broken.append(entry.name)
    return Folder(path, tuple(files), len(below), tuple(broken)), below


def _is(entry: os.DirEntry[str], kind: str) -> bool:
    """Whether an entry (its link followed) is a file or a folder; False for a loop of links."""
    try:
        return entry.is_file() if kind == "file" else entry.is_dir()
    except OSError:
        return False
