"""Texts of Python lines from a folder that the user names; nothing else is ever opened.

The paths in a capture are from another machine and may be hostile, so they are never opened as
they are: a file is looked for inside the given folder under each ending of its path, the longest
first, and must lie in it.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

import polars as pl

_LARGEST_BYTES: Final = 4 << 20
_LONGEST_LINE: Final = 200
SCHEMA: Final = {"source_file": pl.String, "source_line": pl.Int64, "code": pl.String}


def line_texts(lines: pl.DataFrame, folder: Path | None) -> pl.DataFrame:
    """Table `line_texts`: the text of each line of the `lines` table that can be found.

    Args:
        lines: `lines` table.
        folder: Where the program's sources lie; None for none.
    """
    if folder is None or lines.height == 0:
        return pl.DataFrame(schema=SCHEMA)
    root = folder.resolve()
    wanted = (
        lines.select("source_file", "source_line")
        .drop_nulls()
        .unique()
        .sort("source_file", "source_line")
    )
    rows: list[tuple[str, int, str]] = []
    for (name,), part in wanted.group_by(["source_file"], maintain_order=True):
        text = source_text(str(name), root)
        if text is None:
            continue
        rows += [
            (str(name), line, text[line - 1].strip()[:_LONGEST_LINE])
            for line in part["source_line"]
            if 0 < line <= len(text)
        ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def source_text(name: str, root: Path) -> list[str] | None:
    """Lines of a file found inside the folder; None when it is not there or can't be read.

    Args:
        name: Path as the capture has it.
        root: Resolved path of the folder.
    """
    parts = (PureWindowsPath(name) if "\\" in name else PurePosixPath(name)).parts
    for first in range(len(parts)):
        try:
            path = root.joinpath(*parts[first:]).resolve()
            if not path.is_relative_to(root) or not path.is_file():
                continue
            if path.stat().st_size <= _LARGEST_BYTES:
                return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, ValueError, RuntimeError):
            continue
    return None
