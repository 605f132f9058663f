"""Formats of other tools, by the words that the command line knows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath


class Target(StrEnum):
    """A format."""

    PERFETTO = "perfetto"
    PPROF = "pprof"


class By(StrEnum):
    """What the frames of a pprof profile are: a Python stack, or the parts of `op_name`."""

    STACK = "stack"
    SCOPE = "scope"


_ENDINGS = {
    ".pftrace": Target.PERFETTO,
    ".perfetto-trace": Target.PERFETTO,
    ".pb.gz": Target.PPROF,
    ".pprof": Target.PPROF,
}


def target_of(path: PurePath) -> Target | None:
    """The format that a file's name asks for; None when it doesn't say."""
    return next((t for ending, t in _ENDINGS.items() if path.name.endswith(ending)), None)
