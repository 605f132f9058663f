"""What a use case hands back to its caller; the files that it wrote are already in place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a use case.

    Attributes:
        lines: Summary for people, one line each, without control characters.
        partial: True when a result was made and parts had to be withheld (exit code 3).
        folder: The folder or file that was written; None when nothing was.
    """

    lines: tuple[str, ...]
    partial: bool = False
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of a fact check.

    Attributes:
        problems: One line per number that is unbacked, edited or different when recomputed.
        n_claims: Claims that were recomputed.
    """

    problems: tuple[str, ...]
    n_claims: int = 0
