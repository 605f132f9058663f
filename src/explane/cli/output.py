"""What a command prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from explane.errors import one_line

_LONGEST_LINE = 2_000


class ReaderGoneError(Exception):
    """Whoever read standard output has closed it, as `head` does; not a failure."""


def show_lines(lines: Iterable[str]) -> None:
    """Prints result lines; control characters of hostile names never reach the terminal.

    Raises:
        ReaderGoneError: When nobody reads any more.
    """
    try:
        for line in lines:
            print(one_line(line, _LONGEST_LINE))
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def show_wrote(path: Path) -> None:
    """Says where the output is, on standard error."""
    print(f"Wrote {one_line(str(path))}", file=sys.stderr)
