"""How a use case says what it is doing: stages with a name and, where known, a total.

The library takes a `Progress` as an argument and never looks at a terminal. `NULL` is for callers
that don't want to know; the command line brings one that draws bars.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class Stage(Protocol):
    """One running stage."""

    def advance(self, amount: int) -> None:
        """Counts `amount` more units (bytes, hosts, mutants, …) of the stage's total as done."""


class Progress(Protocol):
    """Opens stages; they may nest, and may be opened on several threads."""

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A context for one stage.

        Args:
            name: What is being done, for people, behind the part of the work that it belongs to:
                `decode: events`, `write: page` (see `explane.timings`).
            total: Units of the whole stage, bytes when it reads a file; None when not known.
        """


class _SilentStage:
    """Swallows every call."""

    def advance(self, amount: int) -> None:
        """Does nothing."""


class _SilentProgress:
    """Opens stages that nobody sees."""

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """A context that does nothing."""
        return nullcontext(_SilentStage())


#: Progress for callers that don't want any.
NULL: Final[Progress] = _SilentProgress()
